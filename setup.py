"""Builds the C extension; everything else about the distribution is in pyproject.toml."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "sparkapp.native._kafka_arrow",
            sources=["sparkapp/native/_kafka_arrow.c"],
            extra_compile_args=["-O3", "-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter"],
            libraries=["dl"],
            optional=True,  # without a C compiler the plain fallback serves, at about half the speed
        )
    ]
)

"""Builds the C extension; everything else about the distribution is in pyproject.toml."""

import os
from pathlib import Path

from setuptools import Extension, setup

PARTS = Path("sparkapp/dataplane/native/ext")

setup(
    ext_modules=[
        Extension(
            "sparkapp.dataplane.native._kafka_arrow",
            sources=["sparkapp/dataplane/native/_kafka_arrow.c", *map(str, sorted(PARTS.glob("*/*.c")))],
            depends=[str(header) for header in sorted(PARTS.glob("*/*.h"))],
            include_dirs=[str(part) for part in sorted(PARTS.iterdir())],
            define_macros=[("_GNU_SOURCE", None)],
            extra_compile_args=["-O3", "-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter"],
            libraries=["dl", "pthread"],
            # Without a C compiler the plain fallback serves, at a fraction of the speed. The image refuses it.
            optional=os.environ.get("KAFKASPARK_NATIVE") != "required",
        )
    ]
)

"""Environment variables that a job may give to its containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkapp.model.encoding.fields import Fields
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.client.secret_names import carries_secret, names_secret
from sparkapp.model.job.rules.object_names import check_object_name

INSTEAD_OF_A_VALUE = (
    "put it into a Secret, and name its key in driver.env and executor.env with valueFrom.secretKeyRef. Rename it if it"
    " is no credential"
)
RESERVED_PREFIXES = ("KAFKASPARK_", "SPARK_", "PYSPARK_", "KUBERNETES_")
RESERVED_NAMES = ("HOME", "PYTHONPATH")
FREE_NAMES = ("KAFKASPARK_LOG_LEVEL",)
"""Variables of the operator's family that the user may set."""


def check_variable(name: str, variable: Mapping[str, Any], path: str) -> None:
    """Checks one item of a list of variables.

    :param path: of the list.
    :raises ConfigurationError: the operator sets the variable, its value looks like a credential, or no object can have
        the name that it refers to.
    """
    if _reserved(name):
        msg = f"{path}: {name!r} is set by the operator"
        raise ConfigurationError(msg, remedy="give the variable another name")
    if "value" in variable and (names_secret(name) or carries_secret(str(variable["value"]))):
        msg = f"{path}: the value of {name} looks like a credential"
        raise ConfigurationError(msg, remedy=INSTEAD_OF_A_VALUE)
    source = variable.get("valueFrom")
    for kind in ("secretKeyRef", "configMapKeyRef"):
        key = source.get(kind) if isinstance(source, Mapping) else None
        referred = key.get("name") if isinstance(key, Mapping) else None
        if isinstance(referred, str):
            check_object_name(referred, f"{path}: {name}.valueFrom.{kind}.name")


def environment_from(pod: Fields, name: str) -> tuple[Mapping[str, Any], ...]:
    """Reads ``driver.env`` or ``executor.env``; called by ``encoding.resource``.

    :raises ConfigurationError: as :func:`check_variable`; or a variable has no value, or two.
    """
    env = pod.objects(name)
    for index, variable in enumerate(env):
        named = Fields(variable, f"{pod.path}.{name}[{index}]").string("name")
        check_variable(named, variable, f"{pod.path}.{name}")
        _check_origin(named, variable, f"{pod.path}.{name}")
    return tuple(env)


def _check_origin(name: str, variable: Mapping[str, Any], path: str) -> None:
    if ("value" in variable) == ("valueFrom" in variable):
        msg = f"{path}: {name} needs exactly one of value and valueFrom"
        raise ConfigurationError(msg)
    source = variable.get("valueFrom")
    if isinstance(source, Mapping) and ("secretKeyRef" in source) == ("configMapKeyRef" in source):
        msg = f"{path}: {name}.valueFrom needs exactly one of secretKeyRef and configMapKeyRef"
        raise ConfigurationError(msg)


def _reserved(name: str) -> bool:
    return name in RESERVED_NAMES or (name.startswith(RESERVED_PREFIXES) and name not in FREE_NAMES)

"""One rule between a job's fields. Pure."""

from __future__ import annotations

from sparkapp.model.errors.configuration import ConfigurationError


def require(condition: bool, where: str, message: str, remedy: str | None = None) -> None:
    """Refuses a spec.

    :param where: path of the field.
    :param message: what does not work, after the path. :param remedy: what to set instead.
    :raises ConfigurationError: the condition is false.
    """
    if not condition:
        msg = f"{where}: {message}"
        raise ConfigurationError(msg, remedy=remedy)

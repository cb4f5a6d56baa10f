"""One rule between a job's fields."""

from __future__ import annotations

from sparkapp.model.errors import ConfigurationError


def require(condition: bool, where: str, message: str, remedy: str | None = None) -> None:
    """
    :param where: path of the field.
    :raises ConfigurationError: the condition is false.
    """
    if not condition:
        msg = f"{where}: {message}"
        raise ConfigurationError(msg, remedy=remedy)

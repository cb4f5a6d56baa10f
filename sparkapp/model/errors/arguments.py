"""Type checks of arguments of the model's arithmetic, which would compute with values of other types, too."""

from __future__ import annotations

from sparkapp.model.errors.base import InvalidArgument


def check_whole(name: str, value: object, low: int) -> None:
    """
    :param name: of the argument, for the message.
    :raises InvalidArgument: no whole number of at least ``low``. True is none.
    """
    if type(value) is not int or value < low:
        msg = f"{name} must be a whole number of at least {low}, not {value!r}"
        raise InvalidArgument(msg)


def check_text(name: str, value: object) -> None:
    """
    :param name: of the argument, for the message.
    :raises InvalidArgument: no text.
    """
    if not isinstance(value, str):
        msg = f"{name} must be a text, not {value!r}"
        raise InvalidArgument(msg)

"""Reads JSON values that job code may have written, within the bounds of status, events and arithmetic."""

from __future__ import annotations

from sparkapp.model.encoding.times import format_time, parse_time


def whole_of(value: object) -> int:
    """
    :raises ValueError: no whole number of Kubernetes from 0 on.
    """
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(value)
    return value


def text_of(value: object) -> str:
    """The text in UTF-8. Half a surrogate pair, which JSON can have and UTF-8 cannot, becomes a question mark.

    :raises TypeError: no text.
    """
    if not isinstance(value, str):
        raise TypeError(value)
    return value.encode(errors="replace").decode()


def time_of(value: object) -> str:
    """The time as Kubernetes writes it; empty where there is none.

    :raises TypeError: no text. :raises ValueError: no time.
    """
    text = text_of(value)
    time = parse_time(text)
    if text and time is None:
        raise ValueError(text)
    return format_time(time) if time is not None else ""

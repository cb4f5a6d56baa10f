"""Imports what the job's spec names in a module of the user."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from sparkapp.model.errors import TransformError
from sparkapp.spark.frames.user_frames import frames_of, user_frame
from sparkapp.spark.launch.user_modules import check_user_modules, find_user_modules


def imported(name: str, *, field: str) -> Callable[..., Any]:
    """The function or class ``module:name``.

    The driver calls it before Spark starts, so that code that does not import fails within seconds. Tasks call it for
    what they run themselves.

    :param field: of the spec that names it, for messages.
    :raises TransformError: the import fails (the message has the user's own line), or there is no such function. A
        module of the user has the name of another.
    """
    module_name, _, function_name = name.partition(":")
    check_user_modules()
    find_user_modules()
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        msg = f"module {module_name!r} of {field} does not import: {last_line(error)}"
        raise TransformError(msg) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        msg = f"module {module_name!r} has no function {function_name!r}"
        raise TransformError(msg)
    return function  # type: ignore[no-any-return]


def last_line(error: BaseException) -> str:
    """An exception as Python prints it, and the user's line that raised it."""
    frame = user_frame(frames_of(error))
    return f"{type(error).__name__}: {error}" + (f" ({frame})" if frame is not None else "")

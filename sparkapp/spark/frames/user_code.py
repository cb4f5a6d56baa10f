"""Imports what the job's spec names in a module of the user, before Spark has a session or after it has one."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException

from sparkapp.model.errors import TransformError
from sparkapp.spark.frames.user_frames import frames_of, user_frame
from sparkapp.spark.launch.user_modules import check_user_modules, find_user_modules

_NO_SESSION = frozenset({"SESSION_OR_CONTEXT_NOT_EXISTS", "NO_ACTIVE_OR_DEFAULT_SESSION"})
"""Conditions of PySpark's errors."""
_SHOWN = 10
_STARTS = "_ensure_initialized"
"""What every ``SparkContext`` calls first."""


class SessionNeeded(Exception):
    """A module starts Spark while it is imported."""


def imported(name: str, *, field: str) -> Callable[..., Any]:
    """The function or class ``module:name``.

    The driver calls it, and tasks for what they run themselves.

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
        msg = f"module {module_name!r} of {field} has no function {function_name!r}; it has {_functions_of(module)}"
        raise TransformError(msg)
    return function  # type: ignore[no-any-return]


def _functions_of(module: ModuleType) -> str:
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    public = [name for name in own if callable(vars(module)[name]) and not name.startswith("_")]
    return ", ".join(public[:_SHOWN]) or "none"


@contextmanager
def without_session() -> Iterator[None]:
    """Around imports before Spark starts: no module starts Spark, because its session would lack the job's settings.

    Python forgets a module that fails, and the next import runs it again.
    """
    if SparkContext._active_spark_context is not None:
        yield
        return
    original = vars(SparkContext)[_STARTS]
    setattr(SparkContext, _STARTS, classmethod(_refuse))
    try:
        yield
    finally:
        setattr(SparkContext, _STARTS, original)


def _refuse(_: type[SparkContext], *__: Any, **___: Any) -> None:
    raise SessionNeeded


def needs_session(error: BaseException | None) -> bool:
    """Whether a module has raised this because Spark has no session yet."""
    if error is None or SparkContext._active_spark_context is not None:
        return False
    if isinstance(error, PySparkException):
        return error.getCondition() in _NO_SESSION
    # Functions of columns assert that there is a context.
    frames = traceback.extract_tb(error.__traceback__)
    is_pysparks = isinstance(error, AssertionError) and bool(frames) and "pyspark" in frames[-1].filename
    return is_pysparks or isinstance(error, SessionNeeded)


def last_line(error: BaseException) -> str:
    """An exception as Python prints it, and the user's line that raised it."""
    frame = user_frame(frames_of(error))
    return f"{type(error).__name__}: {error}" + (f" ({frame})" if frame is not None else "")

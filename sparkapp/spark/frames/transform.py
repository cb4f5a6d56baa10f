"""The user's transform: a Python function DataFrame -> DataFrame, a SQL query over the view ``source``, or nothing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from sparkapp.model.errors import KafkaSparkJobError, TransformError
from sparkapp.model.job.spec import Transform
from sparkapp.spark.frames.user_frames import frames_of, user_frame
from sparkapp.spark.launch.settings import code_directory

Function = Callable[[DataFrame], DataFrame]


def import_function(transform: Transform) -> Function | None:
    """Imports ``module:function``; None if the transform is not a Python function.

    Called before Spark starts, so that code that does not import fails within seconds.

    :raises TransformError: the import fails (the message has the user's own line), or there is no such function.
    """
    if not transform.function:
        return None
    module_name, _, function_name = transform.function.partition(":")
    directory = code_directory()
    if Path(directory).is_dir() and directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        msg = f"module {module_name!r} of spec.transform.python.function does not import: {_last_line(error)}"
        raise TransformError(msg) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        msg = f"module {module_name!r} has no function {function_name!r}"
        raise TransformError(msg)
    return function  # type: ignore[no-any-return]


def apply_transform(
    source: DataFrame, transform: Transform, function: Function | None, spark: SparkSession
) -> DataFrame:
    """The transformed stream; called by the engine's query before it starts.

    :param source: the decoded records; a view ``source`` for SQL.
    :param function: what :func:`import_function` returned.
    :raises TransformError: the function raises or returns no DataFrame, or the query does not analyse.
    """
    try:
        if function is not None:
            result = function(source)
        elif transform.sql:
            source.createOrReplaceTempView("source")
            result = spark.sql(transform.sql)
        else:
            return source
    except KafkaSparkJobError:
        raise
    except PySparkException as error:
        msg = f"the transform does not plan: {str(error).strip().splitlines()[0]}"
        raise TransformError(msg) from error
    except Exception as error:
        msg = f"the transform {transform.function} raised {_last_line(error)}"
        raise TransformError(msg) from error
    if not isinstance(result, DataFrame):
        msg = f"the transform {transform.function} returned {type(result).__name__}, not a DataFrame"
        raise TransformError(msg)
    return result


@contextmanager
def refused_by_streaming() -> Iterator[None]:
    """Around the start of the query, when Spark checks which operators a stream cannot have.

    :raises TransformError: with Spark's message.
    """
    try:
        yield
    except AnalysisException as error:
        msg = f"the transform cannot run on a stream: {str(error).strip().splitlines()[0]}"
        raise TransformError(
            msg,
            remedy="correct spec.transform. An aggregation in outputMode append needs withWatermark, which makes rows"
            " final; or set spec.transform.outputMode: update",
        ) from error


def _last_line(error: BaseException) -> str:
    frame = user_frame(frames_of(error))
    return f"{type(error).__name__}: {error}" + (f" ({frame})" if frame is not None else "")

"""The user's transform: a Python function, a SQL query over the view ``source``, or nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sparkapp.model.errors import KafkaSparkJobError, TransformError
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import JobSpec
from sparkapp.spark.frames.batch_transform import RESULT_SCHEMA, import_arrow, map_in_arrow
from sparkapp.spark.frames.failed.failed_records import FailedRecords
from sparkapp.spark.frames.user_code import imported, last_line, needs_session, without_session
from sparkapp.spark.frames.user_frames import frames_of, user_frame

LOG = logging.getLogger(__name__)

Function = Callable[[DataFrame], DataFrame]


def check_code(transform: Transform) -> None:
    """Imports the code before Spark starts, so that code that does not import fails within seconds.

    A module that uses Spark while it is imported, as ``@udf("string")`` does, is left to :func:`import_function`.

    :raises TransformError: see :func:`sparkapp.spark.frames.user_code.imported`.
    """
    try:
        with without_session():
            import_function(transform)
    except TransformError as error:
        if not needs_session(error.__cause__):
            raise
        LOG.info("the module of spec.transform uses Spark while it is imported, and is imported when Spark runs")


def import_function(transform: Transform) -> Function | None:
    """Imports the function that the spec names; called by the driver when Spark has a session.

    :returns: ``transform.python.function``; None without it. An Arrow function runs in tasks, which import it.
    :raises TransformError: see :func:`sparkapp.spark.frames.user_code.imported`.
    """
    if transform.arrow.name:
        import_arrow(transform.arrow)
    if not transform.function:
        return None
    return imported(transform.function, field="spec.transform.python.function")


def apply_transform(
    source: DataFrame,
    spec: JobSpec,
    function: Function | None,
    spark: SparkSession,
    *,
    failed: FailedRecords | None = None,
) -> DataFrame:
    """The transformed stream; called by the engine's query before it starts.

    :param source: the decoded records; a view ``source`` for SQL.
    :param function: what :func:`import_function` returned.
    :param failed: takes the records for which an Arrow function raises; None where they fail the task.
    :raises TransformError: the function raises or returns no DataFrame, or the query does not analyse.
    """
    transform = spec.transform
    try:
        if function is not None:
            result = function(source)
        elif transform.arrow.name:
            stage: Any = partial(map_in_arrow, transform.arrow, spec.sink, failed=failed)
            return source.mapInArrow(stage, from_arrow_schema(RESULT_SCHEMA))
        elif transform.sql:
            source.createOrReplaceTempView("source")
            result = spark.sql(transform.sql)
        else:
            return source
    except KafkaSparkJobError:
        raise
    except PySparkException as error:
        frame = user_frame(frames_of(error))
        where = f" ({frame})" if frame is not None else ""
        msg = f"the transform does not plan: {str(error).strip().splitlines()[0]}{where}"
        raise TransformError(msg) from error
    except Exception as error:
        msg = f"the transform {transform.function} raised {last_line(error)}"
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

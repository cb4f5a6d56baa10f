"""Tests of transforms: runs a job over records, as the job would read and write them.

.. code-block:: python

    from kafkaspark.testing import Record, run_transform

    def test_small_orders_are_left_out():
        written = run_transform("job.yaml", [{"id": 1, "amount": 250}, {"id": 2, "amount": 5}])
        assert [record.json["id"] for record in written] == [1]
"""

from __future__ import annotations

import atexit
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaspark.local.output import Output
from kafkaspark.local.project import project_of, read_project
from kafkaspark.local.records import Record, as_record

if TYPE_CHECKING:
    from kafkaspark.local.spark import LocalSpark

__all__ = ["OtherVersions", "Output", "Record", "run_transform", "stop_spark"]


class OtherVersions(UserWarning):
    """This environment has other versions of packages than the job image."""


def run_transform(
    job: str | Path | Mapping[str, Any],
    records: Iterable[object] = (),
    *,
    checkpoints: Iterable[Sequence[object]] | None = None,
    name: str = "",
) -> Output:
    """Runs a job over records and returns what it writes. Needs neither Kafka nor Kubernetes.

    The records are decoded by ``source.format``, with ``onRecordError``. The results are encoded as for the sink. A job
    of the micro-batch engine runs as a stream of Spark, with its state and watermark. A job of the continuous engine
    runs without Spark.

    :param job: file with the resource, or the resource. Modules are found as by ``kafkaspark dev``.
    :param records: of a single checkpoint: :class:`Record`, or values that become records.
    :param checkpoints: the records of several checkpoints, in place of ``records``. A watermark moves between them.
    :param name: of the resource, where the file has several.
    :raises OSError: the file cannot be read.
    :raises KafkaSparkJobError: as the operator refuses the job, or as the job would fail.
    """
    _warn()
    if isinstance(job, Mapping):
        project = project_of(job, folder=Path.cwd(), environ=os.environ)
    else:
        project = read_project(Path(job), name=name, environ=os.environ)
    given = [list(records)] if checkpoints is None else checkpoints
    from kafkaspark.local.run import run_project

    return run_project(project, [[as_record(item) for item in each] for each in given], _spark())


def stop_spark() -> None:
    """Stops the Spark that the tests share; a later test starts another. Called at the end of pytest's session."""
    if _spark.cache_info().currsize:
        _spark().close()
        _spark.cache_clear()


@cache
def _spark() -> LocalSpark:
    from kafkaspark.local.spark import open_spark

    atexit.register(stop_spark)
    return open_spark()


@cache
def _warn() -> None:
    from kafkaspark.local.versions import differences, remedy

    found = "; ".join(differences())
    if found:
        warnings.warn(f"{found}. Install the image's versions: {remedy()}", OtherVersions, stacklevel=3)

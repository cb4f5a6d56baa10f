"""This project's engine as a contestant: the driver of a job, without Kubernetes."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from bench.engine_job import engine_driver, engine_job, engine_session
from bench.peers.programs.task_lines import TaskLine, serve
from bench.peers.workload import EVENT_COLUMNS, JSON_COLUMNS, LARGE, Shape
from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.model.delivery_guarantee import DeliveryGuarantee, OffsetCommit
from sparkapp.model.job.sections.source import DEFAULT_MAX_OFFSETS
from sparkapp.model.job.spec import Engine
from sparkapp.model.report import AttemptOutcome

_QUERY = (
    f"SELECT to_json(struct(value.id, value.customer, value.amount)) AS value FROM source WHERE value.amount > {LARGE}"
)
_FUNCTION = "bench.peers.programs.large_orders:large_orders"
_KEY_AND_VALUE_QUERY = "SELECT key, value FROM source"
_KEY_AND_VALUE_FUNCTION = "bench.peers.programs.same_records:same_records"
_KEYED = {
    Shape.COUNT: "bench.peers.programs.keyed:counted", Shape.DEDUPLICATE: "bench.peers.programs.keyed:first_of_each",
}  # fmt: skip
_SCHEMAS = {Shape.PROJECT: JSON_COLUMNS} | dict.fromkeys(_KEYED, EVENT_COLUMNS)
_CHECKPOINTS = {Engine.MICRO_BATCH: 5, Engine.CONTINUOUS: 2}
"""Of a task over the whole topic: each takes about a second, as with the other contestants."""
_RECORDS_A_SECOND = 2_000_000
"""That the continuous engine hardly exceeds, so none of its checkpoints takes much longer than a second."""
_UNBOUNDED_RECORDS = 1_000_000


def main() -> None:
    """Serves tasks with one session."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parallelism", type=int, required=True)
    spark = engine_session(parser.parse_args().parallelism)
    serve(lambda task: run(spark, task))


def run(spark: SparkSession, task: TaskLine) -> float:
    """One job.

    :returns: the moment of its last completed checkpoint.
    """
    shape = Shape(task["shape"])
    engine = Engine(task.get("engine", Engine.MICRO_BATCH))
    query, function = _transform(task, shape)
    is_function = engine is Engine.CONTINUOUS and task.get("transform") != "sql"
    linger = task.get("linger-millis")
    commit_interval_millis = int(task.get("commit-interval-millis", "0"))
    # Subtasks that commit by themselves have no plan, so no share of the records a checkpoint.
    is_planned = task.records and not commit_interval_millis
    job = engine_job(
        task["bootstrap"], task["source"], task["sink"],
        delivery_guarantee=DeliveryGuarantee(task["delivery-guarantee"]), parallelism=int(task["parallelism"]),
        records_a_checkpoint=_records_a_checkpoint(task.records, engine, shape) if is_planned else _UNBOUNDED_RECORDS,
        interval_millis=int(task["interval-millis"]), commit_interval_millis=commit_interval_millis,
        engine=engine, json_schema=_SCHEMAS.get(shape, ""),
        query="" if is_function else query, arrow_function=function if is_function else "",
        function=_KEYED.get(shape, ""),
        offset_commit=OffsetCommit(task.get("offset-commit", OffsetCommit.IN_TRANSACTION)),
        sink_properties={"linger.ms": linger} if linger else {},
    )  # fmt: skip
    done = 0
    ended = time.monotonic()

    def on_completed(checkpoint: Completed) -> None:
        nonlocal done, ended
        ended = time.monotonic()
        done += sum(split.size for split in checkpoint.document.splits)
        # The last windows are written behind the checkpoint that has read the last records.
        is_written = checkpoint.document.counters.records_out >= int(task["expected"]) if shape.keeps_state else True
        if 0 < task.records <= done and is_written:
            driver.drain()

    driver = engine_driver(job, spark, on_completed, state=Path(task["state"]) if shape.keeps_state else None)
    if not task.records:

        def drain_at_stop() -> None:
            task.await_stop()
            driver.drain()

        threading.Thread(target=drain_at_stop, daemon=True).start()
    termination = driver.run()
    if termination.outcome is not AttemptOutcome.DRAINED:
        sys.exit(str(termination))
    return ended


def _records_a_checkpoint(records: int, engine: Engine, shape: Shape) -> int:
    share = max(1, records // _CHECKPOINTS[engine])
    if shape.keeps_state:  # some ten seconds of records, with as many as in a job that sets nothing
        return min(share, DEFAULT_MAX_OFFSETS)
    return min(share, _RECORDS_A_SECOND) if engine is Engine.CONTINUOUS else share


def _transform(task: TaskLine, shape: Shape) -> tuple[str, str]:
    """The same work for both engines, as a query and as a function over Arrow batches."""
    if shape is Shape.PROJECT:
        return _QUERY, _FUNCTION
    if shape.keeps_state:
        return "", ""
    if task.get("columns") == "key-and-value":
        return _KEY_AND_VALUE_QUERY, _KEY_AND_VALUE_FUNCTION
    return "", task.get("arrow-function", "")


if __name__ == "__main__":
    main()

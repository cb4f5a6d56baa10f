"""Errors found again inside what Spark reports, and faults on order."""

from __future__ import annotations

import pytest

from sparkapp.model.errors import ConfigurationError, KafkaSparkJobError, PreCommitFailed, VolumeFull
from sparkapp.model.protocol import ProtocolStep
from sparkapp.model.report import (
    MAX_TERMINATION_BYTES,
    Outcome,
    Termination,
    decode_termination,
    encode_termination,
)
from sparkapp.spark.failures import original_error
from sparkapp.spark.faults import Faults

_SPARK_TEXT = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/app/sparkapp/spark/write_task.py", line 80, in write_partition
sparkapp.model.errors.PreCommitFailed: 3 records were not acknowledged: MSG_SIZE_TOO_LARGE

	at org.apache.spark.api.python.BasePythonRunner
"""


def test_our_error_is_found_in_sparks_text() -> None:
    error = original_error(RuntimeError(_SPARK_TEXT))
    assert type(error) is PreCommitFailed
    assert error.message == "3 records were not acknowledged: MSG_SIZE_TOO_LARGE"


def test_a_users_exception_is_shown_as_it_is() -> None:
    error = original_error("Traceback:\n  File x\nValueError: bad amount 'abc'\n\tat org.apache\n")
    assert type(error) is KafkaSparkJobError
    assert error.message == "ValueError: bad amount 'abc'"


def test_a_full_disk_is_told_by_its_name() -> None:
    text = (
        "org.apache.spark.sql.streaming.StreamingQueryException: job failed\n"
        "Caused by: java.io.IOException: No space left on device\n\tat java.base/java.io.FileOutputStream\n"
    )
    error = original_error(text)
    assert type(error) is VolumeFull
    assert error.message == "Caused by: java.io.IOException: No space left on device"
    # What ours was about is the better answer.
    assert type(original_error(_SPARK_TEXT + text)) is PreCommitFailed


def test_a_fault_is_bound_to_its_attempt() -> None:
    assert Faults(1, "after-flush@attempt=1,checkpoint=3").armed
    assert not Faults(2, "after-flush@attempt=1,checkpoint=3").armed
    assert not Faults(1, "").armed


def test_only_the_fault_before_the_flush_holds_the_writers() -> None:
    assert Faults(1, "before-flush@attempt=1,checkpoint=3").hold(3) > 0
    assert Faults(1, "before-flush@attempt=1,checkpoint=3").hold(4) == 0
    assert Faults(1, "after-write@attempt=1,checkpoint=3").hold(3) == 0
    Faults(1, "after-write@attempt=1,checkpoint=3").step(ProtocolStep.AFTER_WRITE, 2)


@pytest.mark.parametrize("order", ["now", "after-lunch@attempt=1,checkpoint=1", "after-flush@attempt=x,checkpoint=1"])
def test_an_order_that_is_not_one_is_refused(order: str) -> None:
    with pytest.raises(ConfigurationError, match="KAFKASPARK_FAULT"):
        Faults(1, order)


def test_a_long_last_word_still_fits_the_termination_log_and_can_be_read() -> None:
    word = Termination(outcome=Outcome.FAILED, reason="Long", message="中" * 1000, remedy="é" * 1000, fatal=True)
    text = encode_termination(word)
    assert len(text.encode()) <= MAX_TERMINATION_BYTES
    read = decode_termination(text)
    assert read is not None
    assert (read.reason, read.fatal) == ("Long", True)

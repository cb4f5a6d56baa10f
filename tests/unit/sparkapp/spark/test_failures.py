"""Errors found again inside what Spark reports, and faults on order."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkRuntimeError

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.encoding.error_object import encode_error
from sparkapp.model.errors import (
    KafkaSparkJobError,
    PreCommitFailed,
    RecordFailed,
    SparkDied,
    SubtaskMissing,
    TransformFailed,
    VolumeFull,
    VolumeUnusable,
)
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import (
    MAX_TERMINATION_BYTES,
    AttemptOutcome,
    Termination,
    decode_termination,
    encode_termination,
)
from sparkapp.spark.failures import cause_of, lost_jvm, original_error, while_reading

_SPARK_TEXT = f"""Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/app/sparkapp/spark/write_task.py", line 80, in write_partition
sparkapp.model.errors.transaction.PreCommitFailed: 3 records were not acknowledged: MSG_SIZE_TOO_LARGE
{encode_error(PreCommitFailed("3 records were not acknowledged: MSG_SIZE_TOO_LARGE", remedy="its own"))}

	at org.apache.spark.api.python.BasePythonRunner
"""


def test_our_error_is_found_in_sparks_text() -> None:
    error = original_error(RuntimeError(_SPARK_TEXT))
    assert type(error) is PreCommitFailed
    assert error.message == "3 records were not acknowledged: MSG_SIZE_TOO_LARGE"
    assert error.remedy == "its own"
    assert original_error(error) is error


def test_an_exception_outside_the_users_code_is_shown_as_it_is() -> None:
    error = original_error("Traceback:\n  File x\nValueError: bad amount 'abc'\n\tat org.apache\n")
    assert type(error) is KafkaSparkJobError
    assert error.message == "ValueError: bad amount 'abc'"


_USERS = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1234, in main
    process()
  File "/etc/kafkaspark/code/enrich.py", line 12, in amount
    return frame["value"].astype(int)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3/site-packages/pandas/core/generic.py", line 6665, in astype
    return arr.astype(dtype, copy=True)
ValueError: invalid literal for int() with base 10: 'x'
"""


def test_an_exception_of_the_users_names_their_own_line_and_what_was_read() -> None:
    error = original_error(RuntimeError(_USERS + "\tat org.apache.spark.api.python"))
    assert type(error) is TransformFailed
    assert error.message == "ValueError: invalid literal for int() with base 10: 'x' (enrich.py:12 in amount)"
    assert 'File "/etc/kafkaspark/code/enrich.py", line 12' in error.detail
    splits = [KafkaPartitionSplit(TopicPartition("a", n), 5, stop) for n, stop in ((0, 6), (1, 5), (2, 15))]
    assert while_reading(error, splits).message.endswith("while it read a-0 offset 5, a-2 offsets 5 to 14")
    named = RecordFailed("topic a, partition 0, offset 7: ValueError: bad")
    assert while_reading(original_error(encode_error(named)), splits).message == named.message
    # Ours is the cause where both are there: a record that does not parse, for instance.
    assert type(original_error(_SPARK_TEXT + _USERS)) is PreCommitFailed


def test_a_query_that_fails_is_the_users_and_a_jvm_that_is_gone_is_sparks() -> None:
    error = original_error(
        "[CAST_INVALID_INPUT] The value 'x' cannot be cast to \"INT\". SQLSTATE: 22018\n== SQL (line 1) ==\n"
        "select cast(value as int)\n"
    )
    assert type(error) is TransformFailed
    assert error.message.endswith("select cast(value as int)")
    hostile = original_error("[CAST_INVALID_INPUT] The value '\x1b[2J' is no \"INT\". SQLSTATE: 22018\n")
    assert hostile.message == "[CAST_INVALID_INPUT] The value '\\x1b[2J' is no \"INT\". SQLSTATE: 22018"
    assert type(original_error("[INTERNAL_ERROR] no. SQLSTATE: XX000")) is KafkaSparkJobError

    lost = RuntimeError("the end")
    lost.__context__ = Py4JNetworkError("Answer from Java side is empty")
    assert lost_jvm(lost)
    assert lost_jvm(Py4JError("An error occurred while calling o58.isActive"))
    assert not lost_jvm(Py4JError("An error occurred while calling o58.x. Trace:\npy4j.Py4JException: no method x"))
    assert not lost_jvm(ConnectionRefusedError("a broker's"))
    never = PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
    assert lost_jvm(never), "it has too little memory, for instance"
    assert str(cause_of(lost, lambda _: -9)) == "the driver's JVM ended by signal 9"
    assert str(cause_of(lost, lambda _: None)) == "the driver's JVM ended"


def test_whatever_fails_first_where_the_jvm_has_ended_the_jvm_is_the_cause() -> None:
    missing = SubtaskMissing("no task of subtask 1 has reached the driver")
    assert cause_of(missing, lambda _: None) is missing, "the JVM runs"
    found = cause_of(missing, lambda _: 134)
    assert (type(found), str(found)) == (SparkDied, "the driver's JVM ended with exit status 134")


def test_a_log_gives_way_to_the_message_of_a_last_word() -> None:
    word = Termination(
        outcome=AttemptOutcome.FAILED, reason="X", message="m" * 900, remedy="r" * 900, log="é\n" * 3000 + "end"
    )
    read = decode_termination(encode_termination(word))
    assert read is not None
    assert (read.message, read.remedy, read.log[-3:]) == (word.message, word.remedy, "end")
    assert len(read.log) > 300


@pytest.mark.parametrize(
    "cause",
    [
        "java.io.IOException: Mkdirs failed to create file:/state/uid/attempt-3/state/2/0/S (exists=false, cwd=file:/)",
        "java.io.FileNotFoundException: /state/uid/attempt-3/state/0/0/4.changelog (Read-only file system)",
        "java.nio.file.FileSystemException: /state/uid/attempt-3/state/0/0/4.zip: Input/output error",
        "java.io.IOException: Stale file handle",
    ],
)
def test_a_volume_that_refuses_a_file_of_spark_is_named(cause: str) -> None:
    text = (
        "An error occurred while calling o204.repartition.\n: org.apache.spark.SparkException: "
        "[CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT] Error writing state store files. SQLSTATE: 58030\n\tat org.apache\n"
        f"Caused by: {cause}\n\tat org.apache.hadoop.fs.ChecksumFileSystem.create\n"
    )
    error = original_error(text)
    assert type(error) is VolumeUnusable
    assert error.message == f"Caused by: {cause}"


@pytest.mark.parametrize(
    "cause",
    [
        "Mkdirs failed to create file:/state/uid/attempt-3/offsets (exists=false, cwd=file:/)",
        "/state/uid/attempt-3/commits/.4.tmp (Read-only file system)",
        "Input/output error",
    ],
)
def test_a_volume_that_refuses_a_file_of_the_query_is_named(cause: str) -> None:
    """The query's exception has the message of the cause without its class."""
    error = original_error(f"{cause}\n=== Streaming Query ===\nIdentifier: n.j [id = 1, runId = 2]\nCurrent Offsets:")
    assert (type(error), error.message) == (VolumeUnusable, cause)


def test_an_error_of_a_users_own_file_is_the_users() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/opt/code/rates.py", line 3, in convert\n'
        "    open('/rates')\nOSError: [Errno 5] Input/output error: '/rates'\n"
    )
    assert type(original_error(text)) is not VolumeUnusable


def test_a_full_disk_has_a_reason_of_its_own() -> None:
    text = (
        "org.apache.spark.sql.streaming.StreamingQueryException: job failed\n"
        "Caused by: java.io.IOException: No space left on device\n\tat java.base/java.io.FileOutputStream\n"
    )
    error = original_error(text)
    assert type(error) is VolumeFull
    assert error.message == "Caused by: java.io.IOException: No space left on device"
    # What ours was about is the better answer.
    assert type(original_error(_SPARK_TEXT + text)) is PreCommitFailed


def test_a_long_last_word_still_fits_the_termination_log_and_can_be_read() -> None:
    word = Termination(
        outcome=AttemptOutcome.FAILED, reason="TransformFailed", message="中" * 1000, remedy="é" * 1000, fatal=True
    )
    text = encode_termination(word)
    assert len(text.encode()) <= MAX_TERMINATION_BYTES
    read = decode_termination(text)
    assert read is not None
    assert (read.reason, read.fatal) == ("TransformFailed", True)

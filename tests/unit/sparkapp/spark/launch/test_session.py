"""Settings of a session: what the job decides, what people may override, and what nothing overrides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.resources.spark_conf import spark_conf
from kafkasparkjob_operator.workload import desired_from_resource
from sparkapp.model import names
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.access.security import Authentication, AuthenticationType, PasswordSecret, Tls
from sparkapp.model.job.codec import encode_job
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat
from sparkapp.model.job.sections.state_storage import S3Storage
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spark_settings import (
    AUTHENTICATED,
    ENCRYPTED,
    FIXED,
    FORCED,
    FORCED_EXACTLY_ONCE,
    SHUFFLE_PARTITIONS,
)
from sparkapp.model.job.spec import Engine, Job
from sparkapp.spark.launch import session
from sparkapp.spark.launch.settings import session_settings
from tests.support.jobs.plain_job import plain_spec
from tests.support.kubernetes.operator_fixture import job_body

JOB = Job(
    namespace="ns", name="job", uid="u", generation=1, attempt=1,
    spec=plain_spec(kafka=KafkaCluster(bootstrap_servers="none:1"), parallelism=3),
)  # fmt: skip
ENV = "spark.executorEnv."
PRELOAD = f"{ENV}KAFKASPARK_PRELOAD"
HUGE_PAGES = "-XX:+UseTransparentHugePages"
RATIO = "spark.scheduler.minRegisteredResourcesRatio"


def reading(key: Format, value: Format) -> Job:
    source = replace(JOB.spec.source, key_format=key, value_format=value)
    return replace(JOB, spec=replace(JOB.spec, source=source))


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (Format.STRING, Format.AVRO, "sparkapp.source.formats.avro"),
        (Format.PROTOBUF, Format.PROTOBUF, "sparkapp.source.formats.protobuf"),
        (Format.PROTOBUF, Format.AVRO, "sparkapp.source.formats.avro sparkapp.source.formats.protobuf"),
        (Format.RAW, Format.JSON, None),
    ],
)
def test_workers_import_the_parsers_of_the_jobs_formats(key: Format, value: Format, expected: str | None) -> None:
    assert session_settings(reading(key, value), directory=Path("/nowhere")).get(PRELOAD) == expected


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (SinkEncoding.RAW, SinkEncoding.AVRO, "sparkapp.formats.encoders.avro_plan"),
        (SinkEncoding.AVRO, SinkEncoding.JSON, "sparkapp.formats.encoders.avro_plan"),
        (SinkEncoding.STRING, SinkEncoding.JSON, None),
        (SinkEncoding.STRING, SinkEncoding.PROTOBUF, "sparkapp.formats.encoders.protobuf_plan"),
        (SinkEncoding.STRING, SinkEncoding.JSON_SCHEMA, "sparkapp.formats.encoders.json_schema_plan"),
    ],
)
def test_workers_import_what_the_sinks_schemas_need(
    key: SinkEncoding, value: SinkEncoding, expected: str | None
) -> None:
    sink = replace(JOB.spec.sink, format=SinkFormat(key=key, value=value))
    job = replace(JOB, spec=replace(JOB.spec, sink=sink))
    assert session_settings(job, directory=Path("/nowhere")).get(PRELOAD) == expected


@pytest.mark.parametrize("wanted", ["", "pandas"])
def test_a_worker_has_nothing_left_to_import_when_it_makes_arrow_values(wanted: str) -> None:
    """pyarrow looks for pandas then; in each worker that would be seconds of CPU before the first checkpoint."""
    program = """
import sys
import pyarrow as pa
from sparkapp.spark.launch.preload import preload_workers
preload_workers()
before = set(sys.modules)
pa.scalar(1), pa.array(["one"]), pa.RecordBatch.from_pydict({"result": ["{}"]})
print("pandas" in sys.modules, *set(sys.modules) - before)
"""
    environment = {**os.environ, "KAFKASPARK_PRELOAD": wanted}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == [str(bool(wanted))]


def test_workers_keep_the_secrets_of_their_daemon(tmp_path: Path) -> None:
    """A worker of a later task would have content that the brokers may refuse, and the attempt would fail (ADR 47)."""
    secret = PasswordSecret(secret_name="kafka", password="password")
    user = Authentication(type=AuthenticationType.SCRAM_SHA_512, username="me", password_secret=secret)
    job = replace(JOB, spec=replace(JOB.spec, kafka=replace(JOB.spec.kafka, tls=Tls(), authentication=user)))
    (tmp_path / "user").mkdir()
    password = tmp_path / "user/password"
    password.write_text("first")
    program = """
import os, sys
from pathlib import Path
from sparkapp.model.job.codec import decode_job
from sparkapp.spark.launch.preload import preload_workers
preload_workers()
Path(sys.argv[1]).write_text("second")
if os.fork() == 0:
    from sparkapp.clients.security.mounted import mounted_security
    from sparkapp.spark.tasks import worker_clients
    worker_clients.open_consumer = lambda config: print(config["sasl.password"], flush=True)
    job = decode_job(sys.argv[2])
    worker_clients.consumer_for(job)
    print(mounted_security(job.spec.kafka)["sasl.password"], flush=True)
    os._exit(0)
os.wait()
"""
    settings = session_settings(job, directory=Path("/nowhere"))
    environment = {
        **os.environ, "KAFKASPARK_CREDENTIALS": str(tmp_path),
        **{name.removeprefix(ENV): value for name, value in settings.items() if name.startswith(ENV)},
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", program, password, encode_job(job)],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.stdout.split() == ["first", "second"], done.stderr


@pytest.mark.parametrize(("wanted", "partitions"), [("", "8"), ("FollowParallelism", "3"), ("12", "12")])
def test_a_new_query_begins_with_the_partitions_of_state_that_the_job_asks_for(
    wanted: str, partitions: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KAFKASPARK_POD_IP", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.setenv(name, "1")
    (tmp_path / names.SPARK_CONF_KEY).write_text(json.dumps({SHUFFLE_PARTITIONS: "8"}))
    job = replace(JOB, spec=replace(JOB.spec, state_claim="c", state_partitions=wanted))
    assert session_settings(job, directory=tmp_path)[SHUFFLE_PARTITIONS] == partitions


def test_a_store_of_state_has_settings_of_its_bucket_and_no_credential(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KAFKASPARK_POD_IP", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.setenv(name, "1")
    prefix = "spark.hadoop.fs.s3a.bucket.state."
    (tmp_path / names.SPARK_CONF_KEY).write_text(json.dumps({f"{prefix}retry.limit": "2"}))
    storage = S3Storage(bucket="state", endpoint="http://s:8333", path_style_access=True)
    job = replace(JOB, spec=replace(JOB.spec, state_s3=storage))
    found = {name.removeprefix(prefix): value for name, value in session_settings(job, directory=tmp_path).items()}
    assert (found["endpoint"], found["path.style.access"], found["retry.limit"]) == ("http://s:8333", "true", "2")
    assert found["aws.credentials.provider"].split(",")[0].endswith(".EnvironmentVariableCredentialsProvider")
    assert not any("s3a" in name for name in session_settings(JOB, directory=tmp_path) if not name.startswith(prefix))


def test_workers_of_a_python_function_have_pandas() -> None:
    job = replace(JOB, spec=replace(JOB.spec, transform=Transform(function="code:transform")))
    assert session_settings(job, directory=Path("/nowhere"))[PRELOAD] == "pandas"


def test_a_job_without_registered_formats_imports_no_parser() -> None:
    program = (
        "import sys, sparkapp.source.formats.reader_schema; print(*{'fastavro', 'google.protobuf'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_planning_waits_for_no_executor_unless_the_job_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KAFKASPARK_POD_IP", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.setenv(name, "1")
    file = tmp_path / names.SPARK_CONF_KEY
    file.write_text(json.dumps({"spark.speculation": "true"}))
    settings = session_settings(JOB, directory=tmp_path)
    assert settings[RATIO] == "0"
    assert settings["spark.speculation"] == "false", "the protocol's own settings win"

    file.write_text(json.dumps({RATIO: "1"}))
    assert session_settings(JOB, directory=tmp_path)[RATIO] == "1"


def test_jvms_that_move_records_ask_for_huge_pages_unless_the_job_forbids_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, executor = (f"spark.{each}.defaultJavaOptions" for each in ("driver", "executor"))
    local = session_settings(JOB, directory=Path("/nowhere"))
    assert HUGE_PAGES in local[driver].split(), "a local session has no executors"

    for name in ("KAFKASPARK_POD_IP", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.setenv(name, "1")
    file = tmp_path / names.SPARK_CONF_KEY
    file.write_text(json.dumps({executor: "-XX:-UseTransparentHugePages"}))
    settings = session_settings(JOB, directory=tmp_path)
    assert HUGE_PAGES not in settings[driver]
    options = settings[executor].split()
    assert options.index(HUGE_PAGES) < options.index("-XX:-UseTransparentHugePages"), "the last of two wins"


def test_rows_of_a_shuffle_stay_as_they_are_unless_the_job_asks_for_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    costly = ("spark.shuffle.compress", "spark.sql.shuffle.orderIndependentChecksum.enabled")
    local = session_settings(JOB, directory=Path("/nowhere"))
    assert [local.get(name) for name in costly] == ["false", "false"]

    for name in ("KAFKASPARK_POD_IP", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.setenv(name, "1")
    (tmp_path / names.SPARK_CONF_KEY).write_text(json.dumps(dict.fromkeys(costly, "true")))
    settings = session_settings(JOB, directory=tmp_path)
    assert [settings[name] for name in costly] == ["true", "true"]


def test_a_job_may_switch_off_encryption_and_never_authentication(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KAFKASPARK_POD_IP", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.setenv(name, "1")
    file = tmp_path / names.SPARK_CONF_KEY
    file.write_text("{}")
    assert session_settings(JOB, directory=tmp_path).items() >= (AUTHENTICATED | ENCRYPTED).items()

    off = dict.fromkeys(AUTHENTICATED | ENCRYPTED, "false")
    file.write_text(json.dumps(off))
    assert session_settings(JOB, directory=tmp_path).items() >= (off | AUTHENTICATED).items()
    assert "spark.authenticate" not in session_settings(JOB, directory=Path("/nowhere")), "a local session has no ports"


def effective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]) -> dict[str, str]:
    """The settings of a session, as operator and driver make them of ``spec.sparkConf``.

    :raises ConfigurationError: the operator refuses them.
    """
    for name in ("KAFKASPARK_POD_IP", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.setenv(name, "1")
    desired = desired_from_resource(job_body(sparkConf=given)["spec"], namespace="team", name="orders")
    conf = spark_conf(JobIdentity("team", "orders", "u"), desired, attempt=1)
    (tmp_path / names.SPARK_CONF_KEY).write_text(json.dumps(conf))
    return session_settings(JOB, directory=tmp_path)


def test_a_setting_of_the_user_is_used_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used, replaced = set(), set()
    for name in effective(tmp_path, monkeypatch, {}):
        with suppress(ConfigurationError):
            found = effective(tmp_path, monkeypatch, {name: "given"})[name]
            (used if "given" in found else replaced).add(name)
    assert replaced == set()
    assert used >= {"spark.sql.streaming.pollingDelay", "spark.sql.streaming.metricsEnabled"}


@pytest.mark.parametrize("name", FIXED)
def test_a_setting_of_the_checkpoint_is_refused_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"spec.sparkConf: remove {name}: "):
        effective(tmp_path, monkeypatch, {name: "given"})
    effective(tmp_path, monkeypatch, {})
    (tmp_path / names.SPARK_CONF_KEY).write_text(json.dumps({name: "given", "spark.master": "local[1]"}))
    assert session_settings(JOB, directory=tmp_path)[name] == FIXED[name], "an earlier operator passed it on"


@pytest.mark.parametrize(
    ("address", "written"), [("10.1.2.3", "10.1.2.3"), ("fd00:96::1", "[fd00:96::1]"), ("node.example", "node.example")]
)
def test_addresses_of_both_families_are_written_as_spark_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, written: str
) -> None:
    monkeypatch.setenv("KAFKASPARK_POD_IP", address)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", address)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / names.SPARK_CONF_KEY).write_text("{}")
    settings = session_settings(JOB, directory=tmp_path)
    assert settings["spark.master"] == f"k8s://https://{written}:443"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == written


@pytest.mark.parametrize("delivery_guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_C9_no_retry_of_a_stage_writes_next_to_the_first_try_under_the_same_ids(
    delivery_guarantee: DeliveryGuarantee, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KAFKASPARK_POD_IP", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.setenv(name, "1")
    hostile = dict.fromkeys([*FORCED, *FORCED_EXACTLY_ONCE, "spark.sql.execution.pyspark.python"], "hostile")
    (tmp_path / names.SPARK_CONF_KEY).write_text(json.dumps(hostile))
    job = replace(JOB, spec=replace(JOB.spec, sink=replace(JOB.spec.sink, delivery_guarantee=delivery_guarantee)))
    settings = session_settings(job, directory=tmp_path)
    assert "hostile" not in settings.values()
    forced = FORCED | FORCED_EXACTLY_ONCE if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE else FORCED
    assert settings | forced == settings
    assert ("spark.stage.maxConsecutiveAttempts" in settings) is (delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE)


@pytest.mark.parametrize(("engine", "most"), [(Engine.MICRO_BATCH, "4"), (Engine.CONTINUOUS, "2147483647")])
def test_a_subtask_may_be_lost_more_often_than_a_task_of_a_micro_batch(engine: Engine, most: str) -> None:
    """Spark counts the failures of a task for as long as it runs."""
    job = replace(JOB, spec=replace(JOB.spec, engine=engine))
    assert session_settings(job, directory=Path("/nowhere"))["spark.task.maxFailures"] == most


@pytest.mark.parametrize(
    ("master", "listed", "registered", "had"),
    [("k8s://x", 1, 1, False), ("k8s://x", 2, 1, True), ("k8s://x", 1, 2, True), ("local[2]", 1, 1, True)],
    ids=["never", "it is gone", "just now", "local"],
)
def test_whether_an_executor_has_ever_been_registered(master: str, listed: int, registered: int, had: bool) -> None:
    """Both counts have the driver."""
    scala = SimpleNamespace(
        statusStore=lambda: SimpleNamespace(executorList=lambda _: SimpleNamespace(size=lambda: listed)),
        getExecutorMemoryStatus=lambda: SimpleNamespace(size=lambda: registered),
    )
    context: Any = SimpleNamespace(master=master, _jsc=SimpleNamespace(sc=lambda: scala))
    assert session.had_executors(session.CoreSession(context)) is had


def test_the_continuous_engine_makes_a_context_and_no_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner takes a cold JVM two seconds of CPU (ADR 46)."""
    context = SimpleNamespace(master="local[2]", version="4", setLogLevel=lambda _: None, stop=lambda: None)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setattr(session, "SparkConf", lambda: SimpleNamespace(setAll=dict))
    monkeypatch.setattr(session, "SparkContext", SimpleNamespace(getOrCreate=lambda _: context))
    monkeypatch.setattr(session, "SparkSession", None)
    made = session.create_core_session(session_settings(JOB, directory=Path("/nowhere")))
    assert made.sparkContext is context
    assert session.count_executors(made) == 1

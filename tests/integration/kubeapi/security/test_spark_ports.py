"""Spark's own ports: the driver's RPC, and the block managers of driver and executors (docs/security.md).

A real driver with its token creates its executors on a real API server; the test plays the kubelet. An outsider is on
their network. The same attacks succeed where authentication is switched off, which no job can.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sparkapp.model.job.spark_settings import ENCRYPTED
from tests.support.kubernetes.api_client import ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import OperatorProcess, Place
from tests.support.kubernetes.spark_attempt import Block, SparkAttempt
from tests.support.kubernetes.spark_outsider import Outsider, Refused, outsider

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

CANARY = f"canary-{uuid.uuid4().hex}"
PROGRAM = f"""
import json, sys
from pathlib import Path
from sparkapp.spark.launch.session import count_executors, create_session

spark = create_session(json.loads(Path(sys.argv[1]).read_text()))
context = spark.sparkContext._jsc

kept = []  # Spark deletes the blocks of what is gone; a DataFrame plans each of its counts anew and keeps none

def shuffle():
    frame = spark.range(0, 2000, 1, 4).selectExpr("concat('{CANARY}-', id) AS text").repartition(4, "text")
    kept.append(frame._jdf.queryExecution().toRdd())
    return kept[-1].count()

def broadcast():
    kept.append(context.broadcast("{CANARY}-broadcast"))
    return kept[-1].id()

answers = dict(executors=lambda: count_executors(spark), shuffle=shuffle, broadcast=broadcast,
    settings=lambda: context.sc().getConf().toDebugString())
for line in sys.stdin:
    print(json.dumps(answers[line.strip()]()), flush=True)
"""


@pytest.fixture(scope="module")
def attacker() -> Iterator[Outsider]:
    with outsider() as made:
        yield made


@pytest.fixture
def attempt(
    api: ApiClient, place: Place, start_operator: Callable[..., OperatorProcess], kubeconfig: Path, tmp_path: Path
) -> Iterator[SparkAttempt]:
    start_operator().await_leading()
    job = LiveJob(api, place.namespace)
    job.create(parallelism=4, executor={"instances": 2, "cores": 2, "memory": "512Mi"}, driver={"memory": "512Mi"})
    job.await_driver(1, hold=False)
    made = SparkAttempt(api, job, tmp_path, kubeconfig.parent / "pki" / "ca.crt")
    yield made
    made.close()


def started(attempt: SparkAttempt, **settings: str) -> list[Block]:
    """Starts driver and executors, and shuffles; a block with the canary of each of them."""
    attempt.start(attempt.settings(**settings), PROGRAM)
    await_that("two executors", lambda: attempt.ask("executors") == 2)

    def shuffled() -> bool:
        """Whether both executors have had a task; another job of the session may have taken all places of one."""
        assert attempt.ask("shuffle") == 2000
        return all(attempt.blocks_of_shuffles(number) for number in (0, 1))

    await_that("records of both executors", shuffled)
    found = [attempt.blocks_of_shuffles(number)[-1] for number in (0, 1)]
    return [*found, Block("127.0.0.1", attempt.port, "driver", f"broadcast_{attempt.ask('broadcast')}_piece0")]


def forms(secret: str) -> set[str]:
    return {secret, base64.b64encode(secret.encode()).decode()}


def require_secret_in_its_files_alone(attempt: SparkAttempt) -> None:
    """Of the attempt's processes and of what the API server has."""
    seen = {"settings": attempt.ask("settings"), "pods": str(attempt.api.items(attempt.job.pods_path))}
    for process in attempt.processes:
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                if int(file.read_text().rpartition(") ")[2].split()[2]) == process.pid:
                    for name in ("cmdline", "environ"):
                        seen[f"{name} of {file.parent.name}"] = (file.parent / name).read_text(errors="replace")
    for file in attempt.folder.rglob("*"):
        if file.is_file() and file != attempt.secret_file:
            seen[str(file)] = file.read_text(errors="replace")
    assert sum("java" in text for where, text in seen.items() if "cmdline" in where) >= 3
    assert "spark.authenticate=true" in seen["settings"]
    assert not [where for where, text in seen.items() for form in forms(attempt.secret) if form in text]


def test_an_outsider_is_refused_and_reads_nothing(attempt: SparkAttempt, attacker: Outsider) -> None:
    blocks = started(attempt)
    require_secret_in_its_files_alone(attempt)
    wrong = attempt.folder / "wrong"
    wrong.write_text("w" * len(attempt.secret))
    options = {name: value for name, value in attempt.variables(attempt.pods[0], "").items() if "JAVA_OPT" in name}
    none = dict.fromkeys(options, "")
    mistaken = {name: value.replace(str(attempt.secret_file), str(wrong)) for name, value in options.items()}
    assert mistaken != options
    for name, variables in (("without", none), ("mistaken", mistaken)):
        process = attempt.outsider(name, SPARK_EXECUTOR_ID="99", **variables)
        assert process.wait(120) != 0, attempt.log(name)[-2000:]
        assert "Successfully registered with driver" not in attempt.log(name)
    assert attempt.ask("executors") == 2

    known = ENCRYPTED | {"spark.authenticate": "true"}
    for block in blocks:
        secret = base64.b64encode(attempt.secret.encode()).decode()
        found = attacker.fetch(block, attempt.application, known | {"spark.authenticate.secret": secret})
        assert CANARY.encode() in found, "who has the secret is served"
        for settings in ({}, known | {"spark.authenticate.secret": "wrong"}):
            with pytest.raises(Refused):
                attacker.fetch(block, attempt.application, settings)
    assert b"".join(relay.recorded for relay in attempt.relays)
    assert not [relay for relay in attempt.relays if CANARY.encode() in relay.recorded]


def test_without_encryption_an_outsider_is_refused_and_reads_what_is_sent(
    attempt: SparkAttempt, attacker: Outsider
) -> None:
    """A job may choose it, with the setting of Spark."""
    blocks = started(attempt, **{"spark.network.crypto.enabled": "false"})
    for block in blocks:
        for settings in ({}, {"spark.authenticate": "true", "spark.authenticate.secret": "wrong"}):
            with pytest.raises(Refused):
                attacker.fetch(block, attempt.application, settings)
    assert [relay for relay in attempt.relays if CANARY.encode() in relay.recorded]


def test_without_authentication_the_same_attacks_succeed(attempt: SparkAttempt, attacker: Outsider) -> None:
    off = dict.fromkeys(("spark.authenticate", "spark.network.crypto.enabled"), "false")
    blocks = started(attempt, **off)
    for block in blocks:
        assert CANARY.encode() in attacker.fetch(block, attempt.application, {})
    assert [relay for relay in attempt.relays if CANARY.encode() in relay.recorded]
    attempt.outsider("without", SPARK_EXECUTOR_ID="99")
    await_that("the driver takes the outsider for an executor", lambda: attempt.ask("executors") == 3)

"""What an executor's JVM writes into its log: Spark's stores of state would write hundreds of lines in a checkpoint."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from sparkapp.spark.launch.settings import with_json_log
from tests.support.patience import until

pytestmark = pytest.mark.spark

_OPTIONS = "spark.executor.defaultJavaOptions"
_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDB StateStoreProviderId[ operatorId=0 ]"
_EXECUTOR = "org.apache.spark.executor.Executor"


@pytest.mark.parametrize(
    ("asked", "of_the_store"),
    [("", ["a warning"]), ("-Dkafkaspark.log.state=info", ["a step", "a warning"])],
    ids=["by default", "as a user asks"],
)
def test_stores_of_state_log_warnings_only(tmp_path: Path, asked: str, of_the_store: list[str]) -> None:
    jars = Path(pyspark.__file__).parent / "jars"
    options = with_json_log({_OPTIONS: asked} if asked else {})[_OPTIONS].split()
    log = tmp_path / "log"
    with log.open("wb") as errors:
        port = launch_gateway(
            jarpath=str(next(jars.glob("py4j-*.jar"))), classpath=os.pathsep.join(map(str, jars.glob("log4j-*.jar"))),
            javaopts=options, die_on_exit=True, redirect_stderr=errors,
        )  # fmt: skip
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        loggers = gateway.jvm.org.apache.logging.log4j.LogManager
        loggers.getLogger(_STORE).info("a step")
        loggers.getLogger(_STORE).warn("a warning")
        loggers.getLogger(_EXECUTOR).info("a task")
        until(lambda: "a task" in log.read_text())
        gateway.shutdown()
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert [line["message"] for line in lines if line["logger"] == _STORE] == of_the_store

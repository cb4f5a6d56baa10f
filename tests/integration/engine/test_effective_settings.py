"""C9: what a real session's Spark has decided, where the operator's file and Spark's defaults ask for the opposite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparkapp.model import names
from sparkapp.model.job.spark_settings import FORCED, FORCED_EXACTLY_ONCE
from tests.support.jobs.local_job import environment

pytestmark = pytest.mark.spark

EXPECTED = FORCED | FORCED_EXACTLY_ONCE
OPPOSITES = {
    name: {"true": "false", "false": "true"}.get(value, "7" if value.isdigit() else "pyspark.daemon")
    for name, value in EXPECTED.items()
}
PROGRAM = """
import json, sys
from dataclasses import replace
from pathlib import Path
from sparkapp.spark.launch.session import create_session
from sparkapp.spark.launch.settings import session_settings
from tests.unit.sparkapp.spark.launch.test_session import JOB

settings = session_settings(JOB, directory=Path(sys.argv[1]))
spark = create_session(settings)
# Entries register when their class is loaded; a local session loads none of Kubernetes.
spark._jvm.java.lang.Class.forName("org.apache.spark.deploy.k8s.Config$")
entry = spark._jvm.org.apache.spark.internal.config.ConfigEntry
core, session = spark.sparkContext._jsc.sc().conf(), spark._jsparkSession.sessionState().conf()
found = {}
for name in json.loads(sys.argv[2]):
    known = entry.findEntry(name)
    value = (session if name.startswith("spark.sql.") else core).getConf(known) if name.startswith("spark.sql.") else (
        core.get(known))
    value = value.get() if hasattr(value, "isDefined") else value
    found[name] = str(value).lower() if isinstance(value, bool) else str(value)

def worker(batches):
    import os, pyarrow as pa
    main = sys.modules["__main__"]
    for batch in batches:
        yield pa.record_batch({"pid": [os.getpid()], "main": [str(getattr(main, "__file__", None))]})

frame = spark.range(0, 2, 1, 1).mapInArrow(worker, "pid LONG, main STRING")
runs = [[row.asDict() for row in frame.collect()] for _ in range(2)]
print(json.dumps({"found": found, "runs": runs}))
spark.stop()
"""


def test_C9_the_effective_settings_are_the_protocols(tmp_path: Path) -> None:
    asked = {"spark.master": "local[2,4]", "spark.ui.enabled": "false", "spark.app.name": "c9"}
    (tmp_path / names.SPARK_CONF_KEY).write_text(json.dumps(asked | OPPOSITES))
    defaults = tmp_path / "conf"
    defaults.mkdir()
    (defaults / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in OPPOSITES.items()))
    given = {
        **environment(), "SPARK_CONF_DIR": str(defaults), "PYTHONPATH": os.pathsep.join(sys.path),
        "KAFKASPARK_POD_IP": "127.0.0.1", "KUBERNETES_SERVICE_HOST": "nowhere", "KUBERNETES_SERVICE_PORT": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), json.dumps(list(EXPECTED))],
        env=given, capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["found"] == EXPECTED
    first, second = (run[0] for run in said["runs"])
    assert first["main"].endswith("sparkapp/spark/launch/worker_daemon.py")
    assert first["pid"] == second["pid"], "the worker with its Kafka clients is used again"

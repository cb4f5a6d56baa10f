"""A job that is deleted and created again under its name, while records flow: ``kubectl replace --force``.

Each incarnation has another sink and other modules, under the names of the incarnation before. Another pod holds what
the first driver mounted, so that the kubelet keeps its copies. Without that pod it drops them some seconds after the
last driver, and the new driver may come before. Both engines run side by side: most of a start is waiting.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from clusterjob.environment import ClusterEnvironment
from clusterjob.installation import IMAGE_OF
from clusterjob.kafka.reading import read_committed
from clusterjob.kafka.transactions import open_transactions
from clusterjob.live_job import KIND
from clusterjob.watch import PATIENCE
from sparkapp.model import names
from tests.support.kubernetes.cluster_job import NAME, ClusterJob
from tests.support.patience import until

BATCH = 2_000
CODE = "modules"
FUNCTION = """
import json
import pyarrow as pa

def tag(batch):
    values = [json.dumps({**json.loads(one), "by": "WORD"}).encode() for one in batch["value"].to_pylist()]
    return batch.set_column(batch.schema.get_field_index("value"), "value", pa.array(values, pa.binary()))
"""
FIRST, AT_ONCE, AFTER_A_PAUSE = "first", "at-once", "after-a-pause"
PAUSE = 5.0


class Site:
    """A job of one engine, and the incarnations that it has had."""

    def __init__(self, environment: ClusterEnvironment, engine: str) -> None:
        self.place = ClusterJob.make(environment, f"again-{engine.lower()}")
        self.engine = engine
        self.other = f"{self.place.sink}-2"
        self.place.topics.recreate([self.other], partitions=4)
        self.sinks = {FIRST: self.place.sink, AT_ONCE: self.other, AFTER_A_PAUSE: self.place.sink}
        self.records = 0
        self._driver = ""

    def close(self) -> None:
        self.place.close()
        self.place.topics.delete([self.other])

    def load(self) -> None:
        self.records = self.place.load(BATCH)

    def hold(self) -> None:
        """Runs a pod with the ConfigMaps and Secrets of the driver's volumes."""
        driver = self.place.kubectl.get("pod", names.driver_pod(NAME, self.place.job.attempt)) or {}
        volumes = [each for each in driver["spec"]["volumes"] if each["name"] in {"job", "spark-secret"}]
        security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        container = {
            "name": "holder", "image": IMAGE_OF["operator"], "command": ["sleep", "infinity"],
            "securityContext": security,
            "volumeMounts": [{"name": each["name"], "mountPath": f"/held/{each['name']}"} for each in volumes],
        }  # fmt: skip
        user = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
        spec = {
            "securityContext": user, "containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
        }  # fmt: skip
        self.place.kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "holder"}, "spec": spec})
        self.place.kubectl.run(
            "wait", "--for=condition=Ready", "pod/holder", f"--timeout={PATIENCE:.0f}s", seconds=PATIENCE
        )

    def objects(self, word: str) -> list[dict[str, Any]]:
        """The modules and the job."""
        modules = {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CODE},
            "data": {"tagging.py": FUNCTION.replace("WORD", word)},
        }  # fmt: skip
        job = self.place.resource(
            engine=self.engine, parallelism=1, executor={"cores": 1}, sink={"topic": self.sinks[word]},
            source={"startup": {"mode": "Earliest" if word == FIRST else "GroupOffsets"}},
            transform={"arrow": {"function": "tagging:tag", "configMapRef": {"name": CODE}}},
        )  # fmt: skip
        return [modules, job]

    def replace(self, word: str) -> None:
        """As troubleshooting recommends it: the resource is gone when the other is created."""
        body = {"apiVersion": "v1", "kind": "List", "items": self.objects(word)}
        self.place.kubectl.run("replace", "--force", "--filename=-", stdin=json.dumps(body), seconds=PATIENCE)

    def delete(self) -> None:
        self.place.kubectl.delete(KIND, NAME)
        self.place.kubectl.delete("configmap", CODE)

    def await_driver(self) -> None:
        """Blocks until this incarnation has a driver of its own; the pods of the incarnation before are gone then."""
        status = self.place.job.wait(
            "a driver of the new resource",
            lambda status: status.get("attempt", {}).get("driverPodUID", self._driver) != self._driver,
        )
        self._driver = status["attempt"]["driverPodUID"]

    def await_read(self) -> None:
        """Blocks until every record is committed; the group's offsets move with the records."""
        self.place.job.wait_read(1)
        ends = self.place.topics.ends(self.place.source)
        until(lambda: self.place.committed_offsets() == ends)

    def assert_each_record_is_there_once(self) -> None:
        """By the incarnation that it belongs to, in its sink; no transaction is left open."""
        bootstrap, found, words = self.place.environment.bootstrap, [], {}
        for sink in {*self.sinks.values()}:
            values = [json.loads(record.value or b"") for record in read_committed(bootstrap, sink)]
            found += [value["id"] for value in values]
            words[sink] = {value["by"] for value in values}
        assert sorted(found) == list(range(self.records))
        assert words == {self.place.sink: {FIRST, AFTER_A_PAUSE}, self.other: {AT_ONCE}}
        assert open_transactions(bootstrap, self.place.prefix) == []
        assert [self.place.topics.held_back(sink) for sink in {*self.sinks.values()}] == [0, 0]

    def assert_state_is_of(self) -> None:
        """The stored document and the report are the present resource's."""
        uid = (self.place.kubectl.get(KIND, NAME) or {})["metadata"]["uid"]
        assert json.loads(self.place.state_text() or "")["jobUid"] == uid
        report = (self.place.kubectl.get("configmap", names.report_config_map(NAME)) or {})["data"]
        assert json.loads(report[names.REPORT_KEY])["job_uid"] == uid


@pytest.fixture
def sites(operator: ClusterEnvironment) -> Iterator[list[Site]]:
    made = [Site(operator, engine) for engine in ("MicroBatch", "Continuous")]
    yield made
    for site in made:
        site.close()


def test_a_new_incarnation_runs_its_own_description(sites: list[Site]) -> None:
    for site in sites:
        site.load()
        site.place.kubectl.apply(*site.objects(FIRST))
    for site in sites:
        site.await_driver()
        site.await_read()
        site.hold()

    for site in sites:
        site.load()
        site.replace(AT_ONCE)
    for site in sites:
        site.await_driver()
        site.load()
        site.await_read()
        site.assert_state_is_of()

    for site in sites:
        site.load()
        site.delete()
    time.sleep(PAUSE)
    for site in sites:
        site.place.kubectl.apply(*site.objects(AFTER_A_PAUSE))
    for site in sites:
        site.await_driver()
        site.load()
        site.await_read()
        site.assert_state_is_of()
        site.assert_each_record_is_there_once()

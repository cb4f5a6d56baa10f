"""The storm of one job: its steps follow from the seed, its end is the count."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from typing import Any

from clusterjob import installation
from clusterjob.environment import ClusterEnvironment
from clusterjob.kafka.reading import ReadRecord, read_committed
from clusterjob.kubectl import Kubectl
from clusterjob.live_job import KIND, attempt_of
from clusterjob.watch import TimedOut
from demo.loader import PacedLoader
from localcluster.errors import SetupError
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import decode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.checkpoint.retained_codec import decode_snapshot
from tests.soak.storm import stateful
from tests.soak.storm.ledger import Ledger
from tests.soak.storm.stateful import StatefulLedger
from tests.support.kubernetes.cluster_job import NAME, ClusterJob, numbered

_RATE = 300.0
_PATIENCE = 420.0
"""Seconds until a job makes progress again. A restart waits for a back-off of up to a minute."""
_AT_ONCE = 0.4
"""Share of the faults after which the next step comes before the job is well again."""
_MAX_PARALLELISM = 4
PACES: tuple[dict[str, Any], ...] = (
    {"engine": "MicroBatch"},
    {"engine": "Continuous"},
    {"engine": "Continuous", "checkpoint": {"intervalSeconds": 1, "commitIntervalMillis": 200}},
    stateful.SPEC,
)
"""Parts of the spec: each engine, the pace of subtasks that commit by themselves, and a job with state."""


class Storm:
    """A job in its own namespace, with a loader that never stops. A step is a fault or a change by its user.

    :param seed: decides the pace and the steps.
    :param say: gets each step as a line.
    """

    def __init__(self, environment: ClusterEnvironment, seed: int, say: Callable[[str], None]) -> None:
        self._environment = environment
        self._dice = random.Random(seed)
        self._pace = PACES[seed % len(PACES)]
        self._say = say
        self._ledger: Ledger | StatefulLedger = StatefulLedger() if self._keeps_state else Ledger()
        self._place = ClusterJob.make(environment, f"storm-{seed}")
        self._job = self._place.job
        self._frozen: list[str] = []
        self._edits = self._restores = self._snapshots = 0
        self.steps = 0

    @property
    def _keeps_state(self) -> bool:
        return self._pace is stateful.SPEC

    def run(self, seconds: float) -> None:
        """Steps until the time is up; then the source ends, and every record is counted.

        :raises AssertionError: a record is lost or repeated, or a transaction is open.
        :raises TimedOut: the job makes no progress.
        """
        source = PacedLoader(
            self._environment.bootstrap, self._place.source, numbered(itertools.count()), total=1 << 40,
            rate=_RATE, reserve=0,
        )  # fmt: skip
        if self._keeps_state:
            stateful.prepare(self._place)
        with source:
            self._place.apply(
                **self._pace, upgrade={"rollback": "Auto", "stableAfterSeconds": 5, "progressDeadlineSeconds": 300}
            )
            self._await_progress()
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                self._step()
        self._thaw()
        written = source.sent
        self._await_progress()
        if self._keeps_state:
            stateful.end(self._environment.bootstrap, self._place.source)
            written += len(stateful.LAST)
        self._count(written)

    def close(self) -> None:
        """Deletes the job and what belongs to it."""
        self._place.close()

    def _step(self) -> None:
        step = self._dice.choice(
            [
                self._kill_driver, self._freeze_driver, self._kill_executor, self._freeze_executor, self._scale,
                self._edit, self._bad_edit, self._suspend, self._snapshot, self._restore, self._restore,
                self._end_operator,
            ]
        )  # fmt: skip
        self.steps += 1
        self._say(f"{self.steps}: {step.__name__.strip('_').replace('_', ' ')}")
        try:
            step()
        except SetupError as gone:
            # A pod that an earlier fault has ended. A job that makes no progress is found below.
            if isinstance(gone, TimedOut):
                raise
            self._say(f"{self.steps}: {gone.what[:200]}")
        time.sleep(self._dice.uniform(0, 8))
        if self._dice.random() >= _AT_ONCE:
            self._thaw()
            self._await_progress()

    # -- faults -------------------------------------------------------------------------------------------------

    def _kill_driver(self) -> None:
        self._job.kill_driver()

    def _freeze_driver(self) -> None:
        self._frozen.append(self._job.freeze_driver())

    def _kill_executor(self) -> None:
        self._job.kill_executor()

    def _freeze_executor(self) -> None:
        self._job.freeze_executor()

    def _end_operator(self) -> None:
        system = Kubectl(self._environment, installation.NAMESPACE)
        system.run(
            "delete", "pods", f"--selector={installation.SELECTOR}", "--grace-period=0", "--force", "--wait=false"
        )

    def _thaw(self) -> None:
        while self._frozen:
            self._job.thaw(self._frozen.pop())

    # -- changes by the user ------------------------------------------------------------------------------------

    def _scale(self) -> None:
        self._job.rescale(self._dice.randint(1, _MAX_PARALLELISM))

    def _edit(self) -> None:
        """Another revision, which is as good."""
        self._edits += 1
        mode = self._dice.choice(["Drain", "LastCheckpoint"])
        env = [{"name": "EDIT", "value": str(self._edits)}]
        self._place.change(driver={"env": env}, upgrade={"mode": mode})

    def _bad_edit(self) -> None:
        """A revision that never runs. Its user takes it back after a while, whatever the operator has done."""
        good = self._place.resource()["spec"]["image"]
        self._place.change(image="localhost:1/kafkaspark/no-such-image:1")
        time.sleep(self._dice.uniform(1, 40))
        self._place.change(image=good)

    def _suspend(self) -> None:
        self._place.change(suspend=True)
        time.sleep(self._dice.uniform(0, 15))
        self._place.change(suspend=False)

    def _snapshot(self) -> None:
        self._snapshots += 1
        body = {
            "apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": names.SNAPSHOT_KIND,
            "metadata": {"name": f"snapshot-{self._snapshots}"}, "spec": {"jobRef": {"name": NAME}},
        }  # fmt: skip
        self._place.kubectl.apply(body)

    def _restore(self) -> None:
        """Back to a snapshot; without one it makes one. The job is suspended before: so it is known where it was."""
        ready = [
            each for each in self._place.kubectl.list(names.SNAPSHOT_PLURAL)
            if each.get("status", {}).get("state") == "Ready"
        ]  # fmt: skip
        if not ready:
            self._snapshot()
            return
        snapshot = self._dice.choice(ready)
        self._thaw()
        self._place.suspend(seconds=_PATIENCE)
        document = self._document()
        if document.local is not None and not document.local.ended:
            # The drain was killed: the job may have written more than the document says.
            self._place.change(suspend=False)
            return
        self._ledger.restored(self._checkpoint_of(snapshot), document)
        self._restores += 1
        restore = {"snapshot": snapshot["metadata"]["name"], "nonce": self._restores}
        self._place.change(suspend=False, restore=restore)

    # -- what is known ------------------------------------------------------------------------------------------

    def _checkpoint_of(self, snapshot: dict[str, Any]) -> RetainedCheckpoint:
        found = self._place.kubectl.get("configmap", snapshot["status"]["configMap"]["name"])
        assert found is not None, "a snapshot that is Ready has its ConfigMap"
        return decode_snapshot(found["data"][names.SNAPSHOT_KEY])

    def _document(self) -> CheckpointDocument:
        job = self._place.kubectl.get(KIND, NAME)
        text = self._place.state_text()
        assert job is not None
        assert text is not None, "a job that has run has a document"
        return decode(text, job_uid=job["metadata"]["uid"])

    def _await_progress(self) -> None:
        """Blocks until the job is Ready as its resource is now, and a checkpoint of that attempt is final."""
        began = time.monotonic()
        attempt = attempt_of(self._job.wait_ready(seconds=_PATIENCE))
        self._job.wait_new_checkpoint(
            began, attempt=attempt, checkpoint=self._job.state.latest.checkpoint, seconds=_PATIENCE
        )

    def _count(self, written: int) -> None:
        """What readers see is the fact: the lag in the status may be of a moment before the last record."""
        bootstrap = self._environment.bootstrap
        source = read_committed(bootstrap, self._place.source)
        assert len(source) == written
        until = time.monotonic() + _PATIENCE
        while self._differences(source) and time.monotonic() < until:
            time.sleep(5)
        self._place.suspend(seconds=_PATIENCE)
        found = self._differences(source)
        assert not found, "; ".join(found)
        self._place.assert_nothing_open()
        self._say(f"{self.steps} steps, {written} records, {self._restores} restores: each is there, nothing is open")

    def _differences(self, source: list[ReadRecord]) -> list[str]:
        return self._ledger.differences(source, read_committed(self._environment.bootstrap, self._place.sink))

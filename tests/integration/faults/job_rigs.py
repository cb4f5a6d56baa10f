"""Faults of what Kubernetes gives a job: its processes, and the API server that holds its document."""

from __future__ import annotations

import threading
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.resources.config_maps import checkpoints_config_map, state_config_map
from sparkapp.checkpoint.kubernetes.checkpoint_stores import ConfigMapRetainedStore, ConfigMapStore
from sparkapp.model.errors import CheckpointStoreUnavailable
from tests.integration.faults.matrix import Cell
from tests.integration.faults.rig import Rig
from tests.support.kubernetes.api_client import ApiClient
from tests.support.kubernetes.api_proxy import ApiProxy, serving
from tests.support.kubernetes.api_server import api_server, programs
from tests.support.protocol.moments import OF_A_START, End, Loss
from tests.support.protocol.story import UID, Story

NAME = "story"


class KubernetesFixture:
    """The API server of :class:`ApiServerRig`, and the proxy before it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        kubeconfig = stack.enter_context(api_server(folder, programs(folder / "bin")))
        self._api = ApiClient(kubeconfig)
        self.proxy = ApiProxy(kubeconfig)
        self._core = stack.enter_context(serving(self.proxy))

    def stores(self, deadline: float) -> tuple[ConfigMapStore, ConfigMapRetainedStore]:
        """Of a job that has never run, with a namespace of its own.

        :param deadline: seconds that requests are repeated for.
        """
        namespace = f"faults-{uuid.uuid4().hex[:8]}"
        self._api.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        identity = JobIdentity(namespace, NAME, UID)
        for manifest in (state_config_map(identity), checkpoints_config_map(identity)):
            # Nothing here has that UID, and the collector would find out.
            del manifest["metadata"]["ownerReferences"]
            self._api.call("POST", f"/api/v1/namespaces/{namespace}/configmaps", manifest)
        place: dict[str, Any] = {"namespace": namespace, "job": NAME, "uid": UID, "deadline": deadline}
        return ConfigMapStore(self._core, **place), ConfigMapRetainedStore(self._core, **place)


class ProcessRig(Rig):
    """A process of the job's own ends by SIGKILL."""

    def __init__(self, cell: Cell, folder: Path, bootstrap: str, dies: End | Loss) -> None:
        super().__init__(cell, folder)
        self.bootstrap = bootstrap
        self.abreast = dies is Loss.EXECUTOR
        self._dies = dies

    def _strike(self, story: Story) -> End | Loss:
        return self._dies

    def judge(self, story: Story) -> None:
        """A driver's death costs an attempt, where none would have begun anyway; nothing else does."""
        assert story.failures == []
        begun = 2 if self.cell.moment in OF_A_START else 1
        goes_on = self.cell.change == "same" and self._dies is not End.KILL
        assert story.attempts == begun + (not goes_on)


class ComesBackRig(ProcessRig):
    def judge(self, story: Story) -> None:
        """A producer that the old process still opens may fence the new process: that costs an attempt at most."""
        assert len(story.failures) <= 1


class ApiServerRig(Rig):
    """The job's document and its earlier checkpoints are on a real API server, behind a proxy."""

    AWAY_SECONDS = 1.0
    DEADLINE = 30.0

    def __init__(self, cell: Cell, folder: Path, bootstrap: str, fixture: KubernetesFixture) -> None:
        super().__init__(cell, folder)
        self.bootstrap = bootstrap
        self._fixture = fixture
        self._returning: threading.Timer | None = None

    def _furnish(self, story: Story) -> None:
        story.store, story.retained = self._fixture.stores(self.DEADLINE)

    def _strike(self, story: Story) -> None:
        self._fixture.proxy.away = True
        self._returning = threading.Timer(self.AWAY_SECONDS, self._fixture.proxy.forget)
        self._returning.start()

    def judge(self, story: Story) -> None:
        assert story.failures == [], "it was away for less than a write is repeated"

    def _clean_up(self) -> None:
        if self._returning is not None:
            self._returning.join()
        self._fixture.proxy.forget()


class LongAwayRig(ApiServerRig):
    DEADLINE = 1.0

    def _strike(self, story: Story) -> None:
        self._fixture.proxy.away = True

    def aftermath(self, story: Story) -> None:
        if story.running:  # struck after the last write of this start or checkpoint
            story.checkpoint()
        failure = story.failure
        assert isinstance(failure, CheckpointStoreUnavailable), failure
        assert not failure.fatal
        self._fixture.proxy.forget()

    def judge(self, story: Story) -> None:
        assert len(story.failures) == 1

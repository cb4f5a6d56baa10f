"""A job's state ConfigMap on a real API server, with a document in it and earlier checkpoints next to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.observation.state_view import StateView, state_view
from kafkasparkjob_operator.resources.config_maps import checkpoints_config_map, state_config_map
from sparkapp.checkpoint.kubernetes.checkpoint_stores import ConfigMapRetainedStore, ConfigMapStore
from sparkapp.checkpoint.recovery.cluster_identity import ClusterIds
from sparkapp.checkpoint.recovery.recovery import Recovery, recover
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import retained, retained_key
from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, splits_by_subtask
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import TransactionalIdHint
from sparkapp.sink.ending.transaction_control import TransactionControl
from sparkapp.spark.state.query_log import EngineState, encode_engine
from sparkapp.spark.state.retained_state import QueryState
from tests.support.fakes.group_evidence import NoMarks
from tests.support.kubernetes.api_client import ApiClient

NAME = "orders"
NOW = "2026-11-21T12:00:00Z"
SPLITS = tuple(KafkaPartitionSplit(TopicPartition("in", number), 10, 20) for number in range(4))
ATTEMPT = 3
"""The one that wrote the document."""


def document(uid: str, **changes: Any) -> CheckpointDocument:
    """Two subtasks have pre-committed checkpoint 7, and whether they are committed is not known."""
    committables = tuple(
        KafkaCommittable(
            transactional_id=f"p-{10 + subtask}", producer_id=1000 + subtask, producer_epoch=0,
            checkpoint_id=7, subtask=subtask, records=20, ranges=ranges,
        )
        for subtask, ranges in splits_by_subtask(SPLITS, 2).items()
    )  # fmt: skip
    base = CheckpointDocument(
        job_uid=uid, attempt=ATTEMPT, checkpoint_id=7, created_at="2026-11-21T09:00:00Z", parallelism=2, prefix="p",
        hint=TransactionalIdHint(2, 10), splits=SPLITS, committables=committables, evidence_group="g",
        engine=encode_engine(EngineState(plan=7)),
    )  # fmt: skip
    return replace(base, **changes)


def job(uid: str, *, attempt: int, namespace: str = "shop") -> Job:
    spec = JobSpec(
        kafka=KafkaCluster(bootstrap_servers="b:1"), source=Source(topics=("in",), group_id="g"),
        transform=Transform(), sink=Sink(topic="out", transactional_id_prefix="p"), parallelism=2,
    )  # fmt: skip
    return Job(namespace=namespace, name=NAME, uid=uid, generation=1, attempt=attempt, spec=spec)


@dataclass
class StateFixture:
    """Made as the operator makes it: state and earlier checkpoints, of which numbers 5 and 6 are kept."""

    api: ApiClient
    core: Any
    namespace: str
    uid: str = "uid-of-this-resource"
    text: str = field(init=False)
    """The document as the job has written it."""

    def __post_init__(self) -> None:
        self.maps = f"/api/v1/namespaces/{self.namespace}/configmaps"
        self.path = f"{self.maps}/{names.state_config_map(NAME)}"
        self.identity = JobIdentity(self.namespace, NAME, self.uid)
        for manifest in (state_config_map(self.identity), checkpoints_config_map(self.identity)):
            # Nothing here has that UID, and the collector would find out.
            del manifest["metadata"]["ownerReferences"]
            self.api.call("POST", self.maps, manifest)
        self.retained = ConfigMapRetainedStore(self.core, namespace=self.namespace, job=NAME, uid=self.uid, deadline=10)
        self.keep(*(document(self.uid, checkpoint_id=number, committables=()) for number in (5, 6)))
        self.write(encode(document(self.uid)))
        self.text = self.body()["data"][names.CHECKPOINT_KEY]

    def store(self, core: Any = None, deadline: float = 10.0) -> ConfigMapStore:
        return ConfigMapStore(core or self.core, namespace=self.namespace, job=NAME, uid=self.uid, deadline=deadline)

    def keep(self, *documents: CheckpointDocument) -> None:
        texts = {retained_key(each.checkpoint_id): encode_retained(retained(each)) for each in documents}
        self.retained.change(texts, [])

    def body(self) -> dict[str, Any]:
        return self.api.get(self.path) or {}

    def patch(self, **fields: Any) -> None:
        self.api.merge(self.path, fields)

    def write(self, text: str | None) -> None:
        """Somebody puts this text where the document is."""
        self.patch(data={names.CHECKPOINT_KEY: text})

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Somebody changes the document in an editor."""
        body = json.loads(self.text)
        change(body)
        self.write(json.dumps(body))

    def delete(self) -> None:
        self.api.call("DELETE", self.path)

    def recover(self, control: TransactionControl, *, attempt: int = ATTEMPT + 1) -> Recovery:
        """As far as a driver's next attempt gets."""
        return recover(
            job(self.uid, attempt=attempt, namespace=self.namespace), store=self.store(), control=control, now=NOW,
            retained=self.retained, engine=QueryState(), clusters=ClusterIds("", ""), marks=NoMarks(),
        )  # fmt: skip

    def operators_view(self) -> StateView:
        """What the operator thinks before it starts one."""
        return state_view(self.api.get(self.path), self.identity)

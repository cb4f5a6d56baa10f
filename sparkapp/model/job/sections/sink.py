"""``spec.sink``: where a job writes, and what it promises."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from sparkapp.model.checkpoint.naming import MAX_POOL_SIZE, TransactionNaming
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.encoding.schema import Described, at, entries_of, part, text_of
from sparkapp.model.job.access.registry_access import RegistryAccess, sink_registry_from
from sparkapp.model.job.forms import KAFKA_ID, TOPIC
from sparkapp.model.job.sections.kafka import KafkaCluster, sink_cluster_from
from sparkapp.model.job.sections.sink_format import SinkFormat


class OnTransactionLost(StrEnum):
    """The reaction of a start to a transaction of the document that is proven lost (P11, C07)."""

    REPLAY = "Replay"
    FAIL = "Fail"


NEVER_MILLIS = 2**31 - 1
"""The ``transaction.timeout.ms`` that transaction coordinators take for no limit (KIP-939, ``TransactionMetadata``)."""


class Partitioner(StrEnum):
    """The choice of a record's sink partition."""

    KEY = "Key"
    """The key's murmur2 hash, as in Java's clients, so that producers agree; any partition where there is no key."""
    SOURCE_PARTITION = "SourcePartition"
    """The source partition modulo the sink topic's number of partitions, which keeps the order of each partition."""
    ROUND_ROBIN = "RoundRobin"
    """Each partition after the other, whatever the key is."""


class TopicFrom(StrEnum):
    """Where the name of a record's sink topic is."""

    SPEC = "Spec"
    """``sink.topic``. A column ``topic`` of the result is ignored."""
    COLUMN = "Column"
    """The result's column ``topic``, as in Spark's own Kafka sink."""


@part
class Sink:
    """The destination of the result, and its delivery guarantee.

    :param topic: of every record; with :attr:`TopicFrom.COLUMN` of none, but it has to exist all the same.
    :param kafka: None writes to the cluster of the source.
    :param format: None writes text and bytes as they are, and what else Spark's columns have as text or JSON.
    :param schema_registry: set with registered formats, and only there.
    """

    OBJECTS: ClassVar[Mapping[str, Described]] = {
        "transactions": Described("Transactions of deliveryGuarantee ExactlyOnce. The others ignore them.")
    }

    kafka: KafkaCluster | None = at(
        "Kafka cluster of the sink, if it is another cluster than that of the source. It has the sink topic, the"
        " dead letter topic and the transactions. The offsets of the group are then committed to the cluster of the"
        " source, behind each checkpoint and outside the transactions.",
        default=None,
        reader=sink_cluster_from,
    )
    topic: str = at("Name of the sink topic, which must exist.", form=TOPIC)
    topic_from: TopicFrom = at(
        "Choice of a record's topic. Spec writes every record to sink.topic. Column writes each to"
        " the topic in the result's column topic. Those topics must exist.",
        default=TopicFrom.SPEC,
    )
    partitioner: Partitioner = at(
        "Choice of a record's partition. Key takes the hash of the key, as Java's clients do."
        " SourcePartition takes the source partition modulo the topic's number of partitions."
        " RoundRobin distributes records evenly, whatever the key is.",
        default=Partitioner.KEY,
    )
    delivery_guarantee: DeliveryGuarantee = at(
        "Delivery guarantee. None waits for no acknowledgement, AtLeastOnce for all before a"
        " checkpoint completes. ExactlyOnce makes a checkpoint's records visible together in Kafka"
        " transactions, or with checkpoint.commitIntervalMillis those of a transaction. A change"
        " drains the job at a checkpoint and resumes it there.",
        default=DeliveryGuarantee.EXACTLY_ONCE,
    )
    on_transaction_lost: OnTransactionLost = at(
        "Reaction of a start to a transaction of the last checkpoint that the brokers aborted, for"
        " instance during a long stop. Replay reads and writes its records again. Fail stops the job"
        " with the reason TransactionLost before it writes anything.",
        default=OnTransactionLost.REPLAY,
    )
    transactional_id_prefix: str = at(
        "Prefix of the transactional ids. By default namespace.name of the job, followed by"
        " status.clusterId. Must begin with the namespace and a period, unless the administrator allows another prefix."
        " Two Kubernetes clusters on one Kafka cluster need this field or operator.clusterId of the chart. Cannot"
        " change.",
        path="transactions.idPrefix",
        absent="",
        form=KAFKA_ID,
    )
    transaction_naming: TransactionNaming = at(
        "Rule for transactional ids. Hint numbers them and counts on when the parallelism grows."
        " SubtaskAndSlot gives a subtask the same ids in every attempt, prefix-subtask.slot. A change"
        " of the rule commits or aborts open transactions under their previous ids.",
        default=TransactionNaming.HINT,
        path="transactions.naming",
    )
    producers_pool_size: int = at(
        "Number of transactional ids of a subtask. The subtask uses them in rotation. With"
        " checkpoint.commitIntervalMillis it has one id instead.",
        default=5,
        low=2,
        high=MAX_POOL_SIZE,
        path="transactions.producersPoolSize",
    )
    transaction_timeout_seconds: int = at(
        "Age at which the broker aborts an open transaction, in seconds. At most the broker's"
        " transaction.max.timeout.ms. 0 is no limit: no stop of the job loses a transaction. 0 needs"
        " transaction.max.timeout.ms=2147483647 on the brokers. With deliveryGuarantee ExactlyOnce"
        " and watchNamespaceSelector of the chart, a finalizer then holds a deleted resource until"
        " its transactions are settled. It does so for at most operator.deletionSeconds of the chart,"
        " 300 s. Otherwise there is no finalizer: suspend the job before its deletion.",
        default=900,
        low=0,
        high=604800,
        path="transactions.timeoutSeconds",
    )
    format: SinkFormat | None = at(
        "Formats of key and value. By default text and bytes are written as they are, structures as JSON, and other"
        " types as text.",
        default=None,
    )
    schema_registry: RegistryAccess | None = at(
        "Schema registry of keys and values in Avro.", default=None, reader=sink_registry_from
    )
    properties: Mapping[str, str] = at(
        "Additional properties of the Kafka client by librdkafka's names, for instance compression.type.",
        default_factory=dict,
        form=entries_of(64),
        each=text_of(0, 1024),
    )

    @property
    def transactions_expire(self) -> bool:
        """False where brokers never abort an open transaction of the job."""
        return self.transaction_timeout_seconds > 0

    @property
    def transaction_timeout_millis(self) -> int:
        """``transaction.timeout.ms`` of the job's producers."""
        return self.transaction_timeout_seconds * 1000 if self.transactions_expire else NEVER_MILLIS

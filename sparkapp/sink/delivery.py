"""Writer and producer configuration by the job's delivery guarantee (``sink.deliveryGuarantee``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sparkapp.model.checkpoint.naming import pool_of_subtask
from sparkapp.model.job.client.record_limits import producer_limits
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.spec import Job
from sparkapp.sink.exactly_once_writer import ExactlyOnceKafkaWriter
from sparkapp.sink.producers.producer_pool import ProducerPool
from sparkapp.sink.writer import FLUSH_SECONDS, KafkaWriter, UnacknowledgedKafkaWriter

if TYPE_CHECKING:
    from sparkapp.sink.router import Router

REQUEST_MILLIS = 30_000
"""Time-out of one producer request. librdkafka's default is nearly the whole transaction time-out, and its calls do not
end before their request does. Behind a network that drops packets a task would hang for a quarter of an hour."""


def writer_of(
    sink: Sink,
    *,
    pool: ProducerPool,
    subtask: int,
    next_free: int,
    router: Router | None = None,
    timeout: float = FLUSH_SECONDS,
) -> KafkaWriter:
    """The writer of a subtask; called by the engine's write task.

    The ids do not depend on the parallelism: its owner, the coordinator, gives work to no subtask outside of it.

    :param next_free: base of this attempt's transactional ids by hint: the restored hint's next free id.
    """
    guarantee = sink.delivery_guarantee
    if not guarantee.transactional:
        kind = KafkaWriter if guarantee.acknowledged else UnacknowledgedKafkaWriter
        return kind(sink, pool=pool, router=router, timeout=timeout)
    ids = pool_of_subtask(
        sink.transaction_naming, prefix=sink.transactional_id_prefix, subtask=subtask, parallelism=subtask + 1,
        pool_size=sink.producers_pool_size, next_free=next_free,
    )  # fmt: skip
    return ExactlyOnceKafkaWriter(sink, pool=pool, subtask=subtask, ids=ids, router=router, timeout=timeout)


def producer_config(job: Job, shared: Mapping[str, str]) -> dict[str, str]:
    """librdkafka properties of the job's producers, without the transactional id. Pure.

    The user's properties (checked against the deny-list when the resource was read) win over the performance defaults.
    The properties of the delivery guarantee win over the user's.

    :param shared: properties of every client of the job; see :func:`sparkapp.model.job.client.config.cluster_config`.
    """
    sink = job.spec.sink
    config = {**producer_limits(job), **sink.properties, **shared}
    if sink.delivery_guarantee.acknowledged:
        config |= {
            "acks": "all",
            "enable.idempotence": "true",
            "max.in.flight.requests.per.connection": "5",
        }
    if sink.delivery_guarantee.transactional:
        transaction_millis = sink.transaction_timeout_millis
        config["transaction.timeout.ms"] = str(transaction_millis)
        if not sink.transactions_expire:
            # librdkafka refuses socket.timeout.ms here: it compares it with the time-out + 100 ms, which overflows. So
            # a request has no limit of its own, and the task's waits must have a limit.
            if "delivery.timeout.ms" not in config:  # its other name
                config.setdefault("message.timeout.ms", str(round(FLUSH_SECONDS * 1000)))
        else:
            config.setdefault("socket.timeout.ms", str(min(REQUEST_MILLIS, transaction_millis)))
    return config

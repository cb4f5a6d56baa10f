"""Kafka clients of one Python worker process, kept from micro-batch to micro-batch.

A consumer's first fetch takes 60 ms to 1 s. A new producer is opened while records are fetched. A
Python worker runs one task at a time, so nothing here is locked. If a session runs several jobs in sequence, a worker
keeps only the clients of its present job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import cache, partial
from typing import Any

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.security.mounted import held_security, mounted_security
from sparkapp.clients.topics.sink_topics import SinkTopics
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.dataplane.batch import open_consumer, open_producer
from sparkapp.dataplane.interface import BatchConsumer
from sparkapp.model.checkpoint.naming import offsets_id
from sparkapp.model.job.client.config import consumer_config, sink_config
from sparkapp.model.job.codec import decode_job
from sparkapp.model.job.sections.sink import Partitioner, TopicFrom
from sparkapp.model.job.spec import Job
from sparkapp.sink.delivery import producer_config
from sparkapp.sink.ending.log_scope import log_scope
from sparkapp.sink.producers.producer_pool import ProducerPool
from sparkapp.sink.router import Router

_CONNECT_SECONDS = 3.0

_consumers: dict[str, BatchConsumer] = {}
_pools: dict[str, ProducerPool] = {}
_coordinators: dict[str, TransactionClient] = {}
_topics: dict[str, SinkTopics] = {}


@cache
def job_of(text: str) -> Job:
    """The job of a task's description; parsed once in a worker."""
    return decode_job(text)


def consumer_for(job: Job) -> BatchConsumer:
    """The worker's consumer of a job; opened on first use."""
    key = _only(job)
    if key not in _consumers:
        _consumers[key] = open_consumer(consumer_config(job, security=held_security(job.spec.kafka)))
    return _consumers[key]


def drop_consumer(job: Job) -> None:
    """Closes a consumer after a failed read; the next task opens another consumer."""
    consumer = _consumers.pop(_key(job), None)
    if consumer is not None:
        consumer.close()


def wake_consumer(job: Job) -> None:
    """Ends the wait of a read under way, or of the next: it is to end with what there is. From any thread."""
    consumer = _consumers.get(_key(job))
    if consumer is not None:
        consumer.wake()


def interrupt_consumer(job: Job) -> None:
    """Ends the read under way, if there is one: nobody waits for its records. From any thread."""
    consumer = _consumers.get(_key(job))
    if consumer is not None:
        consumer.interrupt()


def producers_for(job: Job) -> ProducerPool:
    """The worker's producers of a job; opened on first use."""
    key = _only(job)
    if key not in _pools:
        shared = _sink_config(job, held_security(job.spec.sink_cluster))
        client = _coordinators[key] = TransactionClient(shared)
        _pools[key] = ProducerPool(
            open_producer=open_producer, client=client, config=producer_config(job, shared), renew=partial(_renew, job),
            scope=log_scope(job.spec), commits_itself=job.spec.has_local_pace,
        )  # fmt: skip
    return _pools[key]


def know_brokers(job: Job) -> None:
    """Connects the worker to brokers and coordinators before its first work, and opens no producer; raises nothing.

    The first records would wait for it: for the topics' metadata half a second, for a coordinator some 100 ms. What
    fails is asked again by the first work, which reports it.
    """
    with suppress(Exception):
        asked = _connected(job) if job.spec.sink.delivery_guarantee.transactional else None
        consumer_for(job).learn(job.spec.source.topics)
        if asked is not None:
            wait([asked], timeout=_CONNECT_SECONDS)


def _connected(job: Job) -> Future[object]:
    """Asks a coordinator, in the background."""
    producers_for(job)
    prefix, client = job.spec.sink.transactional_id_prefix, _coordinators[_key(job)]
    deadline = Deadline.after(_CONNECT_SECONDS)
    return run_in_background(lambda: client.describe([offsets_id(prefix)], deadline=deadline), name="connect")


def _renew(job: Job, config: Mapping[str, str]) -> tuple[TransactionClient, Mapping[str, str]] | None:
    """Clients of the pool by the present content of the mounted Secrets; None where that is the configuration's."""
    shared = _sink_config(job, mounted_security(job.spec.sink_cluster))
    renewed = producer_config(job, shared)
    if renewed == config:
        return None
    key = _key(job)
    _coordinators[key].close()
    _coordinators[key] = TransactionClient(shared)
    return _coordinators[key], renewed


def _sink_config(job: Job, security: Mapping[str, str]) -> dict[str, str]:
    return sink_config(job, security=security, role="-sink")


def opened_producers(job: Job) -> ProducerPool | None:
    """The worker's producers of a job, if it has any."""
    return _pools.get(_key(job))


def router_for(job: Job, *, start: int) -> Router | None:
    """Chooses topics and partitions for a task; None if the spec names the topic and keys choose the partition.

    :param start: partition at which round robin begins.
    """
    sink = job.spec.sink
    if sink.topic_from is TopicFrom.SPEC and sink.partitioner is Partitioner.KEY:
        return None
    key = _only(job)
    if key not in _topics:
        _topics[key] = SinkTopics(_sink_config(job, held_security(job.spec.sink_cluster)))
    return Router(job.spec, partitions_of=_topics[key].partitions, start=start)


def _only(job: Job) -> str:
    """The job's key; closes the clients of any other job."""
    key = _key(job)
    opened: tuple[dict[str, Any], ...] = (_consumers, _pools, _coordinators)
    for clients in opened:
        for other in clients.keys() - {key}:
            clients.pop(other).close()
    for other in _topics.keys() - {key}:
        del _topics[other]
    return key


def _key(job: Job) -> str:
    return json.dumps([job.uid, job.attempt, *(cluster.bootstrap_servers for cluster in job.spec.clusters)])

"""Kafka clients of one Python worker process; they live from micro-batch to micro-batch.

A consumer's first fetch costs 60 ms to 1 s. Each transaction has a producer of its own, opened beside the fetch. A
Python worker runs one task at a time, so nothing here is locked. A driver has one job; where a session runs several,
one after the other, a worker keeps the clients of the one that it works for.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from sparkapp.model.client_config import cluster_config, consumer_config, read_password
from sparkapp.model.job import Job
from sparkapp.model.job_codec import decode_job
from sparkapp.model.sink_routing import Partitioner, TopicFrom
from sparkapp.native.batch import open_consumer, open_producer
from sparkapp.native.interface import BatchConsumer
from sparkapp.sink.producer_pool import ProducerPool
from sparkapp.sink.router import Router
from sparkapp.sink.sink_topics import SinkTopics
from sparkapp.sink.transaction_client import TransactionClient
from sparkapp.sink.writer import producer_config

_consumers: dict[str, BatchConsumer] = {}
_pools: dict[str, ProducerPool] = {}
_coordinators: dict[str, TransactionClient] = {}
_topics: dict[str, SinkTopics] = {}


@cache
def job_of(text: str) -> Job:
    """The job that a task's description names; parsed once a worker."""
    return decode_job(text)


def consumer_for(job: Job) -> BatchConsumer:
    """The worker's consumer of a job; opened on first use."""
    key = _only(job)
    if key not in _consumers:
        _consumers[key] = open_consumer(consumer_config(job, password=read_password(job.spec.kafka)))
    return _consumers[key]


def drop_consumer(job: Job) -> None:
    """Closes a consumer that failed; the next task opens a fresh one."""
    consumer = _consumers.pop(_key(job), None)
    if consumer is not None:
        consumer.close()


def producers_for(job: Job) -> ProducerPool:
    """The worker's producers of a job; opened on first use."""
    key = _only(job)
    if key not in _pools:
        shared = cluster_config(
            job.spec.kafka, password=read_password(job.spec.kafka), client_id=f"{job.namespace}.{job.name}-sink"
        )
        client = _coordinators[key] = TransactionClient(shared)
        _pools[key] = ProducerPool(open_producer=open_producer, client=client, config=producer_config(job, shared))
    return _pools[key]


def opened_producers(job: Job) -> ProducerPool | None:
    """The worker's producers of a job, if it has any."""
    return _pools.get(_key(job))


def router_for(job: Job, *, start: int) -> Router | None:
    """What chooses topics and partitions for one task; None where the spec names one topic and keys choose."""
    sink = job.spec.sink
    if sink.topic_from is TopicFrom.SPEC and sink.partitioner is Partitioner.KEY:
        return None
    key = _only(job)
    if key not in _topics:
        _topics[key] = SinkTopics(
            cluster_config(
                job.spec.kafka, password=read_password(job.spec.kafka), client_id=f"{job.namespace}.{job.name}-sink"
            )
        )
    return Router(job.spec, partitions_of=_topics[key].partitions, start=start)


def _only(job: Job) -> str:
    """The job's key, after the clients of any other job were closed."""
    key = _key(job)
    opened: tuple[dict[str, Any], ...] = (_consumers, _pools, _coordinators)
    for clients in opened:
        for other in clients.keys() - {key}:
            clients.pop(other).close()
    for other in _topics.keys() - {key}:
        del _topics[other]
    return key


def _key(job: Job) -> str:
    return json.dumps([job.uid, job.attempt, job.spec.kafka.bootstrap_servers])

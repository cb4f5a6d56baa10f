"""The job as JSON text of the attempt's ConfigMap: written by the operator, read by the driver."""

from __future__ import annotations

import json
from dataclasses import asdict

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.group_membership import decode_membership
from sparkapp.model.job import (
    Authentication,
    AuthenticationType,
    DataLossPolicy,
    Format,
    IsolationLevel,
    Job,
    JobSpec,
    KafkaCluster,
    LostTransactionPolicy,
    OnTopicDeleted,
    OutputMode,
    Sink,
    Source,
    Transform,
)
from sparkapp.model.job_rules import check_spec
from sparkapp.model.partition import TopicPartition
from sparkapp.model.positions import decode_startup, decode_stopping
from sparkapp.model.record_errors import record_errors_from_job
from sparkapp.model.registry_access import decode_registry_access
from sparkapp.model.retention import Restore, Retention
from sparkapp.model.semantic import OffsetCommit, Semantic
from sparkapp.model.sink_routing import Partitioner, TopicFrom
from sparkapp.model.transaction_naming import TransactionNaming


def encode_job(job: Job) -> str:
    """The job as JSON text for the attempt's ConfigMap."""
    return json.dumps(asdict(job), separators=(",", ":"), ensure_ascii=False)


def decode_job(text: str) -> Job:
    """Reads a job back in the driver.

    :raises ConfigurationError: the text is not a job of this release (operator and image differ in version).
    """
    try:
        body = json.loads(text)
        spec = body["spec"]
        authentication = spec["kafka"]["authentication"]
        source, sink = spec["source"], spec["sink"]
        job = Job(
            **{
                **body,
                "spec": JobSpec(
                    **{
                        **spec,
                        "kafka": KafkaCluster(
                            bootstrap_servers=spec["kafka"]["bootstrap_servers"],
                            authentication=authentication
                            and Authentication(
                                **{**authentication, "type": AuthenticationType(authentication["type"])}
                            ),
                        ),
                        "source": Source(
                            **{
                                **source,
                                "topics": tuple(source["topics"]),
                                "partitions": tuple(TopicPartition(*one) for one in source["partitions"]),
                                "startup": decode_startup(source["startup"]),
                                "stopping": decode_stopping(source["stopping"]),
                                "on_topic_deleted": OnTopicDeleted(source["on_topic_deleted"]),
                                "data_loss_policy": DataLossPolicy(source["data_loss_policy"]),
                                "offset_commit": OffsetCommit(source["offset_commit"]),
                                "isolation_level": IsolationLevel(source["isolation_level"]),
                                "key_format": Format(source["key_format"]),
                                "value_format": Format(source["value_format"]),
                                "schema_registry": decode_registry_access(source["schema_registry"]),
                                "group_membership": decode_membership(source["group_membership"]),
                            }
                        ),
                        "transform": Transform(
                            **{**spec["transform"], "output_mode": OutputMode(spec["transform"]["output_mode"])}
                        ),
                        "sink": Sink(
                            **{
                                **sink,
                                "semantic": Semantic(sink["semantic"]),
                                "topic_from": TopicFrom(sink["topic_from"]),
                                "partitioner": Partitioner(sink["partitioner"]),
                                "transaction_naming": TransactionNaming(sink["transaction_naming"]),
                                "lost_transaction_policy": LostTransactionPolicy(sink["lost_transaction_policy"]),
                            }
                        ),
                        "retention": Retention(**spec["retention"]),
                        "restore": Restore(**spec["restore"]),
                        "record_errors": record_errors_from_job(spec["record_errors"]),
                    }
                ),
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"the job description is not one of this release: {error!r}"
        raise ConfigurationError(msg, remedy="use an image of the operator's release in spec.image") from error
    check_spec(job.spec)
    return job

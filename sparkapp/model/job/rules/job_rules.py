"""The rules between the sections of ``spec``, and within ``spec.checkpoint``."""

from __future__ import annotations

from sparkapp.model.encoding.schema import ObjectRule

HAS_STORE = "(has(self.checkpoint.state) && has(self.checkpoint.state.storage))"
"""Whether an object store has the state of operators."""
KEEPS_STATE = f"has(self.checkpoint.stateVolume) || {HAS_STORE}"
"""Whether the job has a place for it."""

JOB_RULES = (
    ObjectRule(
        "self.engine != 'Continuous' || ((!has(self.transform) || !has(self.transform.python)) &&"
        " [self.source.format.key, self.source.format.value].all(f, f in ['raw', 'string'] ||"
        " (has(self.transform) && (has(self.transform.arrow) || (has(self.transform.sql) && f == 'json')))))",
        "engine: Continuous has no transform.python, json only with transform.arrow or transform.sql, and avro and"
        " protobuf only with transform.arrow: remove them, or set engine: MicroBatch",
        by_server=True,
    ),
    ObjectRule(
        "self.engine != 'Continuous' || self.sink.deliveryGuarantee != 'ExactlyOnce' ||"
        " self.sink.transactions.producersPoolSize >= 3",
        "engine: Continuous with ExactlyOnce needs sink.transactions.producersPoolSize of at least 3: raise"
        " it, or set engine: MicroBatch",
        by_server=True,
    ),
    ObjectRule(
        "self.checkpoint.commitIntervalMillis == 0 || (self.engine != 'MicroBatch' &&"
        " self.sink.deliveryGuarantee == 'ExactlyOnce' && self.source.offsetCommit == 'InTransaction')",
        "checkpoint.commitIntervalMillis needs engine: Continuous, sink.deliveryGuarantee: ExactlyOnce and"
        " source.offsetCommit: InTransaction: set them, or remove checkpoint.commitIntervalMillis",
        by_server=True,
    ),
    ObjectRule(
        "self.checkpoint.commitIntervalMillis == 0 || (!has(self.source.watermarks) &&"
        " self.source.watermarkAlignment.maxDriftSeconds == 0 && self.source.limits.maxOffsetsPerCheckpoint"
        " == 1000000 && self.source.limits.maxRatePerPartition == 0 && self.source.limits.maxRecordsPerSplit"
        " == 0)",
        "checkpoint.commitIntervalMillis cannot be used with source.limits, source.watermarks and"
        " source.watermarkAlignment: remove them, or checkpoint.commitIntervalMillis",
        by_server=True,
    ),
    ObjectRule(
        "self.checkpoint.commitIntervalMillis == 0 || !has(self.sink.kafka)",
        "checkpoint.commitIntervalMillis needs the group's offsets in the transactions, and sink.kafka is another"
        " cluster than the group's: remove checkpoint.commitIntervalMillis, or sink.kafka",
    ),
    ObjectRule(
        "self.engine != 'MicroBatch' || !has(self.source.watermarks)",
        "source.watermarks needs the continuous engine: set engine: Continuous, or remove source.watermarks",
        by_server=True,
    ),
    ObjectRule(
        "has(self.sink.kafka) || ((!has(self.source.topics) || !(self.sink.topic in self.source.topics)) &&"
        " (!has(self.source.partitions) || !self.source.partitions.exists(p, p.topic == self.sink.topic)))",
        "sink.topic is also a source topic: the job would read its own output forever; write to another topic",
    ),
    ObjectRule(
        "has(self.sink.kafka) || !has(self.source.topicPattern) ||"
        " !self.sink.topic.matches('^(?:' + self.source.topicPattern + ')$')",
        "sink.topic matches source.topicPattern: the job would read its own output forever; write to another topic",
        by_server=True,
    ),
    ObjectRule(
        "has(self.sink.kafka) || !has(self.source.topicPattern) || !has(self.deadLetter) ||"
        " !self.deadLetter.topic.matches('^(?:' + self.source.topicPattern + ')$')",
        "deadLetter.topic matches source.topicPattern: the job would read its own dead letters; write them"
        " to another topic",
        by_server=True,
    ),
    ObjectRule(
        "(self.onRecordError == 'DeadLetter' || self.onTransformError == 'DeadLetter') == has(self.deadLetter)",
        "deadLetter is needed with onRecordError: DeadLetter or onTransformError: DeadLetter, and only there, for"
        " instance deadLetter: {topic: orders-dlq}",
    ),
    ObjectRule(
        "self.onTransformError == 'Fail' || (has(self.transform) && (has(self.transform.arrow) ||"
        " has(self.transform.python) || has(self.transform.sql)))",
        "onTransformError is about records that a transform fails for: add transform.arrow, transform.python or"
        " transform.sql, or set onTransformError: Fail",
    ),
    ObjectRule(
        f"self.onTransformError == 'Fail' || !has(self.transform) || has(self.transform.arrow) || !({KEEPS_STATE})",
        "onTransformError with transform.python and transform.sql excludes checkpoint.stateVolume and"
        " checkpoint.state.storage, because state has records of earlier checkpoints: set Fail, or remove them",
    ),
    ObjectRule(
        "self.onTransformError == 'Fail' || !has(self.transform) || has(self.transform.arrow) ||"
        " !has(self.source.stopping.predicate)",
        "onTransformError with transform.python and transform.sql excludes source.stopping.predicate, because the"
        " records behind an end are unknown: use transform.arrow, or set Fail",
    ),
    ObjectRule(
        "has(self.sink.kafka) || !has(self.deadLetter) || ((!has(self.source.topics) || !(self.deadLetter.topic in"
        " self.source.topics)) && (!has(self.source.partitions) || !self.source.partitions.exists(p, p.topic"
        " == self.deadLetter.topic)))",
        "deadLetter.topic is also a source topic: the job would read its own dead letters; write them to another topic",
    ),
    ObjectRule(
        "!has(self.deadLetter) || self.deadLetter.topic != self.sink.topic",
        "deadLetter.topic is the sink topic: its readers would get dead letters; write them to another topic",
    ),
    ObjectRule(
        "self.sink.topicFrom != 'Column' || (has(self.transform) && (has(self.transform.python) ||"
        " has(self.transform.arrow) || has(self.transform.sql)))",
        "sink.topicFrom Column needs a transform whose result has a column topic: add transform.python,"
        " transform.arrow or transform.sql, or set topicFrom: Spec",
    ),
    ObjectRule(
        "self.sink.deliveryGuarantee != 'ExactlyOnce' || self.sink.transactions.timeoutSeconds == 0 ||"
        " self.sink.transactions.timeoutSeconds * 1000 > (has(self.checkpoint.intervalMillis) ?"
        " self.checkpoint.intervalMillis : has(self.checkpoint.intervalSeconds) ?"
        " self.checkpoint.intervalSeconds * 1000 : 10000)",
        "sink.transactions.timeoutSeconds must exceed the checkpoint interval: the broker would abort a"
        " transaction before its commit",
    ),
    ObjectRule(
        "self.sink.deliveryGuarantee != 'ExactlyOnce' || self.sink.transactions.timeoutSeconds != 0 ||"
        " !has(self.sink.properties) || !('socket.timeout.ms' in self.sink.properties)",
        "socket.timeout.ms in sink.properties cannot be set with sink.transactions.timeoutSeconds 0:"
        " librdkafka refuses both together; remove socket.timeout.ms",
    ),
    ObjectRule(
        "self.sink.deliveryGuarantee != 'ExactlyOnce' || self.source.isolationLevel == 'read_committed'",
        "sink.deliveryGuarantee ExactlyOnce needs source.isolationLevel read_committed: the job would copy"
        " records of aborted transactions",
    ),
    ObjectRule(
        "has(self.sink.transactions.idPrefix) == has(oldSelf.sink.transactions.idPrefix) &&"
        " (!has(self.sink.transactions.idPrefix) || self.sink.transactions.idPrefix =="
        " oldSelf.sink.transactions.idPrefix)",
        "sink.transactions.idPrefix cannot change: the job must settle its transactions under it; create a"
        " job with another name instead",
        by_server=True,
    ),
    ObjectRule(
        "has(self.source.groupId) == has(oldSelf.source.groupId) && (!has(self.source.groupId) ||"
        " self.source.groupId == oldSelf.source.groupId)",
        "source.groupId cannot change: the group's offsets are the evidence of committed transactions;"
        " create a job with another name instead",
        by_server=True,
    ),
    ObjectRule(
        "self.source.groupMembership.mode != 'Subscribe' || self.sink.deliveryGuarantee != 'ExactlyOnce'",
        "source.groupMembership.mode Subscribe cannot be exactly once: a rebalance may move a partition"
        " during a transaction; set mode Assign, or sink.deliveryGuarantee AtLeastOnce",
    ),
    ObjectRule(
        f"self.source.groupMembership.mode != 'Subscribe' || !({KEEPS_STATE})",
        "source.groupMembership.mode Subscribe cannot keep operators' state, which does not move with a"
        " partition: set mode Assign, or remove checkpoint.stateVolume and checkpoint.state.storage",
    ),
    ObjectRule(
        f"!has(self.checkpoint.state) || !has(self.checkpoint.state.partitions) || {KEEPS_STATE}",
        "checkpoint.state.partitions is about state that the job keeps: name a claim in checkpoint.stateVolume or a"
        " bucket in checkpoint.state.storage.s3, or remove checkpoint.state.partitions",
    ),
    ObjectRule(
        f"!has(self.checkpoint.stateVolume) || !({HAS_STORE})",
        "checkpoint.stateVolume and checkpoint.state.storage exclude each other: the state is in one place; remove one"
        " of them",
    ),
    ObjectRule(
        "oldSelf.source.groupMembership.mode != 'Subscribe' || self.source.groupMembership.mode == 'Subscribe'",
        "source.groupMembership.mode cannot change to Assign: the checkpoint has only this member's"
        " partitions; create a job with another name and the same source.groupId",
        by_server=True,
    ),
    ObjectRule(
        "!has(self.restore.checkpoint) || self.source.groupMembership.mode != 'Subscribe'",
        "restore.checkpoint has no effect with source.groupMembership.mode Subscribe: the offsets are the"
        " group's; remove it, stop all members and run kafka-consumer-groups --reset-offsets",
    ),
    ObjectRule(
        "(!has(self.startFrom) && !has(self.restore.snapshot)) || self.source.groupMembership.mode != 'Subscribe'",
        "startFrom.snapshot and restore.snapshot have no effect with source.groupMembership.mode Subscribe: the"
        " offsets are the group's; remove them, stop all members and run kafka-consumer-groups --reset-offsets",
    ),
    ObjectRule(
        "!has(self.checkpoint) || !has(self.snapshot)",
        "restore.checkpoint and restore.snapshot exclude each other: remove one of them",
        ("restore",),
    ),
    ObjectRule(
        "!has(self.intervalSeconds) || !has(self.intervalMillis)",
        "checkpoint.intervalSeconds and checkpoint.intervalMillis exclude each other: remove one of them",
        ("checkpoint",),
        by_server=True,
    ),
)

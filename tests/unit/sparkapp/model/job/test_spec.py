"""A job's spec: defaults, rules between fields, and the trip from the resource to the driver."""

from __future__ import annotations

import json

import pytest

from sparkapp.model.checkpoint.naming import TransactionNaming
from sparkapp.model.delivery_guarantee import DeliveryGuarantee, OffsetCommit
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.access.mounts import SecretFolder
from sparkapp.model.job.access.registry_access import RegistryAccess
from sparkapp.model.job.access.security import AuthenticationType
from sparkapp.model.job.codec import FORMAT, decode_job, encode_job
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.rules.engine_rules import chosen_engine
from sparkapp.model.job.sections.sink import OnTransactionLost
from sparkapp.model.job.sections.source import IsolationLevel
from sparkapp.model.job.spec import Engine, Job
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.model.job.startup import ResetStrategy, StartupMode

SMALLEST = {"kafka": {"bootstrapServers": "b:9092"}, "source": {"topics": ["in"]}, "sink": {"topic": "out"}}
FULL = {
    "kafka": {
        "bootstrapServers": "a:1,b:2",
        "tls": {"trustedCertificates": [{"secretName": "kafka-cluster-ca-cert", "certificate": "ca.crt"}]},
        "authentication": {
            "type": "scram-sha-256",
            "username": "user",
            "passwordSecret": {"secretName": "kafka"},
        },
    },
    "source": {
        "topicPattern": "in-.*",
        "groupId": "group",
        "startup": {"mode": "Latest", "onMissingOffset": "Fail"},
        "discoveryIntervalSeconds": -1,
        "offsetCommit": "OnCheckpoint",
        "limits": {"maxOffsetsPerCheckpoint": 5, "maxRecordsPerSplit": 2},
        "format": {"key": "string", "value": "json", "valueSchema": "id BIGINT"},
        "properties": {"fetch.min.bytes": "1"},
    },
    "transform": {"python": {"function": "enrich:transform", "configMapRef": {"name": "code"}}},
    "sink": {
        "topic": "out",
        "topicFrom": "Column",
        "partitioner": "SourcePartition",
        "deliveryGuarantee": "ExactlyOnce",
        "onTransactionLost": "Fail",
        "transactions": {
            "idPrefix": "my-prefix",
            "naming": "SubtaskAndSlot",
            "producersPoolSize": 3,
            "timeoutSeconds": 60,
        },
        "properties": {"compression.type": "zstd"},
    },
    "parallelism": 4,
    "checkpoint": {"intervalSeconds": 2},
}


CONTINUOUS = {**SMALLEST, "engine": "Continuous"}


def spec(*, base=SMALLEST, **sections):
    """The smallest spec with sections merged in, one level deep."""
    merged = json.loads(json.dumps(base))
    for name, values in sections.items():
        merged[name] = {**merged.get(name, {}), **values} if isinstance(values, dict) else values
    return merged


def specific(topic):
    """A choice of offsets for partition 0 of this topic."""
    return {"mode": "SpecificOffsets", "specificOffsets": [{"topic": topic, "partition": 0, "offset": 1}]}


def parsed(value):
    return spec_from_resource(value, namespace="shop", name="orders")


def test_T11_defaults():
    found = parsed(SMALLEST)
    assert found.source.group_id == "shop.orders"
    assert found.source.startup.mode is StartupMode.GROUP_OFFSETS
    assert found.source.startup.on_missing is ResetStrategy.EARLIEST
    assert found.source.offset_commit is OffsetCommit.IN_TRANSACTION
    assert found.source.isolation_level is IsolationLevel.READ_COMMITTED
    assert found.source.discovery_interval_seconds == 300
    assert found.source.max_records_per_split == 0, "whole partitions"
    assert found.sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    assert found.sink.transactional_id_prefix == "shop.orders"
    assert found.sink.transaction_naming is TransactionNaming.HINT
    assert found.sink.on_transaction_lost is OnTransactionLost.REPLAY
    assert found.sink.producers_pool_size == 5
    assert found.sink.transaction_timeout_seconds == 900
    assert (found.parallelism, found.checkpoint_interval, found.metrics_port) == (1, 10, 8090)


@pytest.mark.parametrize(
    ("prometheus", "port"),
    [({}, 8090), ({"port": 9404}, 9404), ({"enabled": True}, 8090), ({"enabled": False}, 0)],
)
def test_the_metrics_port_is_open_unless_it_is_switched_off(prometheus, port):
    assert parsed(spec(metrics={"prometheus": prometheus})).metrics_port == port


@pytest.mark.parametrize(
    ("given", "wanted"),
    [({}, 0), ({"partitions": 12}, 12), ({"partitions": "12"}, 12), ({"partitions": "FollowParallelism"}, 4)],
)
def test_the_partitions_of_state_are_a_number_or_follow_the_parallelism(given, wanted):
    checkpoint = {"state": given, "stateVolume": {"claimName": "c"}}
    assert parsed({**SMALLEST, "parallelism": 4, "checkpoint": checkpoint}).wanted_state_partitions == wanted


def test_a_job_description_that_was_written_before_there_were_metrics_opens_no_port():
    body = json.loads(encode_job(Job(namespace="n", name="j", uid="u", generation=1, attempt=1, spec=parsed(SMALLEST))))
    del body["spec"]["metrics_port"]
    assert decode_job(json.dumps(body)).spec.metrics_port == 0


def test_every_field():
    found = parsed(FULL)
    assert found.source.schema_registry is None
    assert found.kafka.authentication.type is AuthenticationType.SCRAM_SHA_256
    assert found.source.topic_pattern == "in-.*"
    assert found.source.max_records_per_split == 2
    assert found.source.value_format is Format.JSON
    assert found.transform.function == "enrich:transform"
    assert found.sink.transaction_naming is TransactionNaming.SUBTASK_AND_SLOT
    assert found.sink.on_transaction_lost is OnTransactionLost.FAIL
    assert found.sink.properties == {"compression.type": "zstd"}
    assert (found.parallelism, found.checkpoint_interval) == (4, 2)
    assert parsed(spec(checkpoint={"intervalMillis": 250})).checkpoint_interval == 0.25


def test_the_modules_of_an_arrow_function_are_the_jobs_code():
    arrow = {"factory": "scores:Model", "configMapRef": {"name": "code"}}
    found = parsed(spec(engine="Continuous", transform={"arrow": arrow}, sink={"topicFrom": "Column"}))
    assert (found.transform.arrow.name, found.transform.code) == ("scores:Model", "code")
    assert not found.transform.passes_through


@pytest.mark.parametrize(
    ("fields", "engine", "reason"),
    [
        ({}, Engine.MICRO_BATCH, "set by spec.engine"),
        ({"engine": "Continuous"}, Engine.CONTINUOUS, "set by spec.engine"),
        ({"engine": "Auto"}, Engine.CONTINUOUS, "spec.engine is Auto, and Continuous can run the job"),
        (
            {"engine": "Auto", "source": {"format": {"key": "string", "value": "string"}}},
            Engine.CONTINUOUS, "spec.engine is Auto, and Continuous can run the job",
        ),
        (
            {
                "engine": "Auto", "transform": {"arrow": {"function": "a:b"}},
                "source": {"format": {"value": "avro"}, "schemaRegistry": {"url": "http://r:8081"}},
            },
            Engine.CONTINUOUS, "spec.engine is Auto, and Continuous can run the job",
        ),
        (
            {
                "engine": "Auto", "transform": {"arrow": {"function": "a:b"}},
                "source": {"format": {"value": "json", "valueSchema": "n INT, l ARRAY<STRUCT<x: DOUBLE>>"}},
            },
            Engine.CONTINUOUS, "spec.engine is Auto, and Continuous can run the job",
        ),
        (
            {
                "engine": "Auto", "transform": {"sql": {"query": "SELECT 1"}},
                "source": {"format": {"key": "string", "value": "json", "valueSchema": "n INT"}},
            },
            Engine.MICRO_BATCH,
            "spec.engine is Auto, and Continuous cannot run a job with transform.sql with 1",
        ),
        (
            {
                "engine": "Auto", "transform": {"sql": {"query": "SELECT key, value FROM source WHERE value.n > 1"}},
                "source": {"format": {"key": "string", "value": "json", "valueSchema": "n INT"}},
            },
            Engine.CONTINUOUS, "spec.engine is Auto, and Continuous can run the job",
        ),
        (
            {
                "engine": "Auto", "transform": {"sql": {"query": "SELECT key, value FROM source"}},
                "source": {"format": {"value": "json", "valueSchema": "at TIMESTAMP"}},
            },
            Engine.MICRO_BATCH,
            "spec.engine is Auto, and Continuous cannot run a job with source.format.valueSchema with TIMESTAMP",
        ),
        (
            {"engine": "Auto", "source": {"stopping": {"predicate": "key IS NULL"}}},
            Engine.MICRO_BATCH,
            "spec.engine is Auto, and Continuous cannot run a job with source.stopping.predicate",
        ),
    ],
    ids=["default", "set", "pass-through", "text", "arrow", "json", "sql", "narrow", "types", "predicate"],
)  # fmt: skip
def test_auto_takes_the_continuous_engine_where_that_can_run_the_job(fields, engine, reason):
    assert chosen_engine(parsed(spec(**fields))) == (engine, reason)


def test_a_partition_in_pieces_has_no_end_record():
    source = {"stopping": {"predicate": "value = 'END'"}, "limits": {"maxRecordsPerSplit": 10}}
    with pytest.raises(ConfigurationError, match="several splits have no common first match; set limits"):
        parsed(spec(source=source))
    assert parsed(spec(source={**source, "limits": {"maxRecordsPerSplit": 0}})).source.stopping.bounded


@pytest.mark.parametrize("value", [SMALLEST, FULL], ids=["smallest", "full"])
def test_the_driver_reads_back_what_the_operator_wrote(value):
    job = Job(namespace="shop", name="orders", uid="uid", generation=3, attempt=2, spec=parsed(value))
    assert decode_job(encode_job(job)) == job


DAMAGED = [f'{{"format_version":{FORMAT}{rest}}}' for rest in ("", ',"spec":{}', ',"spec":null', ',"spec":{"kafka":7}')]


@pytest.mark.parametrize("text", ["", "[]", "null", "{", *DAMAGED])
def test_a_job_description_of_another_release_is_refused(text):
    with pytest.raises(ConfigurationError, match="not one of this release"):
        decode_job(text)


@pytest.mark.parametrize("schema", [{}, {"valueSchema": '{"type": "string"}'}], ids=["latest", "given"])
def test_avro_takes_the_registrys_schema_or_the_given_one(schema):
    value = spec(source={"format": {"value": "avro", **schema}, "schemaRegistry": {"url": "https://r/sub"}})
    job = Job(namespace="shop", name="orders", uid="uid", generation=3, attempt=2, spec=parsed(value))
    assert job.spec.source.schema_registry == RegistryAccess(url="https://r/sub")
    assert decode_job(encode_job(job)) == job


BASIC = {
    "type": "basic", "username": "orders", "passwordSecret": {"secretName": "registry-user", "password": "pw"},
}  # fmt: skip
BEARER = {"type": "bearer", "accessToken": {"secretName": "registry-token", "key": "t"}}
CA = {"trustedCertificates": [{"secretName": "registry-ca", "certificate": "ca.pem"}]}


def registered(**access):
    return spec(source={"format": {"value": "avro"}, "schemaRegistry": {"url": "https://r", **access}})


@pytest.mark.parametrize(
    ("access", "files"),
    [
        ({}, ()),
        ({"authentication": BASIC}, (SecretFolder("user", "registry-user", (("pw", "password"),)),)),
        (
            {"authentication": BEARER, "tls": CA},
            (
                SecretFolder("ca-0", "registry-ca", (("ca.pem", "ca.pem"),)),
                SecretFolder("user", "registry-token", (("t", "token"),)),
            ),
        ),
    ],
    ids=["open", "basic", "bearer and a private authority"],
)
def test_a_registry_that_wants_to_know_who_asks(access, files):
    job = Job(namespace="shop", name="orders", uid="uid", generation=3, attempt=2, spec=parsed(registered(**access)))
    found = job.spec.source.schema_registry
    assert found.folders == files
    assert found.directory == "/etc/kafkaspark/schema-registry"
    assert decode_job(encode_job(job)) == job


@pytest.mark.parametrize(
    ("access", "message"),
    [
        ({"authentication": {"username": "u"}}, "authentication.type is missing"),
        ({"authentication": {**BASIC, "username": "a:b"}}, "has no ':' in its name"),
    ],
)
def test_what_a_registry_cannot_be_reached_with(access, message):
    with pytest.raises(ConfigurationError) as caught:
        parsed(registered(**access))
    assert message in caught.value.message


def test_the_drivers_copy_is_checked_again():
    body = json.loads(encode_job(Job(namespace="n", name="j", uid="u", generation=1, attempt=1, spec=parsed(SMALLEST))))
    body["spec"]["sink"]["topic"] = "in"
    with pytest.raises(ConfigurationError, match="read its own output forever"):
        decode_job(json.dumps(body))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "bootstrapServers"),
        (spec(kafka={"bootstrapServers": ""}), "bootstrapServers"),
        (spec(kafka={"bootstrapServers": 7}), "bootstrapServers"),
        (spec(sink={"topic": ""}), "spec.sink.topic"),
        (spec(sink={"topic": "a b"}), "not a topic name"),
        (
            spec(checkpoint={"state": {"partitions": 0}}),
            "spec.checkpoint.state.partitions must be FollowParallelism or a number from 1 to 9999, not '0'",
        ),
        (spec(checkpoint={"state": {"partitions": "Follow"}}), "not 'Follow'"),
        (spec(checkpoint={"state": {"partitions": 10000}}), "not '10000'"),
        (spec(checkpoint={"state": {"partitions": True}}), "spec.checkpoint.state.partitions must be"),
        (spec(sink={"topic": "x" * 250}), "not a topic name"),
        (spec(source={"topics": ["in", ".."]}), "spec.source.topics: '..' is not a topic name"),
        (spec(sink={"topic": "."}), "spec.sink.topic: '.' is not a topic name"),
        (
            spec(source={"topics": [], "partitions": [{"topic": ".", "partitions": [0]}]}),
            "spec.source.partitions: '.' is not a topic name",
        ),
        (
            spec(source={"startup": specific("other")}),
            "spec.source.startup.specificOffsets: topic 'other' is not in source.topics; remove",
        ),
        (
            spec(source={"topics": [], "partitions": [{"topic": "in", "partitions": [1]}], "stopping": specific("in")}),
            "spec.source.stopping.specificOffsets: partition in-0 is not in source.partitions; remove",
        ),
        (spec(source={"topics": "in"}), "a list of strings"),
        (spec(source={"properties": {"group.id": "x"}}), "group.id cannot be set here"),
        (spec(sink={"properties": {"acks": "1"}}), "acks cannot be set here"),
        (spec(sink={"properties": {"delivery.report.only.error": "true"}}), "delivery.report.only.error cannot be set"),
        (spec(sink={"properties": {"sasl.kerberos.keytab": "x"}}), "credentials come from a Secret"),
        (spec(source={"properties": {"session.timeout.ms": "1"}}), "groupMembership.sessionTimeoutSeconds"),
        (spec(sink={"partitioner": "Sticky"}), "spec.sink.partitioner"),
        (spec(sink={"properties": {"ssl.keystore.password": "x"}}), "password cannot be set here"),
        (spec(sink={"properties": {"some.password.of.mine": "x"}}), "cannot be set here"),
        (spec(sink={"properties": {"linger.ms": 5}}), "in quotes"),
        (
            spec(metrics={"prometheus": {"port": 80}}),
            "prometheus.port must be a whole number of at least 1024, not 80",
        ),
        (
            spec(metrics={"prometheus": {"port": 65536}}),
            "prometheus.port must be a whole number of at most 65535, not 65536",
        ),
        (spec(metrics={"prometheus": {"enabled": "no"}}), "spec.metrics.prometheus.enabled must be true or false"),
        (spec(transform={"python": {"function": "no_colon"}}), "module:function"),
        (spec(transform={"arrow": {"factory": "no_colon"}}), "spec.transform.arrow.factory: 'no_colon' must have"),
        (
            spec(engine="Continuous", sink={"transactions": {"producersPoolSize": 2}}),
            "Continuous cannot run a job with sink.transactions.producersPoolSize: 2; set engine: MicroBatch, or set"
            " sink.transactions.producersPoolSize to at least 3",
        ),
        (
            spec(engine="Continuous", transform={"sql": {"query": "select 1"}}),
            "Continuous cannot run a job with transform.sql with 1; set engine: MicroBatch, or write transform.sql as"
            " columns, comparisons and to_json(struct(…)) of each record, or remove it",
        ),
        (
            spec(
                engine="Continuous",
                transform={"arrow": {"function": "a:b"}},
                source={"format": {"key": "json", "keySchema": "n INT, at TIMESTAMP"}},
            ),
            "Continuous cannot run a job with source.format.keySchema with TIMESTAMP; set engine: MicroBatch, or write"
            " source.format.keySchema as columns of BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, DOUBLE, STRING, STRUCT,",
        ),
        (
            spec(engine="Continuous", source={"format": {"value": "avro"}, "schemaRegistry": {"url": "http://r:8081"}}),
            "Continuous cannot run a job with source.format json, avro or protobuf and no transform.arrow or"
            " transform.sql; set engine: MicroBatch, or remove source.format, or add a transform",
        ),
        (
            spec(source={"watermarks": {"maxOutOfOrdernessSeconds": 0}}),
            "spec.source.watermarks: needs the continuous engine, because Spark has one watermark for a query."
            " MicroBatch: set by spec.engine; remove source.watermarks and declare withWatermark in the transform, or"
            " set engine: Continuous",
        ),
        (
            spec(
                engine="Auto",
                transform={"sql": {"query": "select 1"}},
                source={"watermarks": {"maxOutOfOrdernessSeconds": 0}},
            ),
            "MicroBatch: spec.engine is Auto, and Continuous cannot run a job with transform.sql with 1; remove"
            " source.watermarks and declare withWatermark in the transform, or write transform.sql as columns,",
        ),
        (
            spec(engine="Continuous", source={"watermarks": {"idleTimeoutSeconds": 5}}),
            "spec.source.watermarks.maxOutOfOrdernessSeconds is missing",
        ),
        (
            spec(checkpoint={"commitIntervalMillis": 50}),
            "spec.checkpoint.commitIntervalMillis: needs the continuous engine. MicroBatch: set by spec.engine;"
            " remove checkpoint.commitIntervalMillis, or set engine: Continuous",
        ),
        (
            spec(transform={"sql": {"query": "select 1"}}, checkpoint={"commitIntervalMillis": 50}),
            "remove checkpoint.commitIntervalMillis, or set engine: Continuous and write transform.sql as columns,",
        ),
        (
            spec(engine="Auto", transform={"sql": {"query": "select 1"}}, checkpoint={"commitIntervalMillis": 50}),
            "MicroBatch: spec.engine is Auto, and Continuous cannot run a job with transform.sql with 1; remove"
            " checkpoint.commitIntervalMillis, or write transform.sql as columns,",
        ),
        (
            spec(checkpoint={"commitIntervalMillis": 50}, base=CONTINUOUS, sink={"deliveryGuarantee": "AtLeastOnce"}),
            "is for transactions, which sink.deliveryGuarantee AtLeastOnce does not have; remove",
        ),
        (
            spec(checkpoint={"commitIntervalMillis": 50}, base=CONTINUOUS, source={"offsetCommit": "OnCheckpoint"}),
            "needs the offsets in the transactions, and source.offsetCommit is OnCheckpoint; set source.offsetCommit",
        ),
        (
            spec(
                checkpoint={"commitIntervalMillis": 20000},
                base=CONTINUOUS,
                sink={"transactions": {"timeoutSeconds": 20}},
            ),
            "spec.sink.transactions.timeoutSeconds: must exceed checkpoint.commitIntervalMillis, or",
        ),
        *(
            (
                spec(checkpoint={"commitIntervalMillis": 50}, base=CONTINUOUS, source={section: {field: value}}),
                f"commitIntervalMillis: cannot be used with source.{shown}, which needs checkpoints that the driver",
            )
            for section, field, value, shown in (
                ("limits", "maxOffsetsPerCheckpoint", 5, "limits.maxOffsetsPerCheckpoint"),
                ("limits", "maxRatePerPartition", 5, "limits.maxRatePerPartition"),
                ("limits", "maxRecordsPerSplit", 5, "limits.maxRecordsPerSplit"),
                ("watermarkAlignment", "maxDriftSeconds", 5, "watermarkAlignment"),
                ("watermarks", "maxOutOfOrdernessSeconds", 0, "watermarks"),
            )
        ),
        (spec(source={"format": {"value": "avro"}, "schemaRegistry": {"url": "http://u:p@r"}}), "without user"),
        (spec(source={"format": {"value": "avro"}, "schemaRegistry": {"url": "r:8081"}}), "must be http://host:port"),
        (spec(checkpoint={"intervalSeconds": 1, "intervalMillis": 1000}), "remove one of them from spec.checkpoint"),
        (spec(sink={"transactions": {"idPrefix": "a b"}}), "transactions.idPrefix"),
        (spec(sink={"transactions": {"idPrefix": "x" * 250}}), "transactions.idPrefix"),
        (spec(sink={"transactions": {"producersPoolSize": "5"}}), "whole number"),
        (spec(sink={"transactions": {"producersPoolSize": True}}), "whole number"),
        (spec(source=None) | {"source": 7}, "spec.source must be an object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_spec_that_cannot_work_says_which_field_and_why(value, message):
    with pytest.raises(ConfigurationError) as caught:
        parsed(value)
    assert message in f"{caught.value.message}; {caught.value.remedy}"
    assert caught.value.remedy
    assert caught.value.fatal


def test_topic_names_of_dots_and_more_are_names():
    assert parsed(spec(source={"topics": ["...", ".a", "a."]})).source.topics == ("...", ".a", "a.")


def test_specific_offsets_of_a_pattern_are_not_judged_before_its_topics_are_known():
    found = parsed(spec(source={"topics": [], "topicPattern": "in.*", "startup": specific("other")}))
    assert found.source.startup.specific_offsets[0].topic == "other"


@pytest.mark.parametrize("length", [1, 249])
def test_a_transactional_id_prefix_of_the_greatest_length_is_one(length):
    assert parsed(spec(sink={"transactions": {"idPrefix": "x" * length}})).sink.transactional_id_prefix == "x" * length


@pytest.mark.parametrize("delivery_guarantee", ["AtLeastOnce", "None"])
def test_rules_of_exactly_once_do_not_bind_the_others(delivery_guarantee):
    found = parsed(
        spec(
            source={"isolationLevel": "read_uncommitted"},
            sink={"deliveryGuarantee": delivery_guarantee, "transactions": {"timeoutSeconds": 1}},
        )
    )
    assert found.sink.delivery_guarantee.value == delivery_guarantee

"""What a resource asks for: defaults, and refusals that name the field."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.workload import (
    DesiredJob,
    JobSettings,
    RestartPolicy,
    desired_from_resource,
    restart_policy_of,
)
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.spark_settings import ROCKSDB_MEMORY
from tests.support.kubernetes.operator_fixture import job_body


def wanted(**spec: Any) -> DesiredJob:
    return desired_from_resource(job_body(**spec)["spec"], namespace="team", name="orders")


PEM = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hunter2";'


def template(annotations: dict[str, str]) -> dict[str, Any]:
    return {"driver": {"podTemplate": {"metadata": {"annotations": annotations}}}}


def test_an_annotation_may_tell_where_a_secret_is() -> None:
    annotations = {"vault.hashicorp.com/agent-inject-secret-db": "database/creds/orders"}
    assert wanted(**template(annotations)).workload.driver.template.annotations == annotations


def test_defaults_fit_a_small_node() -> None:
    found = wanted()
    for pod, cpu in ((found.workload.driver, 100), (found.workload.executor, 1000)):
        assert (pod.heap_mebibytes, pod.cpu_request, pod.cpu_limit) == (1024, cpu, 0)
        assert (pod.storage_request_mebibytes, pod.storage_limit_mebibytes) == (256, 10240)
    assert found.restart_policy == RestartPolicy()
    assert (found.suspend, found.restart_nonce) == (False, 0)
    assert found.spec.sink.transactional_id_prefix == "team.orders"


@pytest.mark.parametrize(
    ("parallelism", "executor", "instances"),
    [(2, {}, 2), (5, {"cores": 2}, 3), (4, {"cores": 4}, 1), (4, {"instances": 7}, 7)],
)
def test_executors_follow_the_parallelism(parallelism: int, executor: dict[str, int], instances: int) -> None:
    assert wanted(parallelism=parallelism, executor=executor).workload.executor_instances == instances


@pytest.mark.parametrize(
    ("driver", "heap", "container"),
    [
        ({"memory": "512Mi"}, 512, 896),
        ({}, 1024, 1433),
        ({"memory": "2Gi"}, 2048, 2867),
        ({"memory": "2Gi", "memoryOverhead": "1Gi"}, 2048, 3072),
        ({"memory": 2147483648, "memoryOverhead": "0.5Gi"}, 2048, 2560),
        ({"memory": "1500M", "memoryOverhead": "400000Ki"}, 1431, 1822),
    ],
)
def test_the_container_has_room_next_to_the_heap(driver: dict[str, Any], heap: int, container: int) -> None:
    found = wanted(driver=driver).workload.driver
    assert (found.heap_mebibytes, found.container_mebibytes) == (heap, container)


@pytest.mark.parametrize(
    ("spec", "overhead"),
    [
        ({}, 409),
        ({"checkpoint": {"stateVolume": {"claimName": "c"}}}, 921),
        ({"checkpoint": {"state": {"storage": {"s3": {"bucket": "state"}}}}}, 921),
        ({"checkpoint": {"stateVolume": {"claimName": "c"}}, "executor": {"memoryOverhead": "500Mi"}}, 500),
        ({"checkpoint": {"stateVolume": {"claimName": "c"}}, "sparkConf": {ROCKSDB_MEMORY: "1000"}}, 1409),
        ({"sparkConf": {ROCKSDB_MEMORY: "1000"}}, 409),
    ],
)
def test_an_executor_has_room_for_the_memory_of_query_state(spec: dict[str, Any], overhead: int) -> None:
    found = wanted(**spec).workload
    assert (found.executor.overhead_mebibytes, found.driver.overhead_mebibytes) == (overhead, 409)


@pytest.mark.parametrize(("cpu", "millicores"), [(2, 2000), ("2", 2000), ("1.5", 1500), ("250m", 250), ("0.1", 100)])
def test_cpu_is_a_quantity(cpu: str | int, millicores: int) -> None:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    found = wanted(executor={"resources": resources}).workload.executor
    assert (found.cpu_request, found.cpu_limit) == (millicores, millicores)


@pytest.mark.parametrize(
    ("executor", "millicores"),
    [
        ({}, (1000, 0)),
        ({"cores": 4}, (4000, 0)),
        ({"cores": 4, "resources": {"requests": {"cpu": "250m"}}}, (250, 0)),
        ({"cores": 4, "resources": {"limits": {"cpu": 8}}}, (4000, 8000)),
        ({"cores": 4, "resources": {"limits": {"cpu": 2}}}, (2000, 2000)),
    ],
)
def test_an_executor_requests_a_cpu_for_each_task_slot(executor: dict[str, Any], millicores: tuple[int, int]) -> None:
    found = wanted(executor=executor).workload
    assert (found.executor.cpu_request, found.executor.cpu_limit) == millicores
    assert (found.driver.cpu_request, found.driver.cpu_limit) == (100, 0)


def test_a_driver_requests_no_more_than_its_limit() -> None:
    driver = wanted(driver={"resources": {"limits": {"cpu": "50m"}}}).workload.driver
    assert (driver.cpu_request, driver.cpu_limit) == (50, 50)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"image": ""}, "spec.image"),
        ({"driver": {"memory": "2g"}}, "for instance 512Mi or 2Gi, not '2g'; write 2Gi"),
        ({"executor": {"memory": "512m"}}, "not '512m'; write 512Mi"),
        ({"executor": {"memoryOverhead": "512MB"}}, "not '512MB'; write 512Mi"),
        ({"driver": {"memory": "much"}}, "spec.driver.memory must be a quantity as Kubernetes writes it"),
        ({"driver": {"memory": 1.5}}, "spec.driver.memory must be a quantity: a string or a whole number"),
        ({"executor": {"memory": "256Mi"}}, "spec.executor.memory must be at least 512Mi"),
        ({"executor": {"resources": {"requests": {"cpu": "half"}}}}, "spec.executor.resources.requests.cpu"),
        ({"driver": {"resources": {"limits": {"cpu": "0.5m"}}}}, "spec.driver.resources.limits.cpu"),
        (
            {"driver": {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1900m"}}}},
            "spec.driver.resources.requests.cpu must not exceed spec.driver.resources.limits.cpu",
        ),
        (
            {"driver": {"resources": {"requests": {"ephemeral-storage": "11Gi"}}}},
            "spec.driver.resources.requests.ephemeral-storage must not exceed "
            "spec.driver.resources.limits.ephemeral-storage",
        ),
        (
            {"executor": {"resources": {"limits": {"ephemeral-storage": "255Mi"}}}},
            "spec.executor.resources.limits.ephemeral-storage must be at least 256Mi",
        ),
        ({"executor": {"resources": {"limits": {"ephemeral-storage": "8g"}}}}, "not '8g'; write 8Gi"),
        ({"sparkConf": {"spark.executor.memoryOverhead": "1g"}}, "the operator sets"),
        ({"executor": {"instances": 0}}, "spec.executor.instances"),
        ({"executor": {"cores": "2"}}, "spec.executor.cores"),
        ({"suspend": "yes"}, "spec.suspend"),
        ({"restore": {"checkpoint": 0}}, "spec.restore.checkpoint"),
        ({"restore": {"nonce": -1}}, "spec.restore.nonce"),
        (
            {"checkpoint": {"retention": {"count": 51}}},
            "retention.count must be a whole number of at most 50",
        ),
        ({"checkpoint": {"retention": {"intervalSeconds": 0}}}, "spec.checkpoint.retention.intervalSeconds"),
        ({"checkpoint": {"retention": {"intervalSeconds": 86401}}}, "at most 86400"),
        (
            {
                "restore": {"checkpoint": 3},
                "sink": {"topic": "out", "deliveryGuarantee": "AtLeastOnce"},
                "source": {"topics": ["in"], "offsetCommit": "OnCheckpoint", "groupMembership": {"mode": "Subscribe"}},
            },
            "kafka-consumer-groups --reset-offsets",
        ),
        ({"driver": {"env": [{"name": "SPARK_HOME", "value": "/x"}]}}, "spec.driver.env"),
        ({"driver": {"env": [{"name": "HOME", "value": "/x"}]}}, "spec.driver.env: 'HOME' is set by the operator"),
        ({"executor": {"env": [{"name": "HOME", "value": "/x"}]}}, "spec.executor.env: 'HOME' is set by the operator"),
        ({"driver": {"env": ["A=B"]}}, "spec.driver.env"),
        ({"driver": {"env": [{"name": "KAFKASPARK_FAULT", "value": "x"}]}}, "spec.driver.env"),
        ({"sparkConf": {"spark.kubernetes.executor.volumes.hostPath.x.mount.path": "/"}}, "the operator sets"),
        ({"sparkConf": {"spark.master": "local"}}, "the operator sets"),
        ({"driver": {"env": [{"name": "PYSPARK_PYTHON", "value": "/x"}]}}, "spec.driver.env"),
        ({"sparkConf": {"spark.hadoop.fs.s3a.secret.key": "x"}}, "looks like a credential"),
        ({"sparkConf": {"spark.ssl.keyStorePassword": "hunter2"}}, "valueFrom.secretKeyRef"),
        ({"sparkConf": {"spark.hadoop.FS.S3A.SESSION.TOKEN": "hunter2"}}, "looks like a credential"),
        (
            {"sparkConf": {"spark.driver.extraJavaOptions": "-Djavax.net.ssl.keyStorePassword=hunter2"}},
            "spark.driver.extraJavaOptions looks like a credential",
        ),
        ({"driver": {"env": [{"name": "kafka_Password", "value": "hunter2"}]}}, "valueFrom.secretKeyRef"),
        ({"executor": {"env": [{"name": "API_KEY", "value": "hunter2"}]}}, "the value of API_KEY looks like"),
        (
            {"executor": {"env": [{"name": "PROXY", "value": "http://me:hunter2@proxy:3128"}]}},
            "the value of PROXY looks like",
        ),
        ({"driver": {"env": [{"name": "BROKER", "value": PEM}]}}, "the value of BROKER looks like"),
        ({"executor": {"env": [{"name": "BROKER", "value": JAAS}]}}, "valueFrom.secretKeyRef"),
        ({"sparkConf": {"spark.hadoop.broker.identity": PEM}}, "spark.hadoop.broker.identity looks like a credential"),
        ({"sink": {"topic": "x", "properties": {"client.rack": PEM}}}, "client.rack cannot be set here: its value"),
        (template({"spec.broker": PEM}), "podTemplate.metadata.annotations: 'spec.broker' is refused: it looks like"),
        (template({"shop/db-password": "hunter2"}), "put it into a Secret, and mount that: podTemplate.spec.volumes"),
        ({"sparkConf": {"not.spark": "x"}}, "the operator sets"),
        (
            {"checkpoint": {"stateVolume": {"claimName": "c"}}, "sparkConf": {ROCKSDB_MEMORY: "1g"}},
            "must be a whole number of mebibytes, not '1g'",
        ),
        ({"sparkConf": {"spark.sql.shuffle.partitions": 5}}, "write numbers and booleans in quotes"),
    ],
)
def test_refusals(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        wanted(**spec)
    assert message in f"{caught.value.message}; {caught.value.remedy}"
    assert "hunter2" not in f"{caught.value.message}; {caught.value.remedy}"


def test_a_variable_of_a_secrets_key_may_have_a_secrets_name() -> None:
    reference = {"name": "KAFKA_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "shop", "key": "password"}}}
    assert wanted(driver={"env": [reference]}).workload.driver.env == (reference,)


def test_what_concerns_the_application_and_what_does_not() -> None:
    first = wanted()
    assert first.same_application(wanted(suspend=True, restartPolicy={"maxConsecutiveFailures": 9}))
    assert first.same_application(wanted(restore={"checkpoint": 3})), "has an effect with the nonce alone"
    assert not first.same_application(wanted(checkpoint={"retention": {"count": 3}}))
    for change in (
        {"restartNonce": 1},
        {"restore": {"nonce": 1}},
        {"parallelism": 3},
        {"image": "x"},
        {"executor": {"memory": "2Gi"}},
    ):
        assert not first.same_application(wanted(**change)), change


def test_two_jobs_without_an_image_are_the_same_application() -> None:
    def without(default: str) -> DesiredJob:
        return desired_from_resource(
            job_body(image=None)["spec"], namespace="team", name="orders", settings=JobSettings(default_image=default)
        )

    old, new = without("sparkapp:1"), without("sparkapp:2")
    assert (old.workload.image, new.workload.image) == ("sparkapp:1", "sparkapp:2")
    assert old.same_application(new)
    assert old.same_application(wanted(image="sparkapp:1"))
    assert not old.same_application(wanted(image="sparkapp:2"))


def test_an_unreadable_restart_policy_is_the_default() -> None:
    assert restart_policy_of({"restartPolicy": {"resetAfterSeconds": "x"}}) == RestartPolicy()
    assert restart_policy_of({"restartPolicy": {"resetAfterSeconds": 7}}).reset_after_seconds == 7


@pytest.mark.parametrize(
    "name",
    [
        "spark.speculation", "spark.speculation.quantile", "spark.dynamicAllocation.enabled",
        "spark.decommission.enabled",
        "spark.stage.ignoreDecommissionFetchFailure", "spark.storage.decommission.enabled",
        "spark.stage.maxConsecutiveAttempts", "spark.stage.maxAttempts", "spark.task.maxFailures",
        "spark.python.daemon.module", "spark.python.worker.module", "spark.python.worker.reuse",
        "spark.python.use.daemon", "spark.python.udf.pipelined.enabled", "spark.python.worker.killOnIdleTimeout",
        "spark.pyspark.python", "spark.sql.execution.pyspark.python", "spark.executorEnv.PYSPARK_PYTHON",
        "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch", "spark.sql.adaptive.enabled",
    ],
)  # fmt: skip
def test_C9_what_runs_a_stage_twice_or_replaces_workers_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        wanted(sparkConf={name: "1"})
    assert f"spec.sparkConf: remove {name}" in caught.value.message

"""The resource's definition on a real API server: what is accepted, what is refused, and with which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkasparkjob_operator.workload import JobSettings, desired_from_resource
from resourceschema.corpus import Case, cases_of
from resourceschema.definition import definition_of
from resourceschema.kinds import JOB
from sparkapp.model.errors import ConfigurationError
from tests.support.fakes.kubernetes import merged
from tests.support.kubernetes.api_client import JOBS, REPOSITORY, SNAPSHOTS, ApiClient, ApiError

CORPUS = Path(__file__).parent / "corpus"
BASE = yaml.safe_load((CORPUS / "base.yaml").read_text(encoding="utf-8"))
BROKER = "BROKER:9092"
SPEC = definition_of(JOB)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
GENERATED = cases_of(SPEC, BASE)
EXAMPLES = sorted(REPOSITORY.glob("examples/**/*.yaml"))


def cases(name: str) -> list[Any]:
    return [
        pytest.param(case, id=case["name"])
        for case in yaml.safe_load((CORPUS / f"{name}.yaml").read_text(encoding="utf-8"))
    ]


def create(api: ApiClient, manifest: dict[str, Any], *, dry_run: bool = True) -> dict[str, Any]:
    query = "?fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
    return api.call("POST", JOBS.format("default") + query, manifest)


def test_the_corpus_is_large_enough() -> None:
    assert len(cases("valid")) >= 15
    assert len({json.dumps(case.values[0]["patch"], sort_keys=True) for case in cases("invalid")}) >= 160
    assert len(GENERATED) >= 200


@pytest.mark.parametrize("case", cases("valid"))
def test_valid(api: ApiClient, case: dict[str, Any]) -> None:
    created = create(api, merged(BASE, case["patch"]))
    desired_from_resource(
        created["spec"],
        namespace="default",
        name=created["metadata"]["name"],
        settings=JobSettings(default_image="sparkapp"),
    )


@pytest.mark.parametrize("case", cases("invalid"))
def test_invalid(api: ApiClient, case: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as caught:
        create(api, merged(BASE, case["patch"]))
    assert case["message"] in caught.value.message


@pytest.mark.parametrize("case", GENERATED, ids=lambda case: case.name)
def test_bounds_and_choices_are_judged_alike_by_the_api_server_and_the_operator(api: ApiClient, case: Case) -> None:
    manifest = merged(BASE, case.patch)
    refusal, is_read = "", True
    try:
        create(api, manifest)
    except ApiError as error:
        refusal = error.message
    try:
        desired_from_resource(
            manifest["spec"], namespace="default", name="orders", settings=JobSettings(default_image="sparkapp")
        )
    except ConfigurationError:
        is_read = False
    assert case.message in refusal
    assert is_read is (not refusal), refusal


@pytest.mark.parametrize("case", cases("transitions"))
def test_transitions(api: ApiClient, unique: str, case: dict[str, Any]) -> None:
    name = f"t-{unique.rpartition('.')[2]}"
    create(api, merged(merged(BASE, case["before"]), {"metadata": {"name": name}}), dry_run=False)
    path = f"{JOBS.format('default')}/{name}"
    current = api.get(path)
    assert current is not None
    changed = merged(merged(BASE, case["after"]), {"metadata": current["metadata"]})
    if "message" in case:
        with pytest.raises(ApiError) as caught:
            api.call("PUT", path, changed)
        assert case["message"] in caught.value.message
    else:
        assert api.call("PUT", path, changed)["metadata"]["generation"] == 2
    api.call("DELETE", path)


@pytest.mark.parametrize("broker", [BROKER, "my-cluster-kafka-bootstrap.kafka:9092"], ids=["as it is", "replaced"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(REPOSITORY / "examples")))
def test_an_example_is_applied_as_it_is_and_with_its_placeholder_replaced(
    api: ApiClient, path: Path, broker: str
) -> None:
    text = path.read_text(encoding="utf-8")
    assert f"bootstrapServers: {BROKER}\n" in text
    for manifest in yaml.safe_load_all(text.replace(BROKER, broker)):
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        core = f"/api/v1/namespaces/default/{kind.lower()}s"
        own = {"KafkaSparkJob": JOBS, "KafkaSparkSnapshot": SNAPSHOTS}
        path_of = own[kind].format("default") if kind in own else core
        query = "?fieldManager=kubectl&dryRun=All&fieldValidation=Strict"
        applied = api.call("PATCH", f"{path_of}/{name}{query}", manifest, content_type="application/apply-patch+yaml")
        if kind == "KafkaSparkJob":
            assert applied["spec"]["kafka"]["bootstrapServers"] == broker


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(REPOSITORY / "examples")))
def test_an_example_says_what_to_replace(path: Path) -> None:
    head = path.read_text(encoding="utf-8").partition("apiVersion:")[0]
    assert f"Replace {BROKER}" in head
    assert "names of the topics" in head


def test_defaults_fill_in_everything_that_has_one(api: ApiClient) -> None:
    spec = create(api, BASE)["spec"]
    assert spec["parallelism"] == 1
    assert spec["checkpoint"] == {"commitIntervalMillis": 0, "retention": {"intervalSeconds": 60, "count": 10}}
    assert spec["restore"] == {"nonce": 0}
    assert spec["sink"]["deliveryGuarantee"] == "ExactlyOnce"
    assert spec["sink"]["transactions"] == {"naming": "Hint", "producersPoolSize": 5, "timeoutSeconds": 900}
    assert spec["sink"]["onTransactionLost"] == "Replay"
    assert spec["source"]["startup"] == {"mode": "GroupOffsets"}
    assert spec["source"]["stopping"] == {"mode": "Unbounded"}
    assert spec["source"]["groupMembership"] == {
        "mode": "Assign", "assignor": "range", "sessionTimeoutSeconds": 45, "heartbeatIntervalSeconds": 3,
        "maxPollIntervalSeconds": 300,
    }  # fmt: skip
    requests, limits = {"ephemeral-storage": "256Mi"}, {"ephemeral-storage": "10Gi"}
    assert spec["driver"] == {"resources": {"requests": requests, "limits": limits}, "memory": "1Gi"}
    assert spec["restartPolicy"]["backoff"] == {"initialSeconds": 1, "maxSeconds": 300, "multiplier": 2}


def test_scale_reads_and_writes_the_parallelism(api: ApiClient, unique: str) -> None:
    name = f"t-{unique.rpartition('.')[2]}"
    create(api, merged(BASE, {"metadata": {"name": name}}), dry_run=False)
    path = f"{JOBS.format('default')}/{name}"
    api.merge(f"{path}/status", {"status": {"parallelism": 1, "selector": "kafkaspark.io/job=x"}})
    scale = api.call("GET", f"{path}/scale")
    assert (scale["spec"]["replicas"], scale["status"]) == (1, {"replicas": 1, "selector": "kafkaspark.io/job=x"})
    api.merge(f"{path}/scale", {"spec": {"replicas": 3}})
    assert api.call("GET", path)["spec"]["parallelism"] == 3
    with pytest.raises(ApiError, match="suspend: true stops a job"):
        api.merge(f"{path}/scale", {"spec": {"replicas": 0}})
    api.call("DELETE", path)


def test_the_table_has_the_columns_that_people_look_for(api: ApiClient) -> None:
    definition = yaml.safe_load((REPOSITORY / "crds/kafkasparkjobs.yaml").read_text(encoding="utf-8"))
    version = definition["spec"]["versions"][0]
    columns = [each["name"] for each in version["additionalPrinterColumns"] if not each.get("priority")]
    assert columns == ["Ready", "State", "Reason", "Parallelism", "Checkpoint", "Lag", "Restarts", "Age"]
    wide = [each["name"] for each in version["additionalPrinterColumns"] if each.get("priority")]
    assert wide == ["In/s", "Out/s", "Engine", "Attempt", "Driver", "Sink", "Guarantee", "Message"]
    assert api.get("/apis/streaming.kafkaspark.io/v1beta1") is not None

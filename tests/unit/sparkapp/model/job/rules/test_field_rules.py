"""The rules between fields, over the corpora that a real API server judges, too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import read_part, resource_of
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.rules.cel import compiled
from sparkapp.model.job.rules.field_rules import JUDGED
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec_from_resource import spec_from_resource
from tests.support.fakes.kubernetes import merged

CORPUS = Path(__file__).parents[5] / "integration/kubeapi/corpus"


def cases(name: str) -> list[Any]:
    return [
        pytest.param(case, id=case["name"])
        for case in yaml.safe_load((CORPUS / f"{name}.yaml").read_text(encoding="utf-8"))
    ]


def spec_of(case: dict[str, Any]) -> Mapping[str, Any]:
    base = yaml.safe_load((CORPUS / "base.yaml").read_text(encoding="utf-8"))
    spec: Mapping[str, Any] = merged(base, case["patch"])["spec"]
    return spec


@pytest.mark.parametrize("case", cases("valid"))
def test_what_the_api_server_accepts_breaks_no_rule(case: dict[str, Any]) -> None:
    spec_from_resource(spec_of(case), namespace="default", name="orders")


def of_judged_rules() -> list[Any]:
    """The cases that the API server refuses by a rule that the operator judges, too. Two times are refused before."""
    texts = tuple(rule.message for rule in JUDGED)
    judged = [param for param in cases("invalid") if any(param.values[0]["message"] in text for text in texts)]
    return [param for param in judged if param.id != "two times"]


@pytest.mark.parametrize("case", of_judged_rules())
def test_what_the_api_server_refuses_is_refused_with_the_same_words(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        spec_from_resource(spec_of(case), namespace="default", name="orders")
    assert case["message"] in caught.value.message


def test_most_rules_are_judged_and_each_has_a_case() -> None:
    told = [param.values[0]["message"] for param in of_judged_rules()]
    assert [rule.message for rule in JUDGED if not any(text in rule.message for text in told)] == []
    assert len(JUDGED) > 35


def test_every_judged_rule_can_be_read() -> None:
    for rule in JUDGED:
        compiled(rule.expression)


def test_a_message_that_begins_elsewhere_has_the_path_of_its_object() -> None:
    entries = [{"secretName": "a", "certificate": "ca.crt"}, {"secretName": "b"}]
    body = {
        "kafka": {"bootstrapServers": "b:9092", "tls": {"trustedCertificates": entries}},
        "source": {"topics": ["in"]}, "sink": {"topic": "out"},
    }  # fmt: skip
    with pytest.raises(ConfigurationError) as caught:
        spec_from_resource(body, namespace="n", name="j")
    assert caught.value.message.startswith("spec.kafka.tls.trustedCertificates[1]: a trusted certificate has exactly")


def test_a_spec_is_written_as_the_resource_that_it_was_read_from() -> None:
    body = {
        "topics": ["in"], "groupId": "g", "watermarks": {"maxOutOfOrdernessSeconds": 0, "idleTimeoutSeconds": 5},
        "startup": {"mode": "Timestamp", "onMissingOffset": "Fail", "timestampMillis": 5},
        "format": {"key": "string", "value": "avro"}, "properties": {"client.rack": "a"},
        "schemaRegistry": {"url": "https://r", "tls": {}},
    }  # fmt: skip
    written = resource_of(read_part(Source, Fields(body, "spec.source")))
    assert {name: written[name] for name in body} == {
        **body, "startup": {"mode": "Timestamp", "onMissingOffset": "Fail", "timestampMillis": 5},
    }  # fmt: skip
    assert written["limits"]["maxOffsetsPerCheckpoint"] == 1_000_000


def test_what_is_absent_has_no_key() -> None:
    written = resource_of(read_part(Source, Fields({"topics": ["in"], "groupId": "g"}, "spec.source")))
    assert not {"topicPattern", "partitions", "watermarks", "schemaRegistry", "properties"} & written.keys()
    assert written["startup"] == {"mode": "GroupOffsets"}
    assert resource_of(read_part(Transform, Fields({}, "spec.transform"))) == {"outputMode": "append"}

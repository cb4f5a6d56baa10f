"""Remedies that a person can paste: the job's own names are in their commands."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from sparkapp.model import errors
from sparkapp.model.commands import remedy_for, remedy_in
from sparkapp.model.errors import KafkaSparkJobError, TopicNotFound, TopicRecreated, VolumeFull
from sparkapp.model.job.spec import Job
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.model.report import termination_of

RESOURCE = {
    "kafka": {"bootstrapServers": "kafka:9092"},
    "source": {"topics": ["orders"], "groupId": "readers"},
    "sink": {"topic": "out"},
    "checkpoint": {"stateVolume": {"claimName": "orders-state"}},
}
JOB = Job(
    namespace="shop", name="orders-enrich", uid="u", generation=1, attempt=1,
    spec=spec_from_resource(RESOURCE, namespace="shop", name="orders-enrich"),
)  # fmt: skip
KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, KafkaSparkJobError) and kind.default_remedy
]


def test_a_recreated_topics_command_patches_the_job_that_failed() -> None:
    termination = termination_of(TopicRecreated("topic 'orders' was deleted and created again"), job=JOB)
    command = shlex.split(termination.remedy.partition("beginning: ")[2])
    assert command[:6] == ["kubectl", "patch", "ksj", "orders-enrich", "-n", "shop"]
    assert json.loads(command[-1]) == {"spec": {"source": {"onDataLoss": "SkipToAvailable"}}}


@pytest.mark.parametrize("kind", KINDS)
def test_no_remedy_leaves_a_name_out_that_the_job_has(kind: type[KafkaSparkJobError]) -> None:
    text = remedy_for(kind("what happened"), JOB)
    assert not re.search(r"<\w+>", text), "a shell reads that as a file"
    assert not re.search(r"\b(NAME|NAMESPACE|GROUP|BROKERS|CLAIM)\b", text)
    for command in re.findall(r"kubectl [^;`)]*", text):
        assert " -n shop" in command
    for command in re.findall(r"`python3 -m sparkapp [^`]*`", text):
        assert "--namespace shop --job orders-enrich" in command
    assert "python -m" not in text, "the image has python3 alone"
    assert " in env" not in text, "a job sets no KAFKASPARK_ variable but that of the log level"


def test_what_the_job_does_not_have_stays_and_other_remedies_are_left_alone() -> None:
    assert "edit pvc CLAIM -n shop" in remedy_in(VolumeFull("full"), namespace="shop", name="orders-enrich")
    own = TopicNotFound("no topic NAME", remedy="create the topic NAME")
    assert remedy_for(own, JOB) == "create the topic NAME"

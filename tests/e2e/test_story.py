"""The demo's story on less data, with the demo's own oracle: killed twice, rescaled twice, every record once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from clusterjob.environment import ClusterEnvironment
from clusterjob.kubectl import Kubectl
from demo.manifest import ENGINES
from demo.story import FlightsStory
from localcluster.progress import Progress

RECORDS = 60_000


@pytest.fixture(params=ENGINES)
def story(operator: ClusterEnvironment, request: pytest.FixtureRequest) -> Iterator[FlightsStory]:
    namespace = f"e2e-story-{uuid.uuid4().hex[:6]}"
    story = FlightsStory(operator, Progress(), namespace=namespace, engine=request.param, records=RECORDS, rate=800)
    yield story
    story.clean_up()
    Kubectl(operator).delete("namespace", namespace, wait=False)


def test_killed_and_rescaled_while_data_comes_in_every_record_is_there_once(story: FlightsStory) -> None:
    outcome = story.play()

    assert outcome.verdict.exactly_once, outcome.verdict.explain()
    assert outcome.verdict.records_in == outcome.verdict.records_out == RECORDS
    assert outcome.open_transactions == ()
    assert outcome.held_back == 0
    # One attempt for the start, one for the killed driver; a killed executor ends no attempt.
    rescales = 2 if story.engine == "MicroBatch" else 0  # the continuous engine is rescaled in its attempt
    assert outcome.status["attempt"]["id"] == 2 + rescales
    assert outcome.status["restarts"]["total"] == 1
    assert outcome.status["parallelism"] == 1
    assert outcome.status["engine"] == {"name": story.engine, "message": "set by spec.engine"}
    assert outcome.status["transactions"]["committed"] >= outcome.status["checkpoint"]["id"]

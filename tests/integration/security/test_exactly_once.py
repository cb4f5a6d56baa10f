"""The exactly-once story with kills and rescales over mTLS, SASL_SSL/SCRAM and OAUTHBEARER, as a user with ACLs alone.

The test itself looks from outside, over the plain listener.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka.admin import NewTopic

from sparkapp.clients.transactions.client import TransactionClient
from tests.support.kafka.tls.broker import TlsBroker
from tests.support.kafka.topics import create_topics
from tests.support.protocol.moments import OF_A_CHECKPOINT, OF_A_START, End, Moment
from tests.support.protocol.story import Story

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

Stories = Callable[[str], Story]
TO = (2, 3, 1)
AUTHENTICATIONS = ("mtls", "scram-sha-512")


def in_turns(moments: Sequence[Moment]) -> list[tuple[Moment, str]]:
    """Each moment, the authentications in turns.

    The next attempt aborts what no document names, or commits what the document names, or finds it committed. Among the
    moments of a checkpoint and of a start, both authentications meet all three.
    """
    return list(zip(moments, itertools.cycle(AUTHENTICATIONS), strict=False))


@pytest.fixture
def story(tls_broker: TlsBroker) -> Iterator[Stories]:
    """``story("mtls")``: a job with topics, group and prefix of its own, whose clients use that authentication."""
    client = TransactionClient({"bootstrap.servers": tls_broker.bootstrap}, timeout=30.0)
    made: list[Story] = []

    def make(authentication: str) -> Story:
        name = f"mine.{uuid.uuid4().hex[:8]}"
        create_topics(tls_broker.bootstrap, NewTopic(f"{name}.in", 3, 1), NewTopic(f"{name}.out", 2, 1))
        cluster = tls_broker.cluster(authentication)
        made.append(
            Story(
                bootstrap=tls_broker.bootstrap, source=f"{name}.in", sink=f"{name}.out", prefix=name, client=client,
                listener=cluster.bootstrap_servers, security=tls_broker.security(cluster),
            )
        )  # fmt: skip
        return made[-1]

    yield make
    for each in made:
        each.close()
    client.close()


@pytest.mark.parametrize(
    ("moment", "authentication", "parallelism"),
    [(*each, to) for each, to in zip(in_turns(OF_A_CHECKPOINT), itertools.cycle(TO), strict=False)],
)
def test_a_job_that_is_killed_in_a_checkpoint_and_rescaled(
    moment: Moment, authentication: str, parallelism: int, story: Stories
) -> None:
    job = story(authentication)
    job.produce(60)
    job.start(2)
    job.checkpoint()
    job.checkpoint((moment, End.KILL))
    job.produce(30)
    job.finish(parallelism)


@pytest.mark.parametrize(("moment", "authentication"), in_turns(OF_A_START))
def test_a_job_that_is_killed_while_it_recovers(moment: Moment, authentication: str, story: Stories) -> None:
    job = story(authentication)
    job.produce(60)
    job.start(2)
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    job.start(3, stop=(moment, End.KILL))
    job.produce(30)
    job.finish(1)


@pytest.mark.parametrize("authentication", AUTHENTICATIONS)
def test_a_driver_that_goes_on_after_its_successor_is_fenced(authentication: str, story: Stories) -> None:
    job = story(authentication)
    job.produce(60)
    job.start(2)
    job.checkpoint((Moment.AFTER_FLUSH, End.FREEZE))
    job.start(3)
    job.checkpoint()
    job.thaw()
    job.finish(2)


@pytest.mark.parametrize("authentication", ["plain", "scram-sha-256", "oauth", "oauth-file"])
def test_the_same_with_every_other_authentication(authentication: str, story: Stories) -> None:
    job = story(authentication)
    job.produce(60)
    job.start(2)
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    job.start(3)
    job.checkpoint((Moment.AFTER_FLUSH, End.KILL))
    job.finish(1)

"""Going back to an earlier checkpoint, as a step of recovery: once per change of the nonce, in one write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkapp.checkpoint.recovery.cluster_identity import ClusterIds
from sparkapp.checkpoint.recovery.recovery import recover
from sparkapp.checkpoint.recovery.restore import go_back, rewind_between
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.commit_outcome import offset_mark
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import retained, retained_key
from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CheckpointNotRetained, CheckpointUnusable, RestoreRefused, StateRolledBack
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Job
from sparkapp.model.job.startup import Startup, StartupMode
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import TransactionalIdHint
from sparkapp.spark.state.query_log import EngineState, decode_engine, encode_engine
from sparkapp.spark.state.retained_state import QueryState
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.fakes.transactions import FakeControl
from tests.support.jobs.plain_job import plain_spec

ONE, TWO, NEW = (TopicPartition("in", number) for number in range(3))


def at(**offsets):
    places = {"one": ONE, "two": TWO, "new": NEW}
    return tuple(KafkaPartitionSplit(places[name], offset, offset) for name, offset in offsets.items())


CURRENT = CheckpointDocument(
    job_uid="uid", attempt=3, checkpoint_id=40, created_at="2026-11-21T09:00:00Z", parallelism=2, prefix="p",
    hint=TransactionalIdHint(2, 20), splits=at(one=100, two=50, new=7), engine=encode_engine(EngineState(3)),
    drained=True, finished=True, stops={ONE: 900}, stopping="Latest", redeploy_nonce=4,
)  # fmt: skip
EARLIER = replace(
    CURRENT, checkpoint_id=12, created_at="2026-11-21T08:00:00Z", splits=at(one=60, two=50), stops={ONE: 500}
)
RETAINED = {retained_key(12): encode_retained(retained(EARLIER))}


class Marks:
    """The metadata of the group's offsets."""

    def __init__(self, texts):
        self.texts = texts

    def of(self, _):
        return self.texts


def attempt(store, number, restore, texts=None, marks=()):
    spec = plain_spec(
        source=Source(topics=("in",), group_id="g", startup=Startup(mode=StartupMode.EARLIEST)), restore=restore
    )
    job = Job(namespace="n", name="job", uid="uid", generation=1, attempt=number, spec=spec)
    kept = MemoryRetainedStore(RETAINED if texts is None else texts)
    return recover(
        job, store=store, control=FakeControl(), now="2026-11-21T10:00:00Z", retained=kept, engine=QueryState(),
        clusters=ClusterIds("", ""), marks=Marks(marks),
    )  # fmt: skip


def stored(store):
    return decode(store.read().text, job_uid="uid")


def test_offsets_and_stops_go_back_and_all_else_continues():
    store = MemoryStore(encode(CURRENT))
    recovery = attempt(store, 4, Restore(checkpoint=12, nonce=5))
    assert stored(store) == recovery.document == replace(
        CURRENT, attempt=4, checkpoint_id=41, created_at="2026-11-21T10:00:00Z", splits=at(one=60, two=50),
        stops={ONE: 500}, drained=False, finished=False, redeploy_nonce=5,
    )  # fmt: skip
    assert not recovery.first_start
    assert recovery.restored.describe() == (
        "went back to checkpoint 12 of 2026-11-21T08:00:00Z: 40 record(s) of 1 partition(s) are read and written again,"
        " all of in-2 too, for the checkpoint does not know them"
    )


@pytest.mark.parametrize(
    "restore", [Restore(checkpoint=12, nonce=4), Restore(nonce=4), Restore(checkpoint=12, nonce=1)]
)
def test_without_a_higher_nonce_nothing_happens(restore):
    store = MemoryStore(encode(CURRENT))
    recovery = attempt(store, 4, restore)
    assert recovery.restored is None
    assert stored(store) == replace(CURRENT, attempt=4, drained=False)


def test_a_nonce_without_a_checkpoint_is_served_all_the_same():
    store = MemoryStore(encode(CURRENT))
    attempt(store, 4, Restore(nonce=5))
    assert attempt(store, 5, Restore(checkpoint=12, nonce=5)).restored is None
    assert attempt(store, 6, Restore(checkpoint=12, nonce=6)).restored is not None


def test_a_first_start_has_nothing_to_go_back_to():
    store = MemoryStore()
    recovery = attempt(store, 1, Restore(checkpoint=12, nonce=5), {})
    assert recovery.first_start
    assert stored(store).redeploy_nonce == 5
    assert attempt(store, 2, Restore(checkpoint=12, nonce=5), {}).first_start, "and none to be surprised by later"


def test_operators_that_keep_state_do_not_go_back():
    store = MemoryStore(encode(replace(CURRENT, engine_has_state=True)))
    with pytest.raises(RestoreRefused, match="operators keep state") as caught:
        attempt(store, 4, Restore(checkpoint=12, nonce=5))
    assert "SpecificOffsets" in caught.value.remedy
    assert caught.value.fatal
    assert stored(store).offsets == CURRENT.offsets
    assert attempt(store, 5, Restore(nonce=5)).restored is None, "the remedy"


def test_what_is_not_kept_is_answered_with_what_is():
    texts = {
        retained_key(number): encode_retained(retained(replace(EARLIER, checkpoint_id=number)))
        for number in range(1, 41)
    }
    texts[retained_key(39)] = "{"
    with pytest.raises(CheckpointNotRetained) as caught:
        attempt(MemoryStore(encode(CURRENT)), 4, Restore(checkpoint=77, nonce=5), texts)
    assert caught.value.message.startswith(
        "checkpoint 77 is not retained; retained are 40 (2026-11-21T08:00:00Z), 38 (2026"
    )
    assert caught.value.message.endswith("and 24 older")
    assert len(caught.value.message) < 1000, "fits a condition"
    with pytest.raises(CheckpointNotRetained, match="none is retained"):
        attempt(MemoryStore(encode(CURRENT)), 4, Restore(checkpoint=77, nonce=5), {})


@pytest.mark.parametrize("text", ["{", encode_retained(retained(replace(EARLIER, job_uid="other")))])
def test_what_is_unreadable_or_anothers_is_not_gone_back_to(text):
    store = MemoryStore(encode(CURRENT))
    with pytest.raises(CheckpointUnusable, match=r"checkpoint-12\.json"):
        attempt(store, 4, Restore(checkpoint=12, nonce=5), {retained_key(12): text})
    assert stored(store).offsets == CURRENT.offsets


def test_the_way_back_from_a_restore_leaves_out_what_was_written_before():
    target = retained(replace(CURRENT, splits=at(one=160, two=20, new=7)))
    rewind = rewind_between(CURRENT, target)
    assert rewind.again == (KafkaPartitionSplit(TWO, 20, 50),)
    assert rewind.left_out == (KafkaPartitionSplit(ONE, 100, 160),)
    assert "60 record(s), written before an earlier restore, are not written again" in rewind.describe()


def test_the_engine_forgets_its_watermark_and_nothing_else():
    engine = encode_engine(EngineState(9, '{"batchWatermarkMs":1760000000000,"batchTimestampMs":5,"conf":{"a":"b"}}'))
    document, _ = go_back(
        replace(CURRENT, engine=engine), Restore(checkpoint=12, nonce=5), store=MemoryRetainedStore(RETAINED),
        engine=QueryState(),
    )  # fmt: skip
    assert decode_engine(document.engine) == EngineState(
        9, '{"batchWatermarkMs":0,"batchTimestampMs":5,"conf":{"a":"b"}}'
    )


def test_documents_of_previous_releases_have_served_no_nonce():
    assert '"redeployNonce":4' in encode(CURRENT)
    assert "redeployNonce" not in encode(replace(CURRENT, redeploy_nonce=0))
    assert stored(MemoryStore(encode(replace(CURRENT, redeploy_nonce=0)))).redeploy_nonce == 0


LATER = (offset_mark("uid", 5, 47), "somebody's own", offset_mark("uid", 3, 12))
"""Of a job whose document was put back: it has been at checkpoint 47."""


@pytest.mark.parametrize(
    "restore", [Restore(), Restore(checkpoint=12), Restore(nonce=5), Restore(checkpoint=12, nonce=4)]
)
def test_a_state_that_was_put_back_is_refused_where_nobody_asks_for_a_restore(restore):
    store = MemoryStore(encode(CURRENT))
    with pytest.raises(
        StateRolledBack, match="at checkpoint 40 of attempt 3, and checkpoint 47 of attempt 5"
    ) as caught:
        attempt(store, 6, restore, marks=LATER)
    assert store.read().text == encode(CURRENT)
    assert '{"spec":{"restore":{"checkpoint":40,"nonce":' in caught.value.remedy


def test_a_restore_accepts_it_and_its_number_is_beyond_every_mark():
    store = MemoryStore(encode(CURRENT))
    recovery = attempt(store, 6, Restore(checkpoint=40, nonce=5), marks=LATER)
    assert recovery.document.checkpoint_id == 48
    assert recovery.document.offsets == CURRENT.offsets, "the current checkpoint, which is not kept"
    assert attempt(store, 7, Restore(checkpoint=40, nonce=5), marks=LATER).restored is None


def test_an_empty_state_of_a_job_that_has_committed_is_refused():
    with pytest.raises(StateRolledBack, match="the state is empty, and checkpoint 47"):
        attempt(MemoryStore(), 6, Restore(), {}, marks=LATER)


def test_operators_state_cannot_be_accepted_by_a_restore():
    with pytest.raises(StateRolledBack) as caught:
        attempt(MemoryStore(encode(replace(CURRENT, engine_has_state=True))), 6, Restore(), marks=LATER)
    assert '"restore"' not in caught.value.remedy
    assert "GroupOffsets" in caught.value.remedy

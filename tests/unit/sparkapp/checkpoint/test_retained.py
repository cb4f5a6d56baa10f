"""Who keeps earlier checkpoints: which ones, in which room, and that a checkpoint never waits or fails for it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sparkapp.checkpoint import retained as module
from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.retained import CheckpointRetainer, FolderRetainedStore, RetainedStore
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import retained, retained_key
from sparkapp.model.checkpoint.retained_codec import MAX_RETAINED_BYTES, decode_retained, encode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CheckpointStoreUnavailable, VolumeUnusable
from sparkapp.model.job.sections.retention import Retention
from sparkapp.model.partition import TopicPartition
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.patience import PATIENCE

START = datetime(2026, 11, 21, 8, tzinfo=UTC)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a retainer waits for its last write, also on a machine that stands still meanwhile."""
    monkeypatch.setattr(module, "_CLOSE_SECONDS", PATIENCE)
    monkeypatch.setattr(module, "_LAST_SECONDS", PATIENCE)


def document(number, *, seconds=0, uid="uid", **changes):
    base = CheckpointDocument(
        job_uid=uid, attempt=1, checkpoint_id=number, parallelism=1, prefix="p",
        created_at=(START + timedelta(seconds=seconds)).isoformat(),
        splits=(KafkaPartitionSplit(TopicPartition("in", 0), 0, number),),
    )  # fmt: skip
    return replace(base, **changes)


def retainer_of(store, *, latest=0, events=None, draining=False, state=None, owner=1, **retention):
    """Of attempt 1; attempt ``owner`` has the claim."""
    claim = Claim(MemoryStore(encode(document(0, attempt=owner))), job_uid="uid", attempt=1)
    return CheckpointRetainer(
        store, claim=claim, retention=Retention(**retention), latest=latest, state=state, draining=lambda: draining,
        tell=lambda reason, message: None if events is None else events.append((reason, message)),
    )  # fmt: skip


def retain(store, documents, *, latest=0, **how):
    """One attempt that completes these checkpoints; each has been looked at before the next one comes."""
    for each in documents:
        retainer = retainer_of(store, latest=latest, **how)
        retainer.offer(each)
        retainer.close()
        latest = max(latest, each.checkpoint_id)


def kept(store):
    return sorted(int(key.removeprefix("checkpoint-").removesuffix(".json")) for key in store.read())


@pytest.fixture(params=["memory", "folder"])
def store(request, tmp_path: Path) -> RetainedStore:
    return MemoryRetainedStore() if request.param == "memory" else FolderRetainedStore.next_to(tmp_path / "state")


def test_one_an_interval_is_kept_and_the_newest_stay(store):
    retain(store, [document(number, seconds=10 * number) for number in range(1, 40)], interval_seconds=60, count=3)
    assert kept(store) == [25, 31, 37]


def test_the_last_one_of_an_orderly_stop_is_kept_whatever_the_interval(store):
    retain(store, [document(1), document(2, seconds=1), document(2, seconds=2, drained=True)])
    assert kept(store) == [1, 2]


def test_a_drain_does_not_drop_the_one_that_it_may_be_on_the_way_back_to(store):
    state = State()
    retain(store, [document(1), document(2, seconds=60)], count=2, state=state)
    drain = [document(3, seconds=120), document(4, seconds=180), document(4, seconds=181, drained=True)]
    retain(store, drain, latest=2, count=2, draining=True, state=state)
    assert kept(store) == sorted({*state.kept}) == [1, 2, 3, 4], "the checkpoint under way is completed, too"
    retain(store, [document(5, seconds=300)], latest=4, count=2, state=state)
    assert kept(store) == sorted({*state.kept}) == [4, 5]


def test_the_interval_counts_over_restarts_and_survives_a_clock_that_was_set_back(store):
    retain(store, [document(1), document(2, seconds=59), document(3, seconds=60), document(4, seconds=-5000)])
    assert kept(store) == [1, 3, 4]


def test_a_claim_is_nothing_to_go_back_to(store):
    retain(store, [document(0, drained=True)])
    assert kept(store) == []


def test_none_is_kept_where_none_is_wanted(store):
    retain(store, [document(1), document(2, seconds=100)])
    retain(store, [document(3, seconds=200, drained=True)], latest=2, count=0)
    assert kept(store) == []


def test_the_oldest_go_until_the_rest_fits():
    wide = tuple(KafkaPartitionSplit(TopicPartition("t" * 240, number), 0, 1 << 60) for number in range(9000))
    size = len(encode_retained(retained(document(1, splits=wide))))
    assert MAX_RETAINED_BYTES // 4 < size < MAX_RETAINED_BYTES // 3
    store = MemoryRetainedStore()
    retain(store, [document(number, seconds=60 * number, splits=wide) for number in range(1, 7)])
    assert kept(store) == [4, 5, 6]
    assert sum(map(len, store.read().values())) <= MAX_RETAINED_BYTES


def test_one_that_alone_is_too_large_drops_nobody():
    events: list[tuple[str, str]] = []
    store = MemoryRetainedStore()
    huge = tuple(KafkaPartitionSplit(TopicPartition("t" * 240, number), 0, 1 << 60) for number in range(40_000))
    retain(store, [document(1), document(2, seconds=60, splits=huge)], events=events)
    assert kept(store) == [1]
    assert events[0][0] == "CheckpointNotKept"
    assert "checkpoint 2 needs" in events[0][1]


def test_what_cannot_be_gone_back_to_makes_room_first():
    strangers = {
        retained_key(900 + each): encode_retained(retained(document(900 + each, uid="other"))) for each in range(4)
    }
    store = MemoryRetainedStore({**strangers, "notes": "x", retained_key(8): encode_retained(retained(document(8)))})
    retain(store, [document(9, seconds=60), document(10, seconds=120)], latest=8, count=3)
    assert kept(store) == [8, 9, 10]


def test_what_is_ahead_of_a_state_that_was_put_back_goes_at_once(store):
    """Its numbers are given once more, and none may stand for two sets of offsets."""
    undone = {retained_key(each): encode_retained(retained(document(each, seconds=each))) for each in (49, 50)}
    store.change({**undone, retained_key(8): encode_retained(retained(document(8)))}, [])
    retain(store, [document(49, seconds=900, attempt=7)], latest=48)
    assert kept(store) == [8, 49]
    assert '"attempt":7' in store.read()[retained_key(49)]


class Broken:
    """Fails each change, or each read."""

    def __init__(self, *, reads=False):
        self.reads = reads
        self.asked = 0
        self.seen = threading.Event()

    def read(self):
        if self.reads:
            self._fail()
        return {}

    def change(self, put, drop):
        self._fail()

    def _fail(self):
        self.asked += 1
        self.seen.set()
        raise CheckpointStoreUnavailable("no answer")


@pytest.mark.parametrize("reads", [False, True])
def test_a_failure_is_reported_once_and_tried_again_an_interval_later(reads):
    events: list[tuple[str, str]] = []
    broken = Broken(reads=reads)
    retainer = retainer_of(broken, events=events)
    for number, seconds in ((1, 0), (2, 10), (3, 60)):
        broken.seen.clear()
        retainer.offer(document(number, seconds=seconds))
        if number != 2:
            assert broken.seen.wait(PATIENCE)
    retainer.close()
    assert broken.asked == 2
    assert [reason for reason, _ in events] == ["CheckpointNotKept"]
    assert "checkpoint 1 could not be retained" in events[0][1]


def test_the_last_checkpoint_of_a_stop_is_retained_behind_a_close(store):
    retainer = retainer_of(store, interval_seconds=3600)
    retainer.offer(document(1))
    retainer.offer(document(2, seconds=1))
    retainer.close(last=document(2, seconds=1))
    assert 2 in kept(store)
    assert decode_retained(store.read()[retained_key(2)], key=retained_key(2), job_uid="uid").orderly


def test_an_attempt_that_was_replaced_retains_and_drops_nothing(store):
    """It was frozen, and drains when it resumes. Its successor has retained checkpoint 9."""
    retain(store, [document(9, attempt=2)])
    retainer = retainer_of(store, latest=7, owner=2)
    retainer.close(last=document(8))
    assert kept(store) == [9]


def test_a_last_checkpoint_that_cannot_be_retained_is_told_whatever_was_told_before():
    events: list[tuple[str, str]] = []
    broken = Broken()
    retainer = retainer_of(broken, events=events)
    retainer.offer(document(1))
    assert broken.seen.wait(PATIENCE)
    retainer.close(last=document(2, seconds=1))
    assert [message for _, message in events] == [
        "checkpoint 1 could not be retained (the job continues): no answer",
        "checkpoint 2 could not be retained (it is the last of the stop): no answer",
    ]


class LostAnswer(MemoryRetainedStore):
    """The change that puts the first entry takes effect, and its answer is lost."""

    def __init__(self, texts=None):
        super().__init__(texts)
        self.changed = threading.Event()

    def change(self, put, drop):
        super().change(put, drop)
        if not self.changed.is_set():
            self.changed.set()
            raise CheckpointStoreUnavailable("the answer was lost")


def test_an_entry_whose_answer_was_lost_is_counted_and_dropped_like_any():
    undone = {retained_key(each): encode_retained(retained(document(each))) for each in (49, 60)}
    store = LostAnswer({retained_key(8): encode_retained(retained(document(8))), **undone})
    retainer = retainer_of(store, latest=48, count=2)
    retainer.offer(document(50, seconds=60))
    assert store.changed.wait(PATIENCE)
    store.texts.update(undone)  # as if that part of the change had not taken effect
    retainer.offer(document(51, seconds=120))
    retainer.close()
    assert kept(store) == [50, 51]


class Slow(MemoryRetainedStore):
    """A change that does not return until it is allowed to."""

    def __init__(self):
        super().__init__()
        self.go_on = threading.Event()
        self.begun = threading.Event()

    def change(self, put, drop):
        self.begun.set()
        assert self.go_on.wait(PATIENCE)
        super().change(put, drop)


def test_checkpoints_continue_during_a_write_and_the_newest_is_kept_next():
    slow = Slow()
    retainer = retainer_of(slow)
    retainer.offer(document(1))
    assert slow.begun.wait(PATIENCE)
    for number in range(2, 100):
        retainer.offer(document(number, seconds=60 * number))
    assert kept(slow) == [], "98 checkpoints were offered while the first one's write waited"
    slow.go_on.set()
    retainer.close()
    assert kept(slow) == [1, 99]


def test_a_stop_ends_although_its_last_checkpoint_is_not_retained_in_time(monkeypatch):
    monkeypatch.setattr(module, "_LAST_SECONDS", 0.1)
    events: list[tuple[str, str]] = []
    slow = Slow()
    retainer = retainer_of(slow, events=events)
    retainer.close(last=document(7))
    assert [message for _, message in events] == [
        "checkpoint 7 could not be retained (it is the last of the stop): it did not end in time"
    ]
    began = time.monotonic()
    retainer.close()
    assert time.monotonic() - began < PATIENCE / 2, "the end of the attempt does not wait for it again"
    slow.go_on.set()


def test_a_folder_shows_nothing_that_is_not_ours(tmp_path: Path):
    folder = FolderRetainedStore.next_to(tmp_path / "state")
    assert folder.read() == {}
    folder.change({retained_key(1): "x"}, [])
    (tmp_path / "state.checkpoints" / "notes.txt").write_text("mine")
    folder.change({retained_key(2): "ü"}, [retained_key(1), retained_key(7)])
    assert folder.read() == {retained_key(2): "ü"}
    assert (tmp_path / "state.checkpoints" / "notes.txt").exists()


def test_nothing_is_retained_while_the_claim_is_unknown():
    """Its successor, if there is one, may remove the state, or has retained the checkpoint with it."""
    events, store = [], MemoryRetainedStore()
    retain(store, [document(5)], state=Unclaimed(), events=events)
    assert kept(store) == []
    assert [message for _, message in events] == ["checkpoint 5 could not be retained (the job continues): no answer"]


class Unclaimed:
    """Query state that is kept; the answer about the claim does not come."""

    def keep(self, document):
        raise CheckpointStoreUnavailable("no answer")

    def remove_others(self, retained, document):
        pytest.fail("nothing is retained")


class State:
    """Query state on a volume; that of ``broken`` cannot be linked."""

    def __init__(self, broken=0):
        self.kept, self.broken = [], broken

    def keep(self, document):
        if document.checkpoint_id == self.broken:
            raise VolumeUnusable("query cannot be written: Operation not permitted")
        self.kept.append(document.checkpoint_id)
        return f"state of {document.checkpoint_id}"

    def remove_others(self, retained, document):
        assert document.checkpoint_id >= max(retained)
        self.kept = [number for number in self.kept if number in retained]


def test_a_checkpoint_is_retained_with_its_state_or_without_it():
    state, events, store = State(broken=3), [], MemoryRetainedStore()
    documents = [document(number, seconds=60 * number) for number in (1, 2, 3, 4)]
    retain(store, documents, count=3, state=state, events=events)
    found = {key: decode_retained(text, key=key, job_uid="uid").engine for key, text in store.read().items()}
    assert found == {retained_key(2): "state of 2", retained_key(3): "", retained_key(4): "state of 4"}
    assert state.kept == [2, 4], "what is dropped goes"
    assert [message for _, message in events] == [
        "the state of checkpoint 3 could not be retained (the job continues): query cannot be written: Operation not"
        " permitted"
    ]


def test_an_entry_with_state_stays_where_the_state_cannot_be_looked_at():
    """The attempt that settles a deleted job retains its last checkpoint again. Its volume may fail meanwhile."""
    store, stop = MemoryRetainedStore(), document(7, engine_has_state=True)
    retain(store, [replace(stop, drained=True)], state=State())
    events: list[tuple[str, str]] = []
    retainer = retainer_of(store, latest=7, state=State(broken=7), draining=True, events=events)
    retainer.close(last=stop)
    found = decode_retained(store.read()[retained_key(7)], key=retained_key(7), job_uid="uid")
    assert found.engine == "state of 7"
    assert len(events) == 1


class Counted(MemoryStore):
    """Counts how often the claim is read, and does not answer."""

    reads = 0

    def read(self):
        self.reads += 1
        raise CheckpointStoreUnavailable("no answer")


def test_a_job_that_retains_nothing_reads_no_claim_and_reports_nothing():
    document_store, events = Counted(), []
    retainer = CheckpointRetainer(
        MemoryRetainedStore(), claim=Claim(document_store, job_uid="uid", attempt=1), retention=Retention(count=0),
        latest=0, tell=lambda *event: events.append(event), draining=lambda: False,
    )  # fmt: skip
    for number in range(1, 10):
        retainer.offer(document(number, seconds=60 * number))
    retainer.close(last=document(10, seconds=600))
    assert (document_store.reads, events) == (0, [])

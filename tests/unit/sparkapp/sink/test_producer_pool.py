"""The pool's bookkeeping, with fakes; that fencing works is proven against a real broker (group W)."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.clients.transactions.states import TransactionState
from sparkapp.model.errors import AuthenticationFailed, KafkaUnreachable, TlsFailed, TransactionFenced
from sparkapp.model.job.sections.sink import Sink
from sparkapp.sink.delivery import writer_of
from sparkapp.sink.producers import preparation
from sparkapp.sink.producers.producer_pool import ProducerPool
from sparkapp.sink.producers.reusable_producers import CommittedTransaction
from tests.support.fakes.closed_logs import NO_TOPICS
from tests.support.fakes.transaction_client import FakeTransactionClient
from tests.support.patience import PATIENCE, until


@pytest.fixture
def coordinator():
    return FakeTransactionClient()


@pytest.fixture
def pool(coordinator):
    return ProducerPool(
        open_producer=coordinator.open_producer,
        client=coordinator,
        config={"bootstrap.servers": "b:1"},
        scope=NO_TOPICS,
    )


def test_the_pair_is_asked_after_init_and_before_the_first_begin(pool, coordinator):
    entry = pool.begin("p-0")
    assert coordinator.calls == ["open", "describe", "init", "describe", "begin"]
    assert (entry.producer_id, entry.producer_epoch) == (7, 0)
    assert entry.producer.config == {"bootstrap.servers": "b:1", "transactional.id": "p-0"}


def test_W11_one_that_was_not_pre_committed_is_closed_before_the_next_one_is_opened(pool, coordinator):
    pool.begin("p-0")
    coordinator.set_state("p-0", TransactionState.ONGOING)
    coordinator.asked.clear()
    pool.begin("p-0")
    assert coordinator.calls == ["close", "open", "describe", "init", "describe", "begin"]
    assert pool.live == 1


@pytest.mark.parametrize("step", ["init", "begin"])
def test_W04_a_producer_that_failed_to_start_is_closed(pool, coordinator, step):
    coordinator.fail[step] = KafkaUnreachable("x")
    with pytest.raises(KafkaUnreachable):
        pool.begin("p-0")
    assert coordinator.calls[-1] == "close"
    assert pool.live == 0


@pytest.mark.parametrize("refusal", [AuthenticationFailed, TlsFailed])
def test_refused_credentials_are_replaced_by_the_new_content_of_the_secrets_once(coordinator, refusal):
    coordinator.fail = {"init": refusal("the brokers do not know the password")}
    asked = []

    def renew(config):
        asked.append(config)
        coordinator.fail = {}
        return coordinator, {"bootstrap.servers": "b:1", "sasl.password": "new"}

    pool = ProducerPool(
        open_producer=coordinator.open_producer, client=coordinator, config={"bootstrap.servers": "b:1"}, renew=renew,
        scope=NO_TOPICS,
    )  # fmt: skip
    assert pool.begin("p-0").producer.config["sasl.password"] == "new"
    assert coordinator.calls == ["open", "describe", "init", "close", "open", "describe", "init", "describe", "begin"]
    assert pool.begin("p-1").producer.config["sasl.password"] == "new"
    assert asked == [{"bootstrap.servers": "b:1"}]


def test_refused_credentials_that_have_not_changed_fail_the_task(coordinator):
    coordinator.fail = {"init": AuthenticationFailed("the brokers do not know the password")}
    pool = ProducerPool(
        open_producer=coordinator.open_producer, client=coordinator, config={}, renew=lambda _: None, scope=NO_TOPICS
    )
    with pytest.raises(AuthenticationFailed):
        pool.begin("p-0")
    assert coordinator.calls == ["open", "describe", "init", "close"]


@pytest.mark.parametrize(
    ("state", "epoch", "ours"),
    [
        (TransactionState.ONGOING, 0, True), (TransactionState.ONGOING, 1, False),
        (TransactionState.COMPLETE_ABORT, 0, False), (TransactionState.PREPARE_ABORT, 0, False),
        (TransactionState.EMPTY, 0, False), (None, 0, False),
    ],
)  # fmt: skip
def test_only_an_open_transaction_of_ours_passes_the_precommit(pool, coordinator, state, epoch, ours):
    entry = pool.begin("p-0")
    described = [] if state is None else [replace(coordinator.known("p-0"), state=state, producer_epoch=epoch)]
    coordinator.know("p-0", *described)
    if ours:
        assert pool.verify(entry) == 0, "this coordinator does not say when it began"
    else:
        with pytest.raises(TransactionFenced):
            pool.verify(entry)


def test_T14_close_ends_everything(pool, coordinator):
    pool.begin("p-0")
    pool.plain()
    assert pool.plain() is pool.plain()
    assert pool.live == 2
    pool.close()
    pool.close()
    assert pool.live == 0
    assert coordinator.calls.count("close") == coordinator.calls.count("open") == 2


def test_a_failure_of_a_prepared_producer_is_raised_by_its_begin_alone(pool, coordinator):
    coordinator.fail["init"] = KafkaUnreachable("x")
    pool.prepare("p-0")
    with pytest.raises(KafkaUnreachable):
        pool.begin("p-0")
    assert pool.live == 0
    pool.prepare("p-0")
    pool.drop("p-0")
    del coordinator.fail["init"]
    coordinator.asked.clear()
    pool.prepare("p-1")
    await_calls(coordinator, 3)
    assert pool.begin("p-0").transactional_id == "p-0"
    assert pool.live == 1


def test_a_producer_that_was_opened_ahead_is_the_one_of_its_task(pool, coordinator):
    pool.prepare("p-0")
    await_calls(coordinator, 4)
    assert coordinator.calls == ["open", "describe", "init", "describe"], "nothing is begun ahead"
    pool.prepare("p-0")
    assert pool.begin("p-0").transactional_id == "p-0"
    assert coordinator.calls == ["open", "describe", "init", "describe", "begin"], "it was opened once"


def test_a_producer_that_could_not_be_opened_ahead_is_opened_again_by_its_task(pool, coordinator):
    coordinator.fail["init"] = KafkaUnreachable("x")
    pool.prepare("p-0")
    await_calls(coordinator, 3)
    assert coordinator.calls == ["open", "describe", "init", "close"]
    while not pool._preparing.has_failed:
        time.sleep(0.001)
    del coordinator.fail["init"]
    pool.prepare("p-0")
    assert pool.begin("p-0").transactional_id == "p-0"


@pytest.mark.parametrize(("settled", "is_opened"), [(2, False), (3, True)])
def test_a_producer_is_opened_ahead_only_where_no_document_names_its_id(pool, coordinator, settled, is_opened):
    """Checkpoint 2 used the id before 5, and a document may name it until 3 is committed."""
    sink = Sink(topic="t", transactional_id_prefix="p", producers_pool_size=3)
    writer = writer_of(sink, pool=pool, subtask=0, next_free=0)
    writer.notify_committed(settled)
    writer.prepare_next(5)
    assert (pool._preparing is not None and pool._preparing.transactional_id == "p-2") is is_opened


def test_a_pre_committed_transaction_keeps_the_producer_that_is_opened_ahead(pool, coordinator):
    pool.begin("p-0")
    pool.prepare("p-1")
    pool.end("p-0")
    assert pool._preparing is not None
    assert pool._preparing.transactional_id == "p-1"
    assert not pool._preparing.has_failed
    pool.prepare("p-1")
    pool.begin("p-1")
    assert coordinator.calls.count("open") == 2
    pool.prepare("p-2")
    pool.drop("p-1")
    assert pool._preparing is None, "a failed task opens nothing ahead"


@pytest.mark.parametrize("end", [lambda pool: pool.drop("p-0"), lambda pool: pool.close()], ids=["drop", "close"])
def test_a_prepared_producer_is_not_left_behind(pool, coordinator, end):
    opened = threading.Event()
    open_producer = pool._open
    pool._open = lambda config: opened.wait(PATIENCE) and open_producer(config)
    pool.prepare("p-0")
    end(pool)
    opened.set()
    assert pool.live == 0
    await_calls(coordinator, 3)
    assert coordinator.calls == ["open", "describe", "close"], "nobody is fenced for what is not needed"


def await_calls(coordinator, count):
    until(lambda: len(coordinator.calls) >= count)


def test_what_a_task_did_not_need_is_over_when_the_task_is(pool, coordinator):
    coordinator.held = threading.Event()
    pool.prepare("p-0")
    await_calls(coordinator, 3)
    given_up = pool._preparing._given_up
    run_in_background(lambda: given_up.wait(PATIENCE) and coordinator.held.set(), name="slice")
    pool.give_up()
    calls = ["open", "describe", "init", "close"]
    assert coordinator.calls == calls, "the slice under way has ended, none began after it"
    assert pool.live == 0
    pool.give_up()


def test_what_is_ready_when_it_is_given_up_is_closed(pool, coordinator):
    pool.prepare("p-0")
    await_calls(coordinator, 4)
    pool.give_up()
    await_calls(coordinator, 5)
    assert coordinator.calls == ["open", "describe", "init", "describe", "close"]
    assert pool.live == 0


def test_a_call_that_may_yet_fence_fails_the_task_and_with_it_the_process(pool, coordinator, monkeypatch):
    monkeypatch.setattr(preparation, "_SLICE_SECONDS", 0.01)
    coordinator.held = threading.Event()
    pool.prepare("p-0")
    await_calls(coordinator, 3)
    with pytest.raises(KafkaUnreachable, match="the unused producer of p-0"):
        pool.give_up()
    coordinator.held.set()
    await_calls(coordinator, 4)
    assert coordinator.calls == ["open", "describe", "init", "close"]


def test_the_next_task_does_not_wait_for_what_is_stuck_in_a_question(pool, coordinator):
    coordinator.may_answer.clear()
    pool.prepare("p-0")
    await_calls(coordinator, 2)
    run_in_background(lambda: pool.prepare("p-1"), name="next-task").result(timeout=PATIENCE / 2)
    coordinator.may_answer.set()
    assert pool.begin("p-1").transactional_id == "p-1"
    until(lambda: coordinator.calls.count("close") >= 1)
    assert coordinator.calls.count("close") == 1, "what came too late is closed"
    assert coordinator.calls.count("open") == 2, "and nothing is opened in its place"
    assert set(pool._entries) == {"p-1"}


@pytest.mark.parametrize("records", [0, 1])
def test_a_task_without_a_record_gives_up_before_it_is_reported(pool, coordinator, monkeypatch, records):
    writer = writer_of(Sink(topic="out", transactional_id_prefix="p"), pool=pool, subtask=0, next_free=0)
    given_up = []
    monkeypatch.setattr(pool, "give_up", lambda: given_up.append(True))
    writer.begin(1)
    writer.prepare()
    given_up.clear()
    monkeypatch.setattr(writer, "_pre_commit", lambda *_: None if not records else "a committable")
    writer.pre_commit((), group_id=None)
    assert given_up == ([] if records else [True])


def kept(pool, **last):
    """A pool whose producer of p-0 was kept at checkpoint 4, which is committed."""
    pool.reusable = {}
    entry = pool.begin("p-0")
    pool.keep(entry, 4, among=["p-0", "p-1"])
    pool.reusable = {"p-0": CommittedTransaction(4, entry.producer_id, entry.producer_epoch)._replace(**last)}
    return entry


@pytest.mark.parametrize("why", ["a request was sent twice", "fenced"])
def test_W04_a_kept_producer_in_doubt_is_replaced(pool, coordinator, why):
    entry = kept(pool)
    coordinator.is_clean = False
    if why == "fenced":
        coordinator.fail["commit"] = TransactionFenced("x")
    coordinator.asked.clear()
    assert pool.begin("p-0").producer_epoch == entry.producer_epoch + 1
    assert coordinator.calls == ["commit", "close", "open", "describe", "init", "describe", "begin"]
    assert pool.live == 1


@pytest.mark.parametrize(
    "last", [{"checkpoint_id": 1}, {"producer_id": 8}, {"producer_epoch": 1}], ids=lambda last: str(*last)
)
def test_W04_a_kept_producer_is_closed_where_another_transaction_was_committed(pool, coordinator, last):
    """Another process has written the checkpoint again, perhaps without a transaction of its own."""
    kept(pool, **last)
    coordinator.asked.clear()
    pool.begin("p-0")
    assert coordinator.calls == ["close", "open", "describe", "init", "describe", "begin"]
    assert pool.live == 1


@pytest.mark.parametrize("reusable", [{}, None], ids=["nothing of the id", "nothing at all"])
def test_W04_a_kept_producer_is_closed_without_a_request_where_no_commit_is_known(pool, coordinator, reusable):
    kept(pool)
    pool.reusable = reusable
    coordinator.asked.clear()
    pool.begin("p-0")
    assert coordinator.calls == ["close", "open", "describe", "init", "describe", "begin"]
    assert pool.live == 1


def test_producers_of_other_subtasks_are_not_kept(pool, coordinator):
    """A rescale has changed the ids."""
    kept(pool)
    pool.keep(pool.begin("q-0"), 5, among=["q-0", "q-1"])
    assert coordinator.calls.count("close") == 1
    assert pool.live == 1


@pytest.mark.parametrize("end", ["give up", "close"])
def test_T14_a_kept_producer_is_closed_with_the_rest(pool, coordinator, end):
    kept(pool)
    if end == "give up":
        pool.prepare("p-0")
        pool.give_up()
        while coordinator.calls[-1] != "close":
            time.sleep(0.001)
    else:
        pool.close()
    assert pool.live == 0
    assert coordinator.calls.count("close") == coordinator.calls.count("open")


@pytest.mark.parametrize("again", ["prepare", "begin"])
def test_a_kept_producer_that_is_ready_is_closed_where_the_next_order_retires_it(pool, coordinator, again):
    """The sweep may end a transaction by its triple from now on."""
    entry = kept(pool)
    coordinator.asked.clear()
    pool.prepare("p-0")
    await_calls(coordinator, 1)
    pool.reusable = {}
    if again == "prepare":
        pool.prepare("p-0")
    assert pool.begin("p-0").producer_epoch == entry.producer_epoch + 1
    until(lambda: coordinator.calls.count("close") >= 1)
    assert sorted(coordinator.calls) == ["begin", "close", "commit", "describe", "describe", "init", "open"]
    assert pool.live == 1


def test_a_kept_producer_that_is_ready_is_used_where_the_next_order_names_it(pool, coordinator):
    entry = kept(pool)
    pool.prepare("p-0")
    pool.reusable = dict(pool.reusable)
    pool.prepare("p-0")
    assert pool.begin("p-0") is entry


def test_of_a_large_pool_no_producer_is_kept(pool, coordinator):
    """Each is a client with its connections."""
    pool.reusable = {}
    pool.keep(pool.begin("p-0"), 4, among=[f"p-{slot}" for slot in range(9)])
    assert pool.live == 0


@pytest.mark.parametrize("failure", [TransactionFenced("x"), RuntimeError("x")])
def test_T14_a_kept_producer_whose_client_fails_is_closed(pool, coordinator, failure):
    kept(pool)
    coordinator.fail["commit"] = failure
    if isinstance(failure, RuntimeError):
        with pytest.raises(RuntimeError):
            pool.begin("p-0")
    else:
        pool.begin("p-0")
        pool.end("p-0")
    assert coordinator.calls.count("close") == coordinator.calls.count("open")

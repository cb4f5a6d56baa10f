"""``sparkapp txn`` against a real broker: what it shows, what it changes, and what it refuses to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from kubernetes.client.exceptions import ApiException

from sparkapp.__main__ import main
from sparkapp.checkpoint.kubernetes import checkpoint_stores, config_map, job_resource
from sparkapp.checkpoint.store import FileStore
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import SlotBounds, TransactionNaming
from sparkapp.model.transactional_id import FIRST_HINT
from tests.support.fakes.memory_store import MemoryStore
from tests.support.jobs.sink_harness import Harness, State
from tests.support.kafka.topic_scope import TopicScope

pytestmark = pytest.mark.broker


@pytest.fixture
def txn(topic_scope: TopicScope, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """``txn("list", …)`` on the test's broker: exit status, output, messages."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(["txn", *map(str, arguments), "--bootstrap", topic_scope.bootstrap])
        return (status, *capsys.readouterr())

    return run


def document_of(topic_scope: TopicScope, state: State, *, parallelism: int = 1, **fields: object) -> str:
    values = {
        "job_uid": "uid", "attempt": 3, "checkpoint_id": state.checkpoint_id, "created_at": "2026-11-21T12:00:00Z",
        "parallelism": parallelism, "prefix": topic_scope.prefix, "hint": state.hint, "aligned": False,
        "committables": state.pending, **fields,
    }  # fmt: skip
    return encode(CheckpointDocument(**values))  # type: ignore[arg-type]


def checkpointed(harness: Callable[..., Harness], topic_scope: TopicScope, folder: Path) -> tuple[Path, str, str]:
    """An attempt that wrote checkpoint 1 and died in checkpoint 2: the state's file, the final and the lingering id."""
    attempt = harness().open()
    attempt.write(1)
    state = attempt.snapshot(1)
    attempt.write(2)
    path = folder / "state"
    FileStore(path).write(document_of(topic_scope, state), expected="0")
    return path, state.pending[0].transactional_id, f"{topic_scope.prefix}-2"


def test_list_shows_what_is_open_and_whose_it_is(harness, topic_scope, tmp_path, txn):
    path, final, lingering = checkpointed(harness, topic_scope, tmp_path)
    status, output, _ = txn("list", "--state", path, "--output", "json")
    first, second = json.loads(output)
    described = topic_scope.client.describe([final])[final]
    assert status == 0
    assert (first["transactionalId"], second["transactionalId"]) == (final, lingering)
    assert (first["state"], first["producerId"], first["epoch"]) == (
        "Ongoing", described.producer_id, described.producer_epoch,
    )  # fmt: skip
    assert topic_scope.bootstrap in first["coordinator"]
    assert 0 <= first["ageSeconds"] < 60
    assert first["partitions"] == f"{topic_scope.topic}-0"
    assert (first["subtask"], first["slot"], first["belongsTo"]) == (0, 1, "checkpoint 1 names it as final")
    assert (second["subtask"], second["slot"]) == (0, 2)
    table = txn("list", "--prefix", topic_scope.prefix)[1].splitlines()
    assert table[0].startswith("TRANSACTIONAL ID")
    assert [line.split()[0] for line in table[1:]] == [final, lingering]
    assert {final, lingering} <= {line.split()[0] for line in txn("list")[1].splitlines()}
    assert txn("list", "--prefix", f"{topic_scope.prefix}.none")[:2] == (0, "no open transactions\n")


def test_list_shows_the_subtask_and_slot_that_an_id_names(harness, topic_scope, tmp_path, txn):
    attempt = harness(1, 2, naming=TransactionNaming.SUBTASK_AND_SLOT).open()
    attempt.write(1)
    state = attempt.snapshot(1)
    attempt.write(2)
    path = tmp_path / "state"
    document = document_of(topic_scope, state, parallelism=2, hint=FIRST_HINT, slots=SlotBounds(2, 5))
    FileStore(path).write(document, expected="0")
    found = json.loads(txn("list", "--state", path, "--output", "json")[1])
    assert [(row["transactionalId"], row["subtask"], row["slot"], row["belongsTo"]) for row in found] == [
        (f"{topic_scope.prefix}-1.1", 1, 1, "checkpoint 1 names it as final"),
        (f"{topic_scope.prefix}-1.2", 1, 2, "attempt 3 or any before it"),
    ]
    assert len(json.loads(txn("list", "--prefix", topic_scope.prefix, "--output", "json")[1])) == 2


def test_describe_shows_any_state_and_says_when_an_id_is_unknown(harness, topic_scope, txn):
    attempt = harness().open()
    attempt.write(1)
    attempt.snapshot(1)
    attempt.notify(1)
    topic_scope.await_ended()
    status, output, _ = txn("describe", f"{topic_scope.prefix}-1", "--output", "json")
    (row,) = json.loads(output)
    assert status == 0
    assert (row["state"], row["timeoutSeconds"], row["ageSeconds"]) == ("CompleteCommit", 60, None)
    assert "CompleteCommit" in txn("describe", f"{topic_scope.prefix}-1")[1]
    status, output, message = txn("describe", f"{topic_scope.prefix}-99")
    assert (status, output) == (1, "")
    assert "never used, or it has expired" in message


def test_commit_needs_the_whole_triple_and_yes(harness, topic_scope, tmp_path, txn):
    path, final, lingering = checkpointed(harness, topic_scope, tmp_path)
    known = topic_scope.client.describe([final])[final]
    triple = (final, "--producer-id", known.producer_id, "--epoch", known.producer_epoch)
    status, output, message = txn("commit", *triple, "--state", path)
    assert (status, "would commit" in output, "--yes" in message) == (0, True, True)
    assert set(topic_scope.open_transactions()) == {final, lingering}
    status, _, message = txn("commit", final, "--producer-id", known.producer_id, "--epoch", 7, "--yes")
    assert (status, "not of producer" in message) == (1, True)
    with pytest.raises(SystemExit):
        txn("commit", final, "--producer-id", known.producer_id, "--yes")
    assert topic_scope.numbers() == []
    assert txn("commit", *triple, "--state", path, "--yes")[0] == 0
    topic_scope.await_ended()
    assert topic_scope.numbers() == [1]
    status, _, message = txn("commit", *triple, "--yes")
    assert (status, "is not Ongoing but CompleteCommit" in message) == (1, True)
    assert topic_scope.open_transactions() == [lingering]


def test_commit_of_what_no_checkpoint_names_is_refused(harness, topic_scope, tmp_path, txn):
    path, _, lingering = checkpointed(harness, topic_scope, tmp_path)
    known = topic_scope.client.describe([lingering])[lingering]
    status, _, message = txn(
        "commit", lingering, "--producer-id", known.producer_id, "--epoch", known.producer_epoch, "--state", path,
        "--yes",
    )  # fmt: skip
    assert (status, "writes its records again" in message) == (1, True)
    assert lingering in topic_scope.open_transactions()
    assert topic_scope.numbers() == []


def test_a_later_transaction_under_a_final_ones_id_is_not_final(harness, topic_scope, tmp_path, txn):
    """The state is out of date: its ids are in use again, each transaction under its own epoch (ADR 28)."""
    attempt = harness(pool_size=2).open()
    attempt.write(1)
    state = attempt.snapshot(1)
    attempt.notify(1)
    attempt.write(2)
    attempt.snapshot(2)
    attempt.notify(2)
    attempt.write(3)
    path = tmp_path / "state"
    FileStore(path).write(document_of(topic_scope, state), expected="0")
    (pending,) = state.pending
    triple = (pending.transactional_id, "--producer-id", pending.producer_id, "--epoch", pending.producer_epoch)
    status, _, message = txn("commit", *triple, "--state", path, "--yes")
    assert (status, f"not of producer {pending.producer_id} epoch {pending.producer_epoch}" in message) == (1, True)
    assert txn("abort", pending.transactional_id, "--state", path, "--yes")[0] == 0
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == [1, 2]


def test_abort_of_one_id(harness, topic_scope, tmp_path, txn):
    path, final, lingering = checkpointed(harness, topic_scope, tmp_path)
    assert txn("abort", final, "--state", path, "--yes")[0] == 1
    assert txn("abort", lingering, "--state", path)[0] == 0
    assert set(topic_scope.open_transactions()) == {final, lingering}
    status, output, _ = txn("abort", lingering, "--state", path, "--yes")
    assert (status, "aborted" in output) == (0, True)
    assert topic_scope.open_transactions() == [final]
    status, _, message = txn("abort", lingering, "--yes")
    assert (status, "nothing is open" in message) == (1, True)


def test_abort_of_all_that_lingers_leaves_alone_what_the_checkpoint_names(harness, topic_scope, tmp_path, txn):
    path, final, lingering = checkpointed(harness, topic_scope, tmp_path)
    status, output, message = txn("abort", "--all-lingering", "--state", path)
    assert (status, lingering in output, final in output, final in message) == (0, True, False, True)
    status, _, _ = txn("abort", "--all-lingering", "--state", path, "--yes")
    assert status == 0
    assert topic_scope.open_transactions() == [final]
    assert topic_scope.numbers() == []


def test_abort_of_all_that_lingers_needs_to_know_what_is_final(harness, topic_scope, txn):
    attempt = harness().open()
    attempt.write(1)
    status, _, message = txn("abort", "--all-lingering", "--prefix", topic_scope.prefix)
    assert (status, "--state FILE" in message) == (1, True)
    status, _, message = txn("abort", "--all-lingering", "--yes")
    assert (status, "never right" in message) == (1, True)
    assert txn("abort", "--yes")[0] == 1
    assert len(topic_scope.open_transactions()) == 1
    assert txn("abort", "--all-lingering", "--prefix", topic_scope.prefix, "--yes")[0] == 0
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == []


def test_a_newer_epoch_under_a_final_id_is_aborted(harness, topic_scope, tmp_path, txn):
    """A18: what is open there is not what the checkpoint names."""
    attempt = harness().open()
    attempt.write(1)
    state = attempt.snapshot(1)
    attempt.notify(1)
    path = tmp_path / "copied.json"
    path.write_text(document_of(topic_scope, state), encoding="utf-8")
    (named,) = state.pending
    topic_scope.await_ended()
    zombie = harness()
    zombie.pool.begin(named.transactional_id)
    zombie.pool.drop(named.transactional_id)
    zombie.open()
    zombie._checkpoint_id = 1
    zombie.write(5)
    assert topic_scope.open_transactions() == [named.transactional_id]
    assert txn("abort", "--all-lingering", "--state", path, "--yes")[0] == 0
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == [1]


@pytest.mark.parametrize("state", ["Running", "Suspended"])
def test_a_jobs_resource_gives_cluster_prefix_and_checkpoint(harness, topic_scope, monkeypatch, txn, state):
    attempt = harness().open()
    attempt.write(1)
    pending = attempt.snapshot(1)
    attempt.write(2)
    resource = {
        "metadata": {"uid": "uid"},
        "status": {"state": state},
        "spec": {
            "kafka": {"bootstrapServers": "not.reachable.from.here:9092"},
            "source": {"topics": ["in"]},
            "transform": {},
            "sink": {"topic": topic_scope.topic, "transactionalIdPrefix": topic_scope.prefix},
        },
    }
    asked = []
    monkeypatch.setattr(config_map, "core_api", lambda _: None)
    monkeypatch.setattr(job_resource, "read_resource", lambda *where: asked.append(where) or resource)
    monkeypatch.setattr(
        checkpoint_stores, "ConfigMapStore", lambda *_, **__: MemoryStore(document_of(topic_scope, pending))
    )
    rows = json.loads(txn("list", "--namespace", "shop", "--job", "orders", "--output", "json")[1])
    assert [row["slot"] for row in rows] == [1, 2]
    assert asked == [("shop", "orders", "")]
    status, _, message = txn("abort", "--all-lingering", "--job", "orders", "--yes")
    done = state == "Suspended"
    assert (status, "suspend" in message) == ((0, False) if done else (1, True))
    final = pending.pending[0].transactional_id
    assert topic_scope.open_transactions() == ([final] if done else [final, f"{topic_scope.prefix}-2"])
    known = topic_scope.client.describe([final])[final]
    triple = (final, "--producer-id", known.producer_id, "--epoch", known.producer_epoch)
    status, _, message = txn("commit", *triple, "--job", "orders", "--yes")
    assert (status, "suspend" in message) == ((0, False) if done else (1, True))
    status, _, message = txn("list", "--job", "orders", "--prefix", "another")
    assert (status, "says nothing about another" in message) == (1, True)


def test_a_pod_has_the_resource_and_the_document_as_files(harness, topic_scope, tmp_path, txn):
    """As ``--in-cluster`` of ``kafkaspark`` gives them."""
    path, final, lingering = checkpointed(harness, topic_scope, tmp_path)
    resource = {
        "metadata": {"uid": "uid", "name": "orders", "namespace": "shop"},
        "status": {"state": "Running"},
        "spec": {
            "kafka": {"bootstrapServers": topic_scope.bootstrap}, "source": {"topics": ["in"]},
            "sink": {"topic": topic_scope.topic, "transactionalIdPrefix": topic_scope.prefix},
        },
    }  # fmt: skip
    file = tmp_path / "resource.json"
    file.write_text(json.dumps(resource))
    named = ["--resource", file, "--state", path]
    rows = json.loads(txn("list", *named, "--output", "json")[1])
    assert [row["transactionalId"] for row in rows] == [final, lingering]
    status, _, message = txn("abort", lingering, *named, "--yes")
    assert (status, "kubectl patch ksj orders -n shop" in message) == (1, True)
    resource["status"] = {"state": "Suspended"}
    file.write_text(json.dumps(resource))
    assert txn("abort", lingering, *named, "--yes")[0] == 0
    assert topic_scope.open_transactions() == [final]


def test_what_kubernetes_refuses_is_said(monkeypatch, txn):
    def refuse(**_: object) -> None:
        raise ApiException(status=403, reason="Forbidden")

    monkeypatch.setattr(job_resource, "core_api", lambda _: None)
    objects = SimpleNamespace(get_namespaced_custom_object=lambda *_, **options: refuse(**options))
    monkeypatch.setattr(job_resource.client, "CustomObjectsApi", lambda: objects)
    status, _, message = txn("list", "--job", "orders")
    assert (status, "KafkaSparkJob default/orders: the API server answered 403 Forbidden" in message) == (1, True)


@pytest.mark.parametrize(
    ("text", "expected", "said"),
    [("sasl.jaas.config=x", 1, "sasl.username"), ("nonsense", 1, "line 1"), (None, 2, "cannot read")],
)
def test_a_file_that_would_be_without_effect_is_refused(tmp_path, txn, text, expected, said):
    path = tmp_path / "client.properties"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    status, _, message = txn("list", "--config", path)
    assert (status, said in message) == (expected, True)


def test_without_brokers_the_remedy_says_what_to_type(capsys):
    assert main(["txn", "list"]) == 1
    assert "--bootstrap HOST:PORT" in capsys.readouterr().err

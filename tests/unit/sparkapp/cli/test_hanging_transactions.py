"""``txn hanging`` and ``txn end`` on a cluster in memory that leaves out markers; real brokers are in integration."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from sparkapp.__main__ import main
from sparkapp.checkpoint.kubernetes import checkpoint_stores, config_map, job_resource
from sparkapp.checkpoint.store import FileStore
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions import client as module
from sparkapp.clients.transactions.partition_logs import GROUP_TOPIC
from sparkapp.clients.transactions.states import EndTxn, TransactionDescription, TransactionListing, TransactionState
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import SlotBounds
from sparkapp.model.errors import AuthorizationFailed, TransactionHanging
from sparkapp.model.partition import TopicPartition
from tests.support.fakes.memory_store import MemoryStore
from tests.support.fakes.partition_logs import GROUP, FakeCluster

A, B, OTHER = TopicPartition("out", 0), TopicPartition("out", 1), TopicPartition("other", 0)
ID, FOREIGN = "team.a-0.0", "team.b-0"
WHERE = ("--prefix", "team.a", "--topic", "out", "other", "--group", "g")

Txn = Callable[..., tuple[int, str, str]]


class Cluster(FakeCluster):
    """With the calls that only commands make."""

    def __init__(self) -> None:
        super().__init__(A, B, OTHER)
        self.late: list[TopicPartition] = []
        """Partitions whose marker is written when the coordinator has been asked."""
        self.denied = ""
        """An error of a missing right, in place of each repair."""

    def describe(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, TransactionDescription]:
        found = super().describe(transactional_ids)
        for name, now in found.items():
            for partition in self.late:
                self._mark(
                    partition, now.producer_id, now.producer_epoch, commit=now.state is TransactionState.COMPLETE_COMMIT
                )
            assert name in self.ids
        return found

    def end_again(
        self, end: EndTxn, partitions: Collection[TopicPartition], *, group_id: str = "", deadline: Deadline
    ) -> None:
        if self.denied:
            raise AuthorizationFailed(f"ending {end.transactional_id} again: {self.denied}")
        super().end_again(end, partitions, group_id=group_id, deadline=deadline)

    def list_all(self) -> list[TransactionListing]:
        return [
            TransactionListing(transactional_id=each, producer_id=now.producer_id, state=now.state)
            for each, now in self.ids.items()
        ]

    def coordinators(self, ids: Iterable[str]) -> dict[str, str]:
        return dict.fromkeys(ids, "1 (kafka:9092)")

    def close(self) -> None:
        """Nothing is open."""

    def leave_out(self, transactional_id: str, *partitions: TopicPartition, commit: bool) -> None:
        """The id's transaction ends while these partitions have no leader."""
        for partition in partitions:
            self.lead(partition, present=False)
        self.end(transactional_id, commit=commit)
        for partition in partitions:
            self.lead(partition, present=True)

    def decided(self, partition: TopicPartition) -> tuple[list[str], list[str], int]:
        """Committed, aborted, and how many are open."""
        log = self.partitions[partition]
        return log.committed, log.aborted, len(log.open)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    made.initialise(ID)
    monkeypatch.setattr(module, "TransactionClient", lambda _: made)
    return made


@pytest.fixture
def txn(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Txn:
    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        return (main(["txn", *arguments, "--bootstrap", "kafka:9092"]), *capsys.readouterr())

    return call


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A resource ``orders`` with a sink ``out`` and a document; at rest by default."""

    def make(document: CheckpointDocument | None = None, *, state: str = "Failed", **sink: object) -> None:
        resource = {
            "metadata": {"uid": "uid"},
            "status": {"state": state},
            "spec": {
                "kafka": {"bootstrapServers": "kafka:9092"},
                "source": {"topics": ["in"], "groupId": "g"},
                "transform": {"python": {"function": "a:b", "configMapRef": {"name": "code"}}},
                "sink": {"topic": "out", "transactions": {"idPrefix": "team.a"}, **sink},
            },
        }
        monkeypatch.setattr(config_map, "core_api", lambda _: None)
        monkeypatch.setattr(job_resource, "read_resource", lambda *_: resource)
        text = None if document is None else encode(document)
        monkeypatch.setattr(checkpoint_stores, "ConfigMapStore", lambda *_, **__: MemoryStore(text))

    return make


def document(*committables: KafkaCommittable, **fields: object) -> CheckpointDocument:
    return replace(
        CheckpointDocument(
            job_uid="uid", attempt=3, checkpoint_id=40, created_at="2026-11-21T09:00:00Z", parallelism=1,
            prefix="team.a", aligned=False, committables=committables, slots=SlotBounds(1, 5),
        ),
        **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def final(cluster: Cluster, *, start_time_ms: int = 0) -> KafkaCommittable:
    now = cluster.ids[ID]
    return KafkaCommittable(
        transactional_id=ID, producer_id=now.producer_id, producer_epoch=now.producer_epoch, checkpoint_id=40,
        subtask=0, records=1, attempt=3, start_time_ms=start_time_ms,
    )  # fmt: skip


def forget(cluster: Cluster, *partitions: TopicPartition) -> None:
    """A commit without these markers, and an initialisation behind it."""
    cluster.write(ID, "r", *partitions)
    cluster.leave_out(ID, *partitions, commit=True)
    cluster.initialise(ID)


def rows(answer: tuple[int, str, str]) -> list[dict[str, object]]:
    status, output, message = answer
    assert status == 0, message
    found: list[dict[str, object]] = json.loads(output)
    return found


@pytest.mark.parametrize(
    ("commit", "state", "end"), [(True, "CompleteCommit", "Commit"), (False, "CompleteAbort", "Abort")]
)
def test_what_hangs_is_listed_with_the_end_that_it_had(
    cluster: Cluster, txn: Txn, commit: bool, state: str, end: str
) -> None:
    cluster.write(ID, "r", A, B, GROUP)
    cluster.leave_out(ID, A, GROUP, commit=commit)
    found = rows(txn("hanging", *WHERE, "--output", "json"))
    assert found == [
        {
            "transactionalId": ID, "producerId": 1, "epoch": 0, "partition": str(partition), "startOffset": 0,
            "state": state, "end": end,
        }
        for partition in (GROUP, A)
    ]  # fmt: skip
    assert txn("hanging", *WHERE)[1].split("\n")[0].split() == [
        "TRANSACTIONAL", "ID", "PRODUCER", "ID", "EPOCH", "PARTITION", "START", "OFFSET", "STATE", "END",
    ]  # fmt: skip
    assert cluster.decided(A) == ([], [], 1), "it only lists"


def test_a_forgotten_outcome_is_unknown(cluster: Cluster, txn: Txn) -> None:
    forget(cluster, A)
    (row,) = rows(txn("hanging", *WHERE, "--output", "json"))
    assert (row["state"], row["end"], row["epoch"]) == ("Empty", "Unknown", 0)


def test_where_nothing_hangs_the_answer_counts_the_partitions(cluster: Cluster, txn: Txn) -> None:
    cluster.write(ID, "r", A)
    assert txn("hanging", *WHERE)[:2] == (0, "nothing hangs in 4 partitions\n"), "what is open does not hang"
    assert rows(txn("hanging", *WHERE, "--output", "json")) == []
    cluster.end(ID, commit=True)
    assert txn("hanging", "--prefix", "team.a", "--topic", "other")[1] == "nothing hangs in 1 partition\n"


def test_a_marker_on_its_way_does_not_hang(cluster: Cluster, txn: Txn) -> None:
    cluster.write(ID, "r", A, B)
    cluster.leave_out(ID, A, B, commit=True)
    cluster.late = [A]
    assert [row["partition"] for row in rows(txn("hanging", *WHERE, "--output", "json"))] == [str(B)]


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_a_transaction_that_its_coordinator_is_ending_does_not_hang(
    cluster: Cluster, txn: Txn, state: TransactionState
) -> None:
    cluster.write(ID, "r", A)
    cluster.ids[ID] = replace(cluster.ids[ID], state=state)
    assert txn("hanging", *WHERE)[1] == "nothing hangs in 4 partitions\n"
    assert txn("end", ID, "--outcome", "commit", *WHERE, "--yes")[0] == 1
    assert not cluster.ended_again


def test_another_jobs_transaction_is_not_listed_with_a_prefix(cluster: Cluster, txn: Txn) -> None:
    cluster.initialise(FOREIGN)
    cluster.write(FOREIGN, "f", A)
    cluster.leave_out(FOREIGN, A, commit=True)
    assert rows(txn("hanging", *WHERE, "--output", "json")) == []
    status, _, message = txn("end", FOREIGN, *WHERE, "--yes")
    assert (status, "is of none of the prefixes team.a" in message) == (1, True)
    (row,) = rows(txn("hanging", "--topic", "out", "--output", "json"))
    assert (row["transactionalId"], row["end"]) == (FOREIGN, "Commit")


def test_a_producer_whose_id_is_forgotten_has_a_row_without_an_id(cluster: Cluster, txn: Txn) -> None:
    cluster.write(ID, "r", A)
    cluster.leave_out(ID, A, commit=True)
    del cluster.ids[ID]
    status, output, message = txn("hanging", "--topic", "out", "--output", "json")
    (row,) = json.loads(output)
    assert (status, row["transactionalId"], row["producerId"], row["end"]) == (0, "", 1, "Unknown")
    assert "no coordinator knows the producer" in message


def test_without_a_job_topics_are_required(txn: Txn) -> None:
    for where in (("--prefix", "team.a"), ()):
        status, _, message = txn("hanging", *where)
        assert (status, "add --topic T, or --namespace and --job" in message) == (1, True)
    status, _, message = txn("hanging", "--prefix", "team.a", "--topic", GROUP_TOPIC)
    assert (status, "--group G" in message) == (1, True)
    status, _, message = txn("hanging", "--prefix", "team.a", "--topic", "out", "none")
    assert (status, "no broker knows the topic none" in message) == (1, True)


def test_a_jobs_topics_are_those_of_its_spec_its_document_and_its_group(
    cluster: Cluster, txn: Txn, job: Callable[..., None]
) -> None:
    job()
    assert txn("hanging", "--job", "orders")[1] == "nothing hangs in 3 partitions\n"
    assert txn("hanging", "--job", "orders", "--topic", "other")[1] == "nothing hangs in 4 partitions\n"
    job(document(sink_topics=frozenset(["other"])), state="Running")
    assert txn("hanging", "--job", "orders")[1] == "nothing hangs in 4 partitions\n"
    job(topicFrom="Column")
    cluster.write(ID, "r", OTHER)
    cluster.leave_out(ID, OTHER, commit=False)
    (row,) = rows(txn("hanging", "--job", "orders", "--output", "json"))
    assert (row["partition"], row["end"]) == (str(OTHER), "Abort")


def test_a_copy_of_the_document_has_topics_too(cluster: Cluster, txn: Txn, tmp_path: Path) -> None:
    path = tmp_path / "state"
    FileStore(path).write(encode(document(sink_topics=frozenset(["out"]))), expected="0")
    assert txn("hanging", "--state", str(path))[1] == "nothing hangs in 2 partitions\n"


def test_a_topic_that_may_not_be_read_is_named_with_the_grant(cluster: Cluster, txn: Txn) -> None:
    cluster.refused = frozenset(["other"])
    grant = "--operation Read --topic other"
    status, output, message = txn("hanging", *WHERE)
    assert (status, output) == (1, ""), "that nothing hangs is not known"
    assert "the user lacks READ on the topic other: what hangs there is not known; 3 partitions answered" in message
    assert grant in message
    cluster.write(ID, "r", A)
    cluster.leave_out(ID, A, commit=True)
    status, output, message = txn("hanging", *WHERE)
    assert (status, ID in output, grant in message) == (0, True, True)
    assert grant in txn("end", ID, *WHERE, "--yes")[2]
    assert cluster.decided(A) == (["r"], [], 0)
    cluster.initialise(FOREIGN)
    cluster.write(FOREIGN, "f", A)
    status, _, message = txn("end", ID, "--topic", "out", "other", "--yes")
    assert (status, grant in message, "nothing hangs" in message) == (1, True, False)


@pytest.mark.parametrize("commit", [True, False])
def test_end_writes_the_marker_of_the_outcome_that_is_known(cluster: Cluster, txn: Txn, commit: bool) -> None:
    cluster.write(ID, "r", A, B, GROUP)
    cluster.leave_out(ID, A, B, GROUP, commit=commit)
    status, output, message = txn("end", ID, *WHERE)
    assert (status, ("would commit" if commit else "would abort") in output) == (0, True)
    assert "add --yes to do it" in message
    assert not cluster.ended_again
    status, output, message = txn("end", ID, "--producer-id", "1", *WHERE, "--yes")
    assert (status, ("committed" if commit else "aborted") in output) == (0, True)
    assert "have the marker" in message
    for partition in (A, B, GROUP):
        assert cluster.decided(partition) == ((["r"], [], 0) if commit else ([], ["r"], 0))
    assert txn("hanging", *WHERE)[1] == "nothing hangs in 4 partitions\n"


@pytest.mark.parametrize("commit", [True, False])
def test_an_outcome_that_contradicts_the_known_outcome_is_refused(cluster: Cluster, txn: Txn, commit: bool) -> None:
    cluster.write(ID, "r", A)
    cluster.leave_out(ID, A, commit=commit)
    right, wrong = ("commit", "abort") if commit else ("abort", "commit")
    status, _, message = txn("end", ID, "--outcome", wrong, *WHERE, "--yes")
    assert (status, f"{right} is the outcome in out-0 from offset 0" in message) == (1, True)
    assert (cluster.ended_again, "leave out --outcome" in message) == ([], True)
    assert txn("end", ID, "--outcome", right, *WHERE, "--yes")[0] == 0
    assert cluster.decided(A)[2] == 0


@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_a_person_decides_an_unknown_outcome(cluster: Cluster, txn: Txn, outcome: str) -> None:
    forget(cluster, A, GROUP)
    status, _, message = txn("end", ID, *WHERE, "--yes")
    assert (status, "is forgotten" in message, "--outcome commit or --outcome abort" in message) == (1, True, True)
    assert not cluster.ended_again
    assert txn("end", ID, "--outcome", outcome, *WHERE, "--yes")[0] == 0
    for partition in (A, GROUP):
        assert cluster.decided(partition) == ((["r"], [], 0) if outcome == "commit" else ([], ["r"], 0))


def test_what_is_known_ends_without_what_is_forgotten(cluster: Cluster, txn: Txn) -> None:
    forget(cluster, A)
    cluster.write(ID, "s", B)
    cluster.leave_out(ID, B, commit=True)
    status, _, message = txn("end", ID, "--outcome", "abort", *WHERE, "--yes")
    assert (status, "leave out --outcome" in message) == (1, True)
    status, _, message = txn("end", ID, *WHERE, "--yes")
    assert (status, "out-0 from offset 0 stays as it is" in message) == (0, True)
    assert (cluster.decided(A), cluster.decided(B)) == (([], [], 1), (["s"], [], 0))
    assert txn("end", ID, "--outcome", "abort", *WHERE, "--yes")[0] == 0
    assert cluster.decided(A) == ([], ["r"], 0)


def test_a_known_abort_does_not_make_an_abort_of_what_is_forgotten(cluster: Cluster, txn: Txn) -> None:
    """Two initialisations behind the records of A, one behind those of B, whose commit is forgotten."""
    cluster.write(ID, "a", A)
    cluster.leave_out(ID, A, commit=False)
    cluster.initialise(ID)
    forget(cluster, B)
    assert [row["end"] for row in rows(txn("hanging", *WHERE, "--output", "json"))] == ["Abort", "Unknown"]
    assert txn("end", ID, *WHERE, "--yes")[0] == 1
    status, _, message = txn("end", ID, "--outcome", "commit", *WHERE, "--yes")
    tool = "kafka-transactions.sh --bootstrap-server kafka:9092 abort --topic out --partition 0 --start-offset 0"
    assert (status, message.strip().endswith(tool)) == (1, True), message
    assert [row["end"] for row in rows(txn("hanging", *WHERE, "--output", "json"))] == ["Abort", "Unknown"]
    cluster._mark(A, 1, 0, commit=False)  # What the tool does.
    assert txn("end", ID, "--outcome", "commit", *WHERE, "--yes")[0] == 0
    assert (cluster.decided(A), cluster.decided(B)) == (([], ["a"], 0), (["r"], [], 0))


def test_nothing_is_ended_where_nothing_hangs(cluster: Cluster, txn: Txn) -> None:
    cluster.write(ID, "r", A)
    status, _, message = txn("end", ID, *WHERE, "--yes")
    assert (status, f"nothing hangs under {ID} in 4 partitions: its coordinator calls it Ongoing" in message) == (
        1,
        True,
    )
    status, _, message = txn("end", "team.a-9", *WHERE, "--yes")
    assert (status, "no coordinator knows team.a-9" in message) == (1, True)
    assert cluster.decided(A) == ([], [], 1)


def test_an_open_transaction_of_the_id_is_not_ended_with_what_hangs(cluster: Cluster, txn: Txn) -> None:
    forget(cluster, A)
    cluster.write(ID, "open", B)
    status, _, message = txn("end", ID, "--outcome", "commit", *WHERE, "--yes")
    assert (status, "is Ongoing" in message, "txn commit or txn abort" in message) == (1, True, True)
    assert cluster.decided(B) == ([], [], 1)


def test_another_producer_is_refused(cluster: Cluster, txn: Txn) -> None:
    forget(cluster, A)
    status, _, message = txn("end", ID, "--producer-id", "8", "--outcome", "commit", *WHERE, "--yes")
    assert (status, "is of producer 1, not of producer 8" in message, cluster.ended_again) == (1, True, [])


def test_while_the_job_runs_it_ends_what_hangs(cluster: Cluster, txn: Txn, job: Callable[..., None]) -> None:
    cluster.write(ID, "r", A)
    cluster.leave_out(ID, A, commit=True)
    job(document(), state="Running")
    status, _, message = txn("end", ID, "--job", "orders", "--yes")
    assert (status, "the job is Running" in message, cluster.ended_again) == (1, True, [])
    job(document())
    assert txn("end", ID, "--job", "orders", "--yes")[0] == 0
    assert cluster.decided(A) == (["r"], [], 0)
    assert cluster.ids[ID].producer_epoch == 0, "nobody writes, so nobody is fenced"


def test_a_producer_that_may_be_alive_is_fenced(cluster: Cluster, txn: Txn) -> None:
    cluster.write(ID, "r", A)
    cluster.leave_out(ID, A, commit=True)
    assert txn("end", ID, *WHERE, "--yes")[0] == 0
    assert (cluster.decided(A), cluster.ids[ID].producer_epoch) == ((["r"], [], 0), 1)


def test_what_the_checkpoint_names_is_not_aborted(cluster: Cluster, txn: Txn, job: Callable[..., None]) -> None:
    cluster.write(ID, "r", A)
    cluster.ids[ID] = replace(cluster.ids[ID], start_time_ms=5)
    job(document(final(cluster, start_time_ms=5)))
    cluster.lead(A, present=False)
    cluster.expire(ID)
    cluster.lead(A, present=True)
    status, _, message = txn("end", ID, "--job", "orders", "--yes")
    assert (status, f"names {ID} as final" in message, cluster.ended_again) == (1, True, []), message
    # A later transaction of the same producer, which the document does not name.
    job(document(replace(final(cluster, start_time_ms=4), producer_epoch=0)))
    assert txn("end", ID, "--job", "orders", "--yes")[0] == 0
    assert cluster.decided(A) == ([], ["r"], 0)


def test_a_forgotten_outcome_of_what_the_checkpoint_names_is_a_commit(
    cluster: Cluster, txn: Txn, job: Callable[..., None]
) -> None:
    named = final(cluster, start_time_ms=5)
    forget(cluster, A)
    job(document(named))
    status, _, message = txn("end", ID, "--outcome", "abort", "--job", "orders", "--yes")
    assert (status, f"names {ID} as final" in message, cluster.ended_again) == (1, True, []), message
    assert txn("end", ID, "--outcome", "commit", "--job", "orders", "--yes")[0] == 0
    assert cluster.decided(A) == (["r"], [], 0)


@pytest.mark.parametrize(
    ("denied", "grant"),
    [
        ("TOPIC_AUTHORIZATION_FAILED", "--operation Write --topic out"),
        ("GROUP_AUTHORIZATION_FAILED", "--operation Read --group g"),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "--operation Write --transactional-id team.a"),
    ],
)
def test_a_right_that_is_missing_to_end_is_named(cluster: Cluster, txn: Txn, denied: str, grant: str) -> None:
    cluster.write(ID, "r", A, GROUP)
    cluster.leave_out(ID, A, GROUP, commit=True)
    cluster.denied = denied
    status, _, message = txn("end", ID, *WHERE, "--yes")
    assert (status, grant in message, denied in message) == (1, True, True)


def test_the_remedy_of_a_stopped_job_is_a_command_that_works(
    cluster: Cluster, txn: Txn, job: Callable[..., None]
) -> None:
    forget(cluster, A)
    job(document())
    every = [
        command.replace("NAMESPACE", "shop").replace("NAME", "orders").replace("ID", ID, 1)
        for command in TransactionHanging.default_remedy.split("`")[1::2]
    ]
    hanging, end = (command.split()[4:] for command in every)
    assert "Unknown" in txn(*hanging)[1]
    end[end.index("N")], end[end.index("commit|abort")] = "1", "commit"
    assert txn(*end)[0] == 0
    assert cluster.decided(A) == (["r"], [], 0)

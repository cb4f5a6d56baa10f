"""The commands for transactions, on coordinators that are a fake: which ids they leave alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sparkapp.__main__ import main
from sparkapp.checkpoint.store import FileStore
from sparkapp.clients.transactions import client as module
from sparkapp.clients.transactions.states import TransactionDescription, TransactionState
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from tests.support.fakes.transaction_client import FakeTransactionClient

DOCUMENT = CheckpointDocument(
    job_uid="uid", attempt=3, checkpoint_id=40, created_at="2026-11-21T09:00:00Z", parallelism=2, prefix="team.a",
    previous_prefixes=("team.old",),
)  # fmt: skip
ONGOING = TransactionDescription(
    state=TransactionState.ONGOING, producer_id=7, producer_epoch=1, timeout_ms=60_000, start_time_ms=1
)
OWN = ("team.a-0.1", "team.a-5", "team.a-offsets", "team.old-0.0")
FOREIGN = ("team.b-0.1", "team.a-1-0.0", "team.a.b-0.0", "team-0")

Txn = Callable[..., tuple[int, str]]


class Coordinators(FakeTransactionClient):
    """In place of the client; every id is open at first."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys((*OWN, *FOREIGN), ONGOING))

    @property
    def ended(self) -> list[str]:
        return [name for name in (*OWN, *FOREIGN) if not self.known(name).state.open]


@pytest.fixture
def coordinators(monkeypatch: pytest.MonkeyPatch) -> Coordinators:
    coordinators = Coordinators()
    monkeypatch.setattr(module, "TransactionClient", lambda _: coordinators)
    return coordinators


@pytest.fixture
def state(tmp_path: Path) -> str:
    path = tmp_path / "state"
    FileStore(path).write(encode(DOCUMENT), expected="0")
    return str(path)


@pytest.fixture
def txn(coordinators: Coordinators, capsys: pytest.CaptureFixture[str]) -> Txn:
    def call(*arguments: str) -> tuple[int, str]:
        return main(["txn", *arguments, "--bootstrap", "kafka:9092"]), capsys.readouterr().err

    return call


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("yes", [("--yes",), ()], ids=["yes", "dry"])
def test_an_id_of_another_job_is_not_aborted(
    coordinators: Coordinators, txn: Txn, state: str, name: str, yes: tuple[str, ...]
) -> None:
    status, message = txn("abort", name, "--state", state, *yes)
    assert (status, coordinators.ended) == (1, [])
    assert f"{name} is of none of the prefixes team.a, team.old" in message
    assert "leave out --job, --state and --prefix" in message


@pytest.mark.parametrize("name", OWN)
def test_an_id_of_any_prefix_of_the_job_is_aborted(coordinators: Coordinators, txn: Txn, state: str, name: str) -> None:
    status, _ = txn("abort", name, "--state", state, "--yes")
    assert (status, coordinators.ended) == (0, [name])


def test_a_prefix_alone_limits_the_ids_too(coordinators: Coordinators, txn: Txn) -> None:
    status, message = txn("abort", "team.b-0.1", "--prefix", "team.a", "--yes")
    assert (status, coordinators.ended) == (1, [])
    assert "is of none of the prefixes team.a" in message


def test_without_a_job_any_id_is_aborted(coordinators: Coordinators, txn: Txn) -> None:
    status, _ = txn("abort", "team.b-0.1", "--yes")
    assert (status, coordinators.ended) == (0, ["team.b-0.1"])

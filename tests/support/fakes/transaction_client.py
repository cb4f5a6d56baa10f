"""Transaction coordinators in memory, as clients and producers reach them; never used where fencing is judged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.states import EndTxn, TransactionDescription, TransactionListing, TransactionState
from sparkapp.dataplane.interface import GivenUp
from sparkapp.model.checkpoint.commit_outcome import EndTxnAnswer
from sparkapp.model.checkpoint.naming import is_of_prefix, order_of
from sparkapp.model.errors import AuthorizationFailed, KafkaSparkJobError, TransactionFenced
from tests.support.fakes.closed_logs import NothingHangs
from tests.support.patience import PATIENCE

Step = TypeVar("Step")
Answer = EndTxnAnswer | KafkaSparkJobError


class FakeTransactionClient(NothingHangs):
    """In place of :class:`sparkapp.clients.transactions.client.TransactionClient`.

    A coordinator describes an id by a script, whose last entry stays. It answers EndTxn by a script, or by what it
    describes. Requests and calls of producers are recorded in their order.

    :param descriptions: of each id: its description, or a script. :param answers: to EndTxn, scripts by id.
    :param may_list: whether the user may list transactions.
    :ivar asked: name and ids of each call. :ivar fail: errors of calls, by name.
    :ivar may_answer: until it is set, no description is answered.
    :ivar held: while it is there, the initialisation of a producer takes slice after slice, each until it is set.
    :ivar is_clean: whether no request of a commit was sent twice. :ivar clock_ms: starts of transactions.
    """

    def __init__(
        self,
        descriptions: Mapping[str, TransactionDescription | Sequence[TransactionDescription]] | None = None,
        answers: Mapping[str, Sequence[Answer]] | None = None,
        *,
        may_list: bool = True,
    ) -> None:
        super().__init__()
        self.asked: list[tuple[str, list[str]]] = []
        self.fail: dict[str, Exception] = {}
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.held: threading.Event | None = None
        self.is_clean = True
        self.clock_ms: Callable[[], int] = lambda: -1
        self.answers = {name: list(script) for name, script in (answers or {}).items()}
        self._may_list = may_list
        self._producer_ids = count(7)
        self._known: dict[str, list[TransactionDescription]] = {}
        for name, known in (descriptions or {}).items():
            self.know(name, *([known] if isinstance(known, TransactionDescription) else known))

    # -- what a test decides ----------------------------------------------------------------------------------------

    def know(self, transactional_id: str, *script: TransactionDescription) -> None:
        """From now on the id is described by the script; without a script it is unknown."""
        self._known.pop(transactional_id, None)
        if script:
            self._known[transactional_id] = list(script)

    def set_state(self, transactional_id: str, state: TransactionState) -> None:
        """Of an id that is known."""
        self.know(transactional_id, replace(self.known(transactional_id), state=state))

    def initialise(self, transactional_id: str) -> tuple[int, int]:
        """A producer takes the id over, which ends what was open and fences the producers before."""
        script = self._known.get(transactional_id)
        if script is None:
            producer_id, epoch = next(self._producer_ids), 0
        else:
            producer_id, epoch = script[-1].producer_id, script[-1].producer_epoch + 1
        self.know(transactional_id, TransactionDescription(
            state=TransactionState.EMPTY, producer_id=producer_id, producer_epoch=epoch, timeout_ms=60_000,
            start_time_ms=-1,
        ))  # fmt: skip
        return producer_id, epoch

    def begin(self, transactional_id: str) -> None:
        """The first records of a transaction come."""
        begun = replace(self.known(transactional_id), state=TransactionState.ONGOING, start_time_ms=self.clock_ms())
        self.know(transactional_id, begun)

    # -- what a test looks at ---------------------------------------------------------------------------------------

    @property
    def calls(self) -> list[str]:
        """Names of the calls."""
        return [name for name, _ in self.asked]

    def ids_of(self, name: str) -> list[list[str]]:
        """The ids of each call of that name."""
        return [ids for called, ids in self.asked if called == name]

    def known(self, transactional_id: str) -> TransactionDescription:
        return self._known[transactional_id][0]

    # -- the client -------------------------------------------------------------------------------------------------

    def open_producer(self, config: Mapping[str, str]) -> FakeProducer:
        return FakeProducer(self, config)

    def describe(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, TransactionDescription]:
        ids = list(transactional_ids)
        self.note("describe", ids)
        assert self.may_answer.wait(PATIENCE)
        return {name: _taken(self._known[name]) for name in ids if name in self._known}

    def list_transactions(self, prefix: str, *, deadline: Deadline | None = None) -> list[TransactionListing]:
        self.note("list", [prefix])
        if not self._may_list:
            raise AuthorizationFailed("the user may not list transactions")
        names = [name for name in self._known if is_of_prefix(name, prefix)]
        found = {name: _taken(self._known[name]) for name in sorted(names, key=lambda name: order_of(name, prefix))}
        return [
            TransactionListing(transactional_id=name, producer_id=row.producer_id, state=row.state)
            for name, row in found.items()
        ]

    def fence_all(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, tuple[int, int]]:
        ids = list(transactional_ids)
        self.note("fence", ids)
        return {name: self.initialise(name) for name in ids}

    def end_all(self, ends: Sequence[EndTxn], *, deadline: Deadline | None = None) -> list[Answer]:
        commits = {end.commit for end in ends}
        assert len(commits) == 1, "no unit commits and aborts at once"
        self.note("commit" if commits == {True} else "abort", [end.transactional_id for end in ends])
        return [self._end(end) for end in ends]

    def forget_coordinators(self, transactional_ids: Iterable[str]) -> None:
        self.note("forget", list(transactional_ids))

    def coordinators(self, transactional_ids: Iterable[str]) -> dict[str, str]:
        return dict.fromkeys(transactional_ids, "1 (kafka:9092)")

    def close(self) -> None:
        """Nothing is open."""

    def note(self, name: str, ids: list[str]) -> None:
        """Records a call, which may fail."""
        self.asked.append((name, ids))
        if name in self.fail:
            raise self.fail[name]

    def _end(self, end: EndTxn) -> Answer:
        name = end.transactional_id
        if name in self.answers:
            return _taken(self.answers[name])
        if name not in self._known or self.known(name).producer_id != end.producer_id:
            return EndTxnAnswer.INVALID_PRODUCER_ID_MAPPING
        if self.known(name).producer_epoch != end.producer_epoch:
            return EndTxnAnswer.PRODUCER_FENCED
        if self.known(name).state is not TransactionState.ONGOING:
            return EndTxnAnswer.INVALID_TXN_STATE
        self.set_state(name, TransactionState.COMPLETE_COMMIT if end.commit else TransactionState.COMPLETE_ABORT)
        return EndTxnAnswer.NONE


class FakeProducer:
    """In place of a client library's producer. The coordinator hears of a transaction with its first records.

    Each of its calls is one of the client's, under the name of the call.
    """

    def __init__(self, client: FakeTransactionClient, config: Mapping[str, str]) -> None:
        self.config = config
        self._client = client
        self._id = config.get("transactional.id", "")
        self._epoch = -1
        self._written = 0
        self._call("open")

    def init_transactions(self, timeout: float, *, wanted: Callable[[], bool]) -> None:
        """:raises GivenUp: it is not wanted any more; a slice that has begun comes to its end."""
        while True:
            if not wanted():
                raise GivenUp
            self._call("init")
            if self._client.held is None:
                break
            self._client.held.wait(PATIENCE)
        _, self._epoch = self._client.initialise(self._id)

    def begin_transaction(self) -> None:
        self._call("begin")

    def produce(self, batch: Any, *, topic: str) -> None:
        self._written += batch.num_rows

    def flush(self, timeout: float) -> int:
        """:raises TransactionFenced: a later producer has the id."""
        self._require_latest()
        if self._written and self._client.known(self._id).state is not TransactionState.ONGOING:
            self._client.begin(self._id)
        flushed, self._written = self._written, 0
        return flushed

    def commit_transaction(self, timeout: float) -> bool:
        """:raises TransactionFenced: a later producer has the id."""
        self._call("commit")
        self._require_latest()
        self._client.set_state(self._id, TransactionState.COMPLETE_COMMIT)
        return self._client.is_clean

    def close(self) -> None:
        self._call("close")

    def _call(self, name: str) -> None:
        self._client.note(name, [self._id])

    def _require_latest(self) -> None:
        if self._client.known(self._id).producer_epoch != self._epoch:
            raise TransactionFenced(self._id)


def _taken(script: list[Step]) -> Step:
    return script.pop(0) if len(script) > 1 else script[0]

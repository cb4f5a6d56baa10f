"""Hanging transactions of a target: a leader has them open, their coordinator calls them ended (ADR 68)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from sparkapp.cli.id_owner import committable_of
from sparkapp.cli.missing_rights import OutspokenClient, missing_right_on
from sparkapp.cli.open_transactions import OpenTransactionRows
from sparkapp.cli.target import Target
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.partition_logs import GROUP_TOPIC, LogScope, OpenInLogs
from sparkapp.clients.transactions.states import (
    OpenProducer,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from sparkapp.model.errors import CommandRefused
from sparkapp.model.errors.listed import listed
from sparkapp.model.partition import TopicPartition, named
from sparkapp.sink.ending.hanging import Hanging, find_hanging
from sparkapp.sink.ending.hanging_end import HangingEnd
from sparkapp.sink.ending.log_scope import log_scope
from sparkapp.sink.ending.proven_ends import Ended, EndingClient, ProvenEnds

_LOOK_SECONDS = 30.0
_END_SECONDS = 60.0
_OVER = {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT, TransactionState.EMPTY}
_LIST = "list what hangs with txn hanging and the same options"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What hangs, and what the leaders had open before and behind the coordinators' answers.

    :param ids: producers that the coordinators have named.
    """

    hanging: Sequence[Hanging]
    ids: Collection[int]
    before: OpenInLogs
    behind: OpenInLogs

    @property
    def searched(self) -> str:
        count = len(self.before.answered)
        return f"{count} partition{'s' * (count != 1)}"

    def nameless(self) -> list[dict[str, object]]:
        """Rows for the open transactions of producers that no coordinator has named."""
        return [
            _columns("", partition, producer, state=None, end=HangingEnd.UNKNOWN)
            for partition, producers in sorted(self.before.open.items())
            for producer in producers
            if producer.producer_id not in self.ids and producer in self.behind.open.get(partition, ())
        ]


class HangingTransactions:
    """What ``txn hanging`` shows and ``txn end`` ends; each method asks the brokers again.

    :param topics: that the user names; a target without a job has no others. :param group: whose offsets may hang.
    :param say: prints a notice.
    :raises CommandRefused: no topic is known.
    """

    def __init__(
        self,
        client: EndingClient,
        target: Target,
        transactions: OpenTransactionRows,
        *,
        topics: Collection[str],
        group: str,
        say: Callable[[str], None],
    ) -> None:
        self._client = client
        self._target = target
        self._transactions = transactions
        self._topics = frozenset(topics)
        self._scope = _scope_of(target, self._topics, group)
        self._say = say

    def rows(self) -> tuple[list[dict[str, object]], str]:
        """A row for each partition where a transaction hangs, and what an empty answer says."""
        look = self._look(self._transactions.listed)
        # With prefixes, producers of other ids are other jobs'.
        nameless = [] if self._target.prefixes else look.nameless()
        if nameless:
            self._say("rows without an id: no coordinator knows the producer, or you may not describe its id")
        found = [_row(each) for each in look.hanging] + nameless
        self._require_answers(look, is_empty=not found)
        return found, f"nothing hangs in {look.searched}"

    def end(
        self, transactional_id: str, *, outcome: str | None, producer_id: int | None, fence: bool, yes: bool
    ) -> list[dict[str, object]]:
        """Writes the missing markers of one id, and returns when the leaders have them.

        :param outcome: ``commit`` or ``abort`` where it is not known. :param producer_id: refused if it is another.
        :param fence: whether its producer may be alive. :param yes: without it nothing is written.
        :raises CommandRefused: nothing hangs, or the outcome is not known, or another outcome is.
        """
        look = self._look(lambda: [self._listing(transactional_id)])
        self._require_answers(look, is_empty=not look.hanging)
        if not look.hanging:
            state = self._transactions.find(transactional_id).description.state
            msg = f"nothing hangs under {transactional_id} in {look.searched}: its coordinator calls it {state}"
            raise CommandRefused(msg, remedy=f"{_LIST}; --topic T asks another topic")
        described = _of_producer(look.hanging, producer_id)
        end, hanging = self._decided(look.hanging, described, outcome)
        self._require_document(hanging, described, end)
        is_commit = end is HangingEnd.COMMIT
        places = named([each.partition for each in hanging])
        if yes:
            ends = ProvenEnds(OutspokenClient(self._client, self._target), self._scope, refused=self._unreadable)
            ends.require([_ended(hanging, end, fence=fence)], deadline=Deadline.after(_END_SECONDS))
            self._say(f"the leaders of {places} have the marker")
        elif is_commit:
            self._say(f"would make the records in {places} visible to read_committed readers; this cannot be undone")
        else:
            self._say(f"would discard the records in {places} for ever")
        action = {True: "committed", False: "aborted"}[is_commit] if yes else f"would {end.value}"
        return [
            {
                "action": action,
                "transactionalId": transactional_id,
                "producerId": each.found.producer_id,
                "epoch": each.found.epoch,
                "partition": str(each.partition),
                "startOffset": each.found.start_offset,
            }
            for each in hanging
        ]

    def _look(self, rows: Callable[[], Sequence[TransactionListing]]) -> _Look:
        """What the leaders have open before and behind the coordinators' answers.

        A coordinator that calls a transaction ended has written every marker that it will ever write. So what is open
        behind its answer hangs. A producer that writes has an id before.
        """
        deadline = Deadline.after(_LOOK_SECONDS)
        before = self._client.logs.open_in(self._scope, deadline=deadline)
        known = rows()
        found = find_hanging(self._client, known, before, deadline=deadline)
        behind = self._client.logs.open_in(self._scope, deadline=deadline)
        hanging = [
            each
            for each in found
            if each.end is not HangingEnd.ENDING and each.found in behind.open.get(each.partition, ())
        ]
        return _Look(hanging=hanging, ids={row.producer_id for row in known}, before=before, behind=behind)

    def _require_answers(self, look: _Look, *, is_empty: bool) -> None:
        """:raises CommandRefused: a topic is not known, or an empty answer does not stand for all topics."""
        logs = look.before
        if gone := sorted(self._topics - {each.topic for each in logs.answered} - logs.refused):
            msg = f"no broker knows the topic{'s' * (len(gone) > 1)} {listed(gone)}"
            raise CommandRefused(msg, remedy="correct --topic")
        if logs.refused:
            error = self._missing_read(logs.refused, f"what hangs there is not known; {look.searched} answered")
            if is_empty:
                raise error
            self._say(f"{error.message}\nFix: {error.remedy}")

    def _missing_read(self, topics: Iterable[str], why: str) -> CommandRefused:
        return missing_right_on(self._target, "READ", "topic", sorted(topics), why)

    def _unreadable(self, topics: frozenset[str]) -> None:
        raise self._missing_read(topics, "whether the marker is written is not known")

    def _listing(self, transactional_id: str) -> TransactionListing:
        now = self._transactions.find(transactional_id).description
        return TransactionListing(transactional_id=transactional_id, producer_id=now.producer_id, state=now.state)

    def _decided(
        self, every: Sequence[Hanging], described: TransactionDescription, outcome: str | None
    ) -> tuple[HangingEnd, list[Hanging]]:
        """The outcome, and where to write its marker. By one description no two outcomes are known."""
        known = [each for each in every if each.end is not HangingEnd.UNKNOWN]
        unknown = [each for each in every if each.end is HangingEnd.UNKNOWN]
        wanted = None if outcome is None else HangingEnd(outcome)
        name = every[0].transactional_id
        # The end of the known part would leave CompleteAbort, by which the unknown part would be an abort, too.
        is_mixed = bool(known and unknown) and described.state is TransactionState.EMPTY
        if known and wanted not in {None, known[0].end}:
            msg = f"{name} is {described.state} by its coordinator: {known[0].end.value} is the outcome in {_at(known)}"
            raise CommandRefused(msg, remedy=self._known_first(known, is_mixed=is_mixed))
        if wanted is not None:
            return wanted, list(every)
        if not known or is_mixed:
            msg = f"whether {name} commits or aborts in {_at(unknown)} is forgotten"
            raise CommandRefused(
                msg,
                remedy="compare the records from there with the rest of the topic: aborted records are there a second"
                " time; then add --outcome commit or --outcome abort",
            )
        if unknown:
            self._say(f"{_at(unknown)} stays as it is: the outcome there is forgotten, and takes --outcome")
        return known[0].end, known

    def _known_first(self, known: Sequence[Hanging], *, is_mixed: bool) -> str:
        if not is_mixed:
            return "leave out --outcome, to end it with the outcome that is known"
        # Here the outcome is an abort, and Kafka's tool leaves the coordinator's state as it is.
        servers = self._target.config["bootstrap.servers"]
        return "abort this part with Kafka's tool, then try again: " + "; ".join(
            f"kafka-transactions.sh --bootstrap-server {servers} abort --topic {each.partition.topic} --partition"
            f" {each.partition.partition} --start-offset {each.found.start_offset}"
            for each in known
        )

    def _require_document(self, hanging: Sequence[Hanging], described: TransactionDescription, end: HangingEnd) -> None:
        """:raises CommandRefused: the checkpoint names the transaction, and the marker would abort it."""
        document = self._target.document
        final = None if document is None else committable_of(hanging[0].transactional_id, document)
        if final is None or end is not HangingEnd.ABORT:
            return
        producers = {(each.found.producer_id, each.found.epoch) for each in hanging}
        # An initialisation forgets the start; another start is of a later transaction of the producer.
        starts = {final.start_time_ms, described.start_time_ms} - {0, -1}
        if (final.producer_id, final.producer_epoch) in producers and len(starts) < 2:
            msg = f"the job's checkpoint names {final.transactional_id} as final: aborting it would lose its records"
            remedy = "resume the job, which settles it; to abort it in spite of this, remove --job and --state"
            raise CommandRefused(msg, remedy=remedy)


def _scope_of(target: Target, topics: frozenset[str], group: str) -> LogScope:
    document = target.document
    earlier = frozenset() if document is None else document.sink_topics
    groups = frozenset({"" if document is None else document.evidence_group, group} - {""})
    if GROUP_TOPIC in topics:
        msg = f"which transactions have written to {GROUP_TOPIC} depends on the group"
        raise CommandRefused(msg, remedy=f"replace --topic {GROUP_TOPIC} by --group G, the consumer group")
    if target.spec is None:
        asked: frozenset[str] | None = earlier | topics
        if not asked and not groups:
            msg = "the topics are not known whose partitions are to be asked"
            raise CommandRefused(msg, remedy="add --topic T, or --namespace and --job of a KafkaSparkJob")
        return LogScope(topics=asked, groups=groups)
    of_job = log_scope(target.spec, earlier_topics=earlier)
    # Where any topic may be the job's, those that the user names are asked instead of all.
    asked = (topics or None) if of_job.topics is None else of_job.topics | topics
    return LogScope(topics=asked, groups=of_job.groups | groups)


def _of_producer(hanging: Sequence[Hanging], producer_id: int | None) -> TransactionDescription:
    """The coordinator's description, by which the transaction can be ended again.

    :raises CommandRefused: it cannot, or it is of another producer than the user names.
    """
    first = hanging[0]
    if producer_id not in {None, first.found.producer_id}:
        msg = (
            f"the hanging transaction of {first.transactional_id} is of producer {first.found.producer_id}, not of"
            f" producer {producer_id}"
        )
        raise CommandRefused(msg, remedy=f"compare the numbers: {_LIST}")
    described = first.described
    if described is None or described.state not in _OVER:
        state = "unknown" if described is None else described.state.value
        msg = f"the latest transaction of {first.transactional_id} is {state}: another end would be its end, too"
        raise CommandRefused(msg, remedy="first end it with txn commit or txn abort, then try again")
    return described


def _ended(hanging: Sequence[Hanging], end: HangingEnd, *, fence: bool) -> Ended:
    """One end for all the partitions."""
    every = [replace(each, end=end).ended(fence=fence) for each in hanging]
    return replace(
        every[0], epoch=max(each.found.epoch for each in hanging), partitions=frozenset(e.partition for e in hanging)
    )


def _row(each: Hanging) -> dict[str, object]:
    state = None if each.described is None else each.described.state.value
    return _columns(each.transactional_id, each.partition, each.found, state=state, end=each.end)


def _columns(
    transactional_id: str, partition: TopicPartition, found: OpenProducer, *, state: str | None, end: HangingEnd
) -> dict[str, object]:
    return {
        "transactionalId": transactional_id,
        "producerId": found.producer_id,
        "epoch": found.epoch,
        "partition": str(partition),
        "startOffset": found.start_offset,
        "state": state,
        "end": end.value.capitalize(),
    }


def _at(hanging: Sequence[Hanging]) -> str:
    return listed(f"{each.partition} from offset {each.found.start_offset}" for each in hanging)

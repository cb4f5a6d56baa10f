"""``sparkapp txn``: a job's Kafka transactions, for people; what changes something does nothing without ``--yes``."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sparkapp.model.errors import AuthorizationFailed, CommandRefused, KafkaSparkJobError
from sparkapp.tools.table import Output, render
from sparkapp.tools.target import add_options, target_of

if TYPE_CHECKING:
    from sparkapp.sink.transaction_client import TransactionClient
    from sparkapp.tools.open_transactions import Found, OpenTransactions
    from sparkapp.tools.target import Target

_AT_REST = frozenset({"", "Suspended", "Failed", "Finished"})
"""States of a resource in which no driver writes, so that what is open stays as it is found."""
_COMMIT_SECONDS = 60.0
_NOT_ONGOING = {
    "Empty": "nothing was written under it since its producer started",
    "PrepareCommit": "it is being committed already, and ends by itself",
    "PrepareAbort": "it is being aborted already, and ends by itself",
    "PrepareEpochFence": "its producer was fenced, so it can only be aborted",
    "CompleteCommit": "its last transaction is committed already",
    "CompleteAbort": "its last transaction was aborted; its records are gone for readers",
    "Dead": "the coordinator is forgetting it",
}

Answer = Callable[["Command", argparse.Namespace], list[dict[str, object]]]


def add_commands(commands: Any) -> None:
    """Adds ``txn`` to the program's subcommands; called by ``sparkapp.__main__``."""
    txn = commands.add_parser("txn", help="list, describe, commit or abort Kafka transactions")
    verbs = txn.add_subparsers(dest="verb", required=True)

    def verb(name: str, words: str, answer: Answer) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = verbs.add_parser(name, help=words, description=words)
        add_options(parser)
        parser.add_argument("--output", type=Output, choices=list(Output), default=Output.TABLE, help="form of answer")
        parser.set_defaults(answer=lambda options: _run(answer, options))
        return parser

    verb("list", "Open transactions of a prefix, a job or the whole cluster.", Command.list_open)
    describe = verb("describe", "What the coordinator knows of one transactional id.", Command.describe)
    describe.add_argument("id", help="transactional id")
    commit = verb("commit", "Commits one open transaction: its records become visible for good.", Command.commit)
    commit.add_argument("id", help="transactional id")
    commit.add_argument("--producer-id", type=int, required=True, metavar="N", help="as txn describe shows it")
    commit.add_argument("--epoch", type=int, required=True, metavar="N", help="as txn describe shows it")
    abort = verb("abort", "Aborts open transactions and fences their producers.", Command.abort)
    abort.add_argument("id", nargs="?", help="transactional id")
    abort.add_argument(
        "--all-lingering", action="store_true",
        help="every open one of --prefix or --job that the checkpoint does not name",
    )  # fmt: skip
    for changing in (commit, abort):
        changing.add_argument("--yes", action="store_true", help="do it; without, only what would be done is printed")


class Command:
    """One call of the program."""

    def __init__(self, client: TransactionClient, target: Target, transactions: OpenTransactions) -> None:
        self._client = client
        self._target = target
        self._transactions = transactions

    def list_open(self, _: argparse.Namespace) -> list[dict[str, object]]:
        found = self._transactions.unfinished()
        if not found and not self._target.prefixes:
            _say("Kafka shows only the ids that you may DESCRIBE; --prefix P says whether the right is missing")
        return [self._transactions.row(one) for one in found]

    def describe(self, options: argparse.Namespace) -> list[dict[str, object]]:
        found = self._transactions.one(options.id)
        row = self._transactions.row(found)
        row["timeoutSeconds"] = found.description.timeout_ms // 1000
        if options.output is Output.JSON:
            return [row]
        return [{"field": name, "value": value} for name, value in row.items()]

    def commit(self, options: argparse.Namespace) -> list[dict[str, object]]:
        found = self._transactions.one(options.id)
        self._require_ongoing(found, options)
        if self._target.has_state and not self._transactions.is_final(found):
            msg = f"the job's checkpoint does not name {options.id} as final, so the job writes its records once more"
            raise CommandRefused(msg, remedy="abort it; or leave --job and --state out, to commit it all the same")
        places = _places(found)
        if not options.yes:
            _say(f"would make the records in {places} visible to read_committed readers; that cannot be undone")
            return [_outcome("would commit", found)]
        self._end(found)
        _say(f"the records in {places} are visible to read_committed readers")
        return [_outcome("committed", found)]

    def abort(self, options: argparse.Namespace) -> list[dict[str, object]]:
        if bool(options.id) == options.all_lingering:
            msg = "which transaction to abort is not said"
            raise CommandRefused(msg, remedy="name one id, or give --all-lingering with --prefix or --job")
        if self._target.state not in _AT_REST:
            msg = f"the job is {self._target.state}: what is open belongs to its checkpoint under way"
            raise CommandRefused(msg, remedy="""kubectl patch ksj NAME --type merge -p '{"spec":{"suspend":true}}'""")
        found, kept = self._lingering(options) if options.all_lingering else ([self._abortable(options.id)], [])
        for one in kept:
            _say(f"{one.transactional_id} is left alone: the checkpoint names it as final; the next attempt commits it")
        verb = "would abort"
        if found and options.yes:
            with _naming_the_right(self._target, "WRITE", found[0].transactional_id):
                self._client.fence_all(one.transactional_id for one in found)
            verb = "aborted"
        elif found:
            _say("would make these records invisible for good, and fence whoever writes under these ids")
        return [_outcome(verb, one) for one in found]

    def _lingering(self, options: argparse.Namespace) -> tuple[list[Found], list[Found]]:
        """What to abort, and what the document names."""
        if not self._target.prefixes:
            msg = "--all-lingering of every job in the cluster is never right"
            raise CommandRefused(msg, remedy="add --prefix P, or --namespace and --job")
        if not self._target.has_state and not options.yes:
            msg = "without the job's checkpoint it is not known which of these transactions are final"
            raise CommandRefused(msg, remedy="add --job or --state FILE; or --yes, if no checkpoint is left to lose")
        found = [one for one in self._transactions.unfinished() if one.description.state.open]
        kept = [one for one in found if self._transactions.is_final(one)]
        return [one for one in found if one not in kept], kept

    def _abortable(self, transactional_id: str) -> Found:
        found = self._transactions.one(transactional_id)
        if not found.description.state.open:
            why = _NOT_ONGOING.get(found.description.state.value, "its state is not known to this release")
            msg = f"nothing is open under {transactional_id}: {why}"
            raise CommandRefused(msg, remedy="nothing")
        if self._transactions.is_final(found):
            msg = f"the job's checkpoint names {transactional_id} as final: aborting it would lose its records"
            raise CommandRefused(msg, remedy="resume the job, which commits it; or sparkapp txn commit")
        return found

    def _require_ongoing(self, found: Found, options: argparse.Namespace) -> None:
        description = found.description
        if description.state.value != "Ongoing":
            why = _NOT_ONGOING.get(description.state.value, "its state is not known to this release")
            msg = f"{found.transactional_id} is not Ongoing but {description.state.value}: {why}"
            raise CommandRefused(msg, remedy="nothing: there is no transaction to commit")
        if (description.producer_id, description.producer_epoch) != (options.producer_id, options.epoch):
            msg = (
                f"open under {found.transactional_id} is the transaction of producer {description.producer_id} epoch"
                f" {description.producer_epoch}, not of producer {options.producer_id} epoch {options.epoch}"
            )
            raise CommandRefused(msg, remedy="sparkapp txn describe shows what is open; make sure which one you mean")

    def _end(self, found: Found) -> None:
        from sparkapp.model.committable import KafkaCommittable
        from sparkapp.sink.committer import KafkaCommitter, Outcome

        committable = KafkaCommittable(
            transactional_id=found.transactional_id, producer_id=found.description.producer_id,
            producer_epoch=found.description.producer_epoch, checkpoint_id=0, subtask=0,
            records=0,
        )  # fmt: skip
        with _naming_the_right(self._target, "WRITE", found.transactional_id):
            (settled,) = KafkaCommitter(self._client, None, timeout=_COMMIT_SECONDS).commit([committable])
        if settled.outcome is not Outcome.COMMITTED:
            msg = f"{found.transactional_id} was not committed: the coordinator answered {settled.answer.name}"
            raise CommandRefused(msg, remedy="sparkapp txn describe shows what became of it")


def _run(answer: Answer, options: argparse.Namespace) -> int:
    logging.getLogger().addHandler(logging.NullHandler())  # whatever the clients log is raised, too
    from sparkapp.sink.transaction_client import TransactionClient
    from sparkapp.tools.open_transactions import OpenTransactions

    try:
        target = target_of(options)
        client = TransactionClient(target.config)
        try:
            rows = answer(Command(client, target, OpenTransactions(client, target)), options)
        finally:
            client.close()
    except KafkaSparkJobError as error:
        _say(f"{error.message}\n  what to do: {error.remedy}")
        return 1
    sys.stdout.write(render(rows, options.output, empty="no open transactions") + "\n")
    if "yes" in options and rows and not options.yes:
        _say("nothing was done; add --yes to do it")
    return 0


@contextmanager
def _naming_the_right(target: Target, operation: str, transactional_id: str) -> Iterator[None]:
    from sparkapp.tools.open_transactions import missing_right

    try:
        yield
    except AuthorizationFailed as error:
        raise missing_right(target, operation, transactional_id, error) from error


def _outcome(action: str, found: Found) -> dict[str, object]:
    return {
        "action": action,
        "transactionalId": found.transactional_id,
        "producerId": found.description.producer_id,
        "epoch": found.description.producer_epoch,
        "partitions": _places(found),
    }


def _places(found: Found) -> str:
    return ", ".join(str(one) for one in sorted(found.description.partitions))


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")

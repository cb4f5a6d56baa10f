"""``sparkapp txn``: lists, commits and aborts a job's Kafka transactions; changes nothing without ``--yes``."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sparkapp.cli.table import Output, render
from sparkapp.cli.target import add_options, target_of
from sparkapp.model.checkpoint.naming import is_of_prefix
from sparkapp.model.errors import AuthorizationFailed, CommandRefused

if TYPE_CHECKING:
    from sparkapp.cli.hanging_transactions import HangingTransactions
    from sparkapp.cli.open_transactions import Found, OpenTransactionRows
    from sparkapp.cli.target import Target
    from sparkapp.clients.transactions.client import TransactionClient

_AT_REST = frozenset({"", "Suspended", "Failed", "Finished"})
"""States of a resource in which no driver writes, so that open transactions do not change meanwhile."""
_COMMIT_SECONDS = 60.0
_SUSPEND = '{"spec":{"suspend":true}}'
_NOT_ONGOING = {
    "Empty": "its producer has written nothing since it started",
    "PrepareCommit": "the coordinator is committing it",
    "PrepareAbort": "the coordinator is aborting it",
    "PrepareEpochFence": "its producer was fenced, so it is aborted",
    "CompleteCommit": "its last transaction was committed",
    "CompleteAbort": "its last transaction was aborted, so readers never see its records",
    "Dead": "the coordinator is removing it",
}

Answer = Callable[["Command", argparse.Namespace], list[dict[str, object]]]


def add_commands(commands: Any) -> None:
    """Adds ``txn`` to the program's subcommands; called by ``sparkapp.__main__``."""
    txn = commands.add_parser("txn", help="list, describe, commit, abort or end Kafka transactions")
    verbs = txn.add_subparsers(dest="verb", required=True)

    def verb(name: str, text: str, answer: Answer) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=text)
        add_options(parser)
        parser.add_argument(
            "--output", type=Output, choices=list(Output), default=Output.TABLE, help="form of the answer"
        )
        parser.set_defaults(answer=lambda options: _run(answer, options))
        return parser

    verb("list", "Lists open transactions of a prefix, a job or the whole cluster.", Command.list_open)
    describe = verb("describe", "Shows the coordinator's description of a transactional id.", Command.describe)
    describe.add_argument("id", help="transactional id")
    commit = verb("commit", "Commits an open transaction: its records become visible for ever.", Command.commit)
    commit.add_argument("id", help="transactional id")
    commit.add_argument("--producer-id", type=int, required=True, metavar="N", help="from txn describe")
    commit.add_argument("--epoch", type=int, required=True, metavar="N", help="from txn describe")
    abort = verb("abort", "Aborts open transactions and fences their producers.", Command.abort)
    abort.add_argument("id", nargs="?", help="transactional id")
    abort.add_argument(
        "--all-lingering", action="store_true",
        help="all open transactions of --prefix or --job that the checkpoint does not name",
    )  # fmt: skip
    hanging = verb(
        "hanging", "Lists transactions that partitions have open and coordinators call ended.", Command.hanging
    )
    end = verb("end", "Ends a hanging transaction with the outcome that it had.", Command.end)
    end.add_argument("id", help="transactional id")
    end.add_argument("--outcome", choices=["commit", "abort"], help="where txn hanging does not know the end")
    end.add_argument("--producer-id", type=int, metavar="N", help="from txn hanging; another is refused")
    for asking in (hanging, end):
        where = asking.add_argument_group("partitions", "the job's topics and its group's offsets, and")
        where.add_argument("--topic", nargs="+", action="extend", default=[], metavar="T", help="topics to ask, too")
        where.add_argument("--group", default="", metavar="G", help="group whose offsets are in the transactions")
    for changing in (commit, abort, end):
        changing.add_argument("--yes", action="store_true", help="do it; without it nothing changes")


class Command:
    """A call of the program. Each method returns the rows of its answer.

    :ivar empty: what an answer without rows says.
    """

    def __init__(self, client: TransactionClient, target: Target, transactions: OpenTransactionRows) -> None:
        self._client = client
        self._target = target
        self._transactions = transactions
        self.empty = "no open transactions"

    def list_open(self, _: argparse.Namespace) -> list[dict[str, object]]:
        """Open transactions of the target."""
        found = self._transactions.unfinished()
        if not found and not self._target.prefixes:
            _say("Kafka lists only ids that you have the right to describe; --prefix P checks the right for a prefix")
        return [self._transactions.row(transaction) for transaction in found]

    def describe(self, options: argparse.Namespace) -> list[dict[str, object]]:
        """One id; as a table, each field is a row."""
        found = self._transactions.find(options.id)
        row = self._transactions.row(found)
        row["timeoutSeconds"] = found.description.timeout_ms // 1000
        if options.output is Output.JSON:
            return [row]
        return [{"field": name, "value": value} for name, value in row.items()]

    def commit(self, options: argparse.Namespace) -> list[dict[str, object]]:
        """Commits one transaction with ``--yes``.

        :raises CommandRefused: the job runs, the transaction is not open, has other numbers, or is not in the job's
            checkpoint.
        """
        self._require_rest(options, "its driver commits what the checkpoint names")
        found = self._transactions.find(options.id)
        self._require_ongoing(found, options)
        if self._target.has_state and not self._transactions.is_final(found):
            msg = f"the checkpoint does not name {options.id} as final: the job writes its records again"
            raise CommandRefused(msg, remedy="abort it; to commit it in spite of this, remove --job and --state")
        places = _places(found)
        if not options.yes:
            _say(f"would make the records in {places} visible to read_committed readers; this cannot be undone")
            return [_outcome("would commit", found)]
        self._end(found)
        _say(f"the records in {places} are visible to read_committed readers")
        return [_outcome("committed", found)]

    def abort(self, options: argparse.Namespace) -> list[dict[str, object]]:
        """Aborts one transaction or all lingering transactions with ``--yes``.

        :raises CommandRefused: the job runs, the checkpoint names the transaction, or the id is of another prefix.
        """
        if bool(options.id) == options.all_lingering:
            msg = "no transaction is named"
            raise CommandRefused(msg, remedy="name an id, or add --all-lingering with --prefix or --job")
        self._require_rest(options, "its open transactions belong to the checkpoint under way")
        found, kept = self._lingering(options) if options.all_lingering else ([self._abortable(options.id)], [])
        for final in kept:
            _say(f"{final.transactional_id} stays open: the checkpoint names it as final, the next attempt commits it")
        verb = "would abort"
        if found and options.yes:
            with _naming_the_right(self._target, "WRITE", found[0].transactional_id):
                self._client.fence_all(transaction.transactional_id for transaction in found)
            verb = "aborted"
        elif found:
            _say("would discard these records for ever and fence the producers of these ids")
        return [_outcome(verb, transaction) for transaction in found]

    def hanging(self, options: argparse.Namespace) -> list[dict[str, object]]:
        """What leaders have open and coordinators call ended."""
        rows, self.empty = self._hanging(options).rows()
        return rows

    def end(self, options: argparse.Namespace) -> list[dict[str, object]]:
        """Ends the hanging transactions of an id with ``--yes``.

        :raises CommandRefused: the job runs, nothing hangs, the outcome is not known, or it is another.
        """
        self._require_rest(options, "it ends by itself what hangs")
        self._require_prefix(options.id, "end")
        document = self._target.document
        return self._hanging(options).end(
            options.id, outcome=options.outcome, producer_id=options.producer_id, yes=options.yes,
            # At rest only subtasks that commit by themselves may be alive, and without a job anything.
            fence=options.job is None or document is None or document.local is not None,
        )  # fmt: skip

    def _hanging(self, options: argparse.Namespace) -> HangingTransactions:
        from sparkapp.cli.hanging_transactions import HangingTransactions

        return HangingTransactions(
            self._client, self._target, self._transactions, topics=options.topic, group=options.group, say=_say
        )

    def _require_rest(self, options: argparse.Namespace, why: str) -> None:
        """A running driver's producers write several transactions one after the other (ADR 62).

        :raises CommandRefused: the job runs.
        """
        if self._target.state not in _AT_REST:
            kubectl_name = f"{options.job} -n {options.namespace}"
            raise CommandRefused(
                f"the job is {self._target.state}: {why}",
                remedy=f"kubectl patch ksj {kubectl_name} --type merge -p '{_SUSPEND}'",
            )

    def _lingering(self, options: argparse.Namespace) -> tuple[list[Found], list[Found]]:
        """The transactions to abort, and those that the document names."""
        if not self._target.prefixes:
            msg = "--all-lingering is never right for every job in the cluster"
            raise CommandRefused(msg, remedy="add --prefix P, or --namespace and --job")
        if not self._target.has_state and not options.yes:
            msg = "final transactions are unknown: the job's checkpoint is not named"
            raise CommandRefused(msg, remedy="add --job or --state FILE; or --yes, if there is no checkpoint any more")
        found = [transaction for transaction in self._transactions.unfinished() if transaction.description.state.open]
        kept = [transaction for transaction in found if self._transactions.is_final(transaction)]
        return [transaction for transaction in found if transaction not in kept], kept

    def _require_prefix(self, transactional_id: str, verb: str) -> None:
        prefixes = self._target.prefixes
        if prefixes and not any(is_of_prefix(transactional_id, prefix) for prefix in prefixes):
            msg = f"{transactional_id} is of none of the prefixes {', '.join(prefixes)}"
            raise CommandRefused(
                msg, remedy=f"correct the id; to {verb} it all the same, leave out --job, --state and --prefix"
            )

    def _abortable(self, transactional_id: str) -> Found:
        self._require_prefix(transactional_id, "abort")
        found = self._transactions.find(transactional_id)
        if not found.description.state.open:
            why = _NOT_ONGOING.get(found.description.state.value, "this release does not know its state")
            msg = f"nothing is open under {transactional_id}: {why}"
            raise CommandRefused(msg, remedy="list the open ids with txn list and the same options")
        if self._transactions.is_final(found):
            msg = f"the job's checkpoint names {transactional_id} as final: aborting it would lose its records"
            raise CommandRefused(msg, remedy="resume the job, which commits it, or use sparkapp txn commit")
        return found

    def _require_ongoing(self, found: Found, options: argparse.Namespace) -> None:
        description = found.description
        if description.state.value != "Ongoing":
            why = _NOT_ONGOING.get(description.state.value, "this release does not know its state")
            msg = f"{found.transactional_id} is not Ongoing but {description.state.value}: {why}"
            raise CommandRefused(msg, remedy="list the open ids with txn list and the same options")
        if (description.producer_id, description.producer_epoch) != (options.producer_id, options.epoch):
            msg = (
                f"the open transaction of {found.transactional_id} is of producer {description.producer_id} epoch"
                f" {description.producer_epoch}, not of producer {options.producer_id} epoch {options.epoch}"
            )
            raise CommandRefused(msg, remedy="compare the numbers with txn describe and the same options")

    def _end(self, found: Found) -> None:
        from sparkapp.model.checkpoint.commit_outcome import CommitOutcome
        from sparkapp.model.checkpoint.committable import KafkaCommittable
        from sparkapp.sink.committer import KafkaCommitter

        committable = KafkaCommittable(
            transactional_id=found.transactional_id, producer_id=found.description.producer_id,
            producer_epoch=found.description.producer_epoch, checkpoint_id=0, subtask=0,
            records=0,
        )  # fmt: skip
        with _naming_the_right(self._target, "WRITE", found.transactional_id):
            (settled,) = KafkaCommitter(self._client, None, timeout=_COMMIT_SECONDS).commit([committable])
        if settled.outcome is not CommitOutcome.COMMITTED:
            msg = f"{found.transactional_id} was not committed: the coordinator answered {settled.answer.name}"
            raise CommandRefused(msg, remedy="look at its state with txn describe and the same options")


def _run(answer: Answer, options: argparse.Namespace) -> int:
    logging.getLogger().addHandler(logging.NullHandler())  # the clients also raise what they log
    from sparkapp.cli.open_transactions import OpenTransactionRows
    from sparkapp.clients.transactions.client import TransactionClient

    target = target_of(options)
    client = TransactionClient(target.config)
    try:
        command = Command(client, target, OpenTransactionRows(client, target))
        rows = answer(command, options)
    finally:
        client.close()
    sys.stdout.write(render(rows, options.output, empty=command.empty) + "\n")
    if "yes" in options and rows and not options.yes:
        _say("nothing was done; add --yes to do it")
    return 0


@contextmanager
def _naming_the_right(target: Target, operation: str, transactional_id: str) -> Iterator[None]:
    from sparkapp.cli.missing_rights import missing_right

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
    return ", ".join(map(str, sorted(found.description.partitions)))


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")

"""The base of all errors, and the errors that belong to no part of the protocol."""

from __future__ import annotations

from typing import ClassVar

KAFKA_REACHABLE = "KafkaReachable"
STATE_VALID = "StateValid"


class KafkaSparkJobError(Exception):
    """Base of every error that this project raises on purpose.

    ``reason`` is the CamelCase reason of the Kubernetes condition and event. ``remedy`` is a command or a change that
    solves the problem. Where it is empty, the operator names the command that shows the attempt's log. ``fatal`` says
    that a restart of the driver cannot help before a person acts. ``condition`` is the type of the status condition
    that becomes False together with Ready; the operator reads it. ``detail`` replaces the end of the log in the status.

    ``default_remedy`` contains NAME, NAMESPACE, GROUP, BROKERS and CLAIM for the job's values. ``commands.remedy_for``
    fills them in. A value that only the person knows is another word in capitals.
    """

    reason: ClassVar[str] = "InternalError"
    fatal: ClassVar[bool] = False
    condition: ClassVar[str | None] = None
    default_remedy: ClassVar[str] = ""
    detail: str = ""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy if remedy is not None else self.default_remedy


class InvalidArgument(KafkaSparkJobError, ValueError):
    """A value outside what a rule of the protocol allows (case H17); no other reason covers the error."""

    reason = "InvalidArgument"
    fatal = True


class CommandRefused(KafkaSparkJobError):
    """A command of ``sparkapp txn`` that would do harm, or that lacks an argument; nothing was changed."""

    reason = "CommandRefused"
    fatal = True


class InputUnreadable(CommandRefused):
    """A file that a command line names cannot be read, or does not hold what the command reads."""


RESTART = """kubectl patch ksj NAME -n NAMESPACE --type merge -p "{\\"spec\\":{\\"restartNonce\\":$(date +%s)}}\""""
"""The command that starts a failed job again; used in remedies."""
SHOW_CHECKPOINT = "`python3 -m sparkapp checkpoint show --namespace NAMESPACE --job NAME`"
LIST_CHECKPOINTS = "`python3 -m sparkapp checkpoint list --namespace NAMESPACE --job NAME`"

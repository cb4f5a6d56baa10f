"""Notices that the Secrets of the job's clusters have new content, and that the brokers accept it.

The kubelet replaces the mounted files while the job runs. The driver compares them with what its clients have, and ends
its attempt when the next attempt can connect (ADR 47).
"""

from __future__ import annotations

from collections.abc import Callable

from sparkapp.clients.daemon_thread import PeriodicThread
from sparkapp.clients.deadline import Deadline
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job.client.config import OfClusters

LOOK_SECONDS = 5.0
"""Between two looks at the files. The kubelet takes up to a minute or two to write them."""
TRY_SECONDS = 10.0
"""Between two connections with credentials that the brokers refuse."""


class CredentialsWatch:
    """Looks at the mounted files in a daemon thread, from :meth:`start` until :meth:`close`.

    :param read: the present properties (:func:`sparkapp.clients.security.mounted.mounted_securities`).
    :param current: the properties of the attempt's clients.
    :param check: connects with new properties; raises where they cannot be loaded or the brokers refuse them.
    :param changed: called once, in the thread, when the brokers accept new properties.
    :param refused: called in the thread with the cause, once for each content that cannot be used.
    """

    def __init__(
        self,
        *,
        read: Callable[[], OfClusters],
        current: OfClusters,
        check: Callable[[OfClusters], None],
        changed: Callable[[], None],
        refused: Callable[[KafkaSparkJobError], None],
    ) -> None:
        self._read = read
        self._check = check
        self._changed = changed
        self._refused = refused
        self._current = current
        self._seen: OfClusters | None = current
        self._told: object = None
        self._try_again = Deadline.after(0)
        self._done = False
        # A connection attempt may be under way at the attempt's end; nothing waits for it.
        self._thread = PeriodicThread(self.look, name="credentials", interval=LOOK_SECONDS, patience=1.0)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._thread.close()

    def look(self) -> None:
        """One look. New content counts when two looks in a row find it: the kubelet replaces one Secret at a time."""
        if self._done:
            return
        try:
            before, now = self._seen, self._read()
        except KafkaSparkJobError as error:
            self._seen = None
            self._tell(error, error.message)
            return
        self._seen = now
        if now == self._current:
            self._told = None
        elif now != before:
            self._try_again = Deadline.after(0)
        elif self._try_again.expired:
            self._try(now)

    def _try(self, security: OfClusters) -> None:
        try:
            self._check(security)
        except KafkaSparkJobError as error:
            self._try_again = Deadline.after(TRY_SECONDS)
            self._tell(error, security)
        else:
            self._done = True
            self._changed()

    def _tell(self, error: KafkaSparkJobError, content: object) -> None:
        if content != self._told:
            self._told = content
            self._refused(error)

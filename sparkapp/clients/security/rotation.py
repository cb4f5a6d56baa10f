"""Notices that the Secrets of ``spec.kafka`` have new content, and that the brokers accept it.

A Kafka client keeps what it was created with. The kubelet replaces the mounted files while the job runs. So the driver
compares them with what its clients have, and ends its attempt when the next attempt can connect (ADR 47).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from sparkapp.clients.daemon_thread import PeriodicThread
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.security.tls_diagnosis import tls_context, uses_tls
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job.client.security_properties import read_security
from sparkapp.model.job.spec import KafkaCluster

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Between two looks at the files. The kubelet takes up to a minute or two to write them."""
TRY_SECONDS = 30.0
"""Between two connections with credentials that the brokers refuse."""
_FILE = ".location"


def usable_security(kafka: KafkaCluster, directory: Path) -> dict[str, str]:
    """The properties of :func:`read_security`, whose certificates and key can be loaded.

    Called by the wiring for an attempt's clients, and by :class:`CredentialsWatch`.

    :raises CredentialsUnusable: a Secret lacks a key or holds something else. Another content of the Secret solves it.
    """
    security = read_security(kafka, directory)
    if uses_tls(security):
        tls_context(security)
    return security


def fingerprint(security: Mapping[str, str]) -> str:
    """A digest of what clients keep: the properties, and the files that they name.

    Secrets and tokens for OAUTHBEARER are no part of it: clients read their files for each token.
    """
    content = {
        name: hashlib.sha256(Path(value).read_bytes()).hexdigest() if name.endswith(_FILE) else value
        for name, value in security.items()
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class CredentialsWatch:
    """Looks at the mounted files in a daemon thread, from :meth:`start` until :meth:`close`.

    :param read: the present properties (:func:`usable_security`).
    :param current: :func:`fingerprint` of the properties of the attempt's clients, from before they were created.
    :param check: connects with new properties; raises where the brokers refuse them.
    :param changed: called once, in the thread, when the brokers accept new properties.
    :param refused: called in the thread with the cause, once for each content that cannot be used.
    """

    def __init__(
        self,
        *,
        read: Callable[[], Mapping[str, str]],
        current: str,
        check: Callable[[Mapping[str, str]], None],
        changed: Callable[[], None],
        refused: Callable[[KafkaSparkJobError], None],
    ) -> None:
        self._read = read
        self._check = check
        self._changed = changed
        self._refused = refused
        self._current = self._seen = current
        self._told = ""
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
            security = self._read()
            before, self._seen = self._seen, fingerprint(security)
        except OSError:
            return  # a file was replaced meanwhile
        except KafkaSparkJobError as error:
            self._seen = ""
            self._tell(error, str(error))
            return
        if self._seen == self._current:
            self._told = ""
        elif self._seen != before:
            self._try_again = Deadline.after(0)
        elif self._try_again.expired:
            self._try(security)

    def _try(self, security: Mapping[str, str]) -> None:
        try:
            self._check(security)
        except KafkaSparkJobError as error:
            self._try_again = Deadline.after(TRY_SECONDS)
            self._tell(error, self._seen)
        else:
            self._done = True
            self._changed()

    def _tell(self, error: KafkaSparkJobError, content: str) -> None:
        if content != self._told:
            self._told = content
            self._refused(error)

"""Requests about one object of the API server: repeated while no answer comes."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import urllib3
from kubernetes.client.exceptions import ApiException

from sparkapp.clients.deadline import Deadline
from sparkapp.model.errors import CheckpointError, CheckpointStoreUnavailable

LOG = logging.getLogger(__name__)

REQUEST_TIMEOUT = (5.0, 10.0)
"""Seconds to connect, and seconds to wait for an answer."""
_LEAST_SECONDS = 0.1
"""urllib3 accepts no timeout of 0."""
_RETRIED = frozenset({0, 429, 500, 502, 503, 504})
"""Status codes that a retry may heal. The client reports a failed TLS handshake as 0."""


class Requests:
    """Sends requests about one object; without a deadline a request is tried once.

    :param what: the object, for messages: its kind and name.
    :ivar unanswered: whether an attempt of the last request may have taken effect without an answer.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self.unanswered = False

    def send(
        self,
        call: Callable[[tuple[float, float]], Any],
        deadline: Deadline | None,
        *,
        refusal: Callable[[ApiException], CheckpointError],
    ) -> Any:
        """The answer.

        :param call: sends the request with seconds to connect and seconds to wait for an answer.
        :param refusal: the error for an answer that a retry does not change.
        :raises CheckpointStoreUnavailable: no answer by the deadline. :raises CheckpointError: of ``refusal``.
        """
        seconds = deadline.remaining if deadline is not None else 0.0
        pause = 0.2
        self.unanswered = False
        while True:
            try:
                return call(_request_timeout(deadline))
            except ApiException as error:
                if error.status not in _RETRIED:
                    raise refusal(error) from error
                problem = f"{error.status} {answer_of(error)}"
                # The API server rejects a throttled request before it acts on it.
                self.unanswered |= error.status != 429
            except urllib3.exceptions.HTTPError as error:
                problem = str(error)
                self.unanswered = True
            if deadline is None or deadline.expired:
                msg = f"{self._what}: no answer from the API server within {seconds:.0f} s: {problem}"
                raise CheckpointStoreUnavailable(msg)
            LOG.warning("%s: %s; retrying", self._what, problem)
            time.sleep(deadline.bound(pause))
            pause = min(2 * pause, 5.0)


def answer_of(error: ApiException) -> str:
    """The API server's error message."""
    try:
        return str(json.loads(error.body)["message"])
    except (ValueError, KeyError, TypeError):
        return str(error.reason)


def _request_timeout(deadline: Deadline | None) -> tuple[float, float]:
    """Seconds to connect and to wait for an answer, bounded by the deadline."""
    if deadline is None:
        return REQUEST_TIMEOUT
    connect, answer = REQUEST_TIMEOUT
    return max(_LEAST_SECONDS, deadline.bound(connect)), max(_LEAST_SECONDS, deadline.bound(answer))

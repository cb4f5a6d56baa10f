"""Waits for the CustomResourceDefinition: kopf looks for it once and never again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from kafkasparkjob_operator.kubernetes.port import ClusterError
from sparkapp.model import names
from sparkapp.model.errors import KafkaSparkJobError

LOG = logging.getLogger(__name__)

WAIT_SECONDS = 60.0
PAUSE_SECONDS = 3.0


class DefinitionMissing(KafkaSparkJobError):
    """The API server does not serve KafkaSparkJobs: the CustomResourceDefinition is missing."""

    reason = "DefinitionMissing"
    default_remedy = "install it: kubectl apply -f crds/kafkasparkjobs.yaml, or the chart with crds.install=true"


async def await_definition(
    served: Callable[[], Awaitable[bool]],
    stop: asyncio.Event,
    *,
    seconds: float = WAIT_SECONDS,
    pause: float = PAUSE_SECONDS,
) -> bool:
    """Waits until the resource is served. Called by the runtime before its watches begin.

    :param served: asks the API server; an unavailable API server is asked again forever.
    :param seconds: time limit for an API server that answers that the resource does not exist.
    :returns: False where ``stop`` was set first.
    :raises DefinitionMissing: the time limit has passed; the process ends, and Kubernetes restarts it.
    """
    loop = asyncio.get_running_loop()
    absent_since: float | None = None
    while not stop.is_set():
        try:
            if await served():
                return True
            absent_since = loop.time() if absent_since is None else absent_since
            message = f"the API server does not serve {names.PLURAL}.{names.GROUP} in version {names.VERSION}"
        except ClusterError as error:
            absent_since, message = None, error.message
        if absent_since is not None and loop.time() - absent_since >= seconds:
            raise DefinitionMissing(message)
        LOG.warning("the operator is not ready: %s", message)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
    return False

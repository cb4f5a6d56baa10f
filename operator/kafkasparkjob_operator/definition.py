"""Waits for the CustomResourceDefinition: kopf looks for it once, warns where it is missing, and never looks again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from kafkasparkjob_operator.cluster import ClusterError
from sparkapp.model import names
from sparkapp.model.errors import KafkaSparkJobError

LOG = logging.getLogger(__name__)

WAIT_SECONDS = 60.0
PAUSE_SECONDS = 3.0


class DefinitionMissing(KafkaSparkJobError):
    """The API server does not know what the operator is for."""

    reason = "DefinitionMissing"
    default_remedy = "install it: `kubectl apply -f crds/kafkasparkjobs.yaml`, or the chart with crds.install=true"


async def await_definition(
    served: Callable[[], Awaitable[bool]],
    stop: asyncio.Event,
    *,
    seconds: float = WAIT_SECONDS,
    pause: float = PAUSE_SECONDS,
) -> bool:
    """Waits until the resource is served. Called by the runtime before its watches begin.

    :param served: asks the API server; an API server that is away is asked again without end.
    :param seconds: for how long an API server may answer that there is no such resource.
    :returns: False where ``stop`` was set first.
    :raises DefinitionMissing: the process is to end, so that Kubernetes shows it and starts it anew.
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
        LOG.warning("not ready: %s", message)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
    return False

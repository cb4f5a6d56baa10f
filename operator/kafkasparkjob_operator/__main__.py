"""``python -m kafkasparkjob_operator``: runs the operator; its settings are environment variables."""

from __future__ import annotations

import asyncio
import logging
import sys

from kafkasparkjob_operator.kubernetes.definition import DefinitionMissing
from kafkasparkjob_operator.runtime import run
from kafkasparkjob_operator.settings import settings_from_environment
from sparkapp.model.encoding.json_log import log_as_json
from sparkapp.model.errors import ConfigurationError, KafkaSparkJobError

LOG = logging.getLogger(__name__)

_FRAMES = 15_000
"""For resources that are nested as deeply as the API server takes them, 10,000 levels. A list has the resources of all
tenants, and with Python's own limit none of them could be read. A text in a ConfigMap may be nested deeper. It is
refused, because at 35,000 levels the C stack would overflow."""


def main() -> int:
    """Exit status 0 after an orderly stop, 2 for invalid settings, 1 for anything else."""
    try:
        settings = settings_from_environment()
    except KafkaSparkJobError as error:
        sys.stderr.write(f"{error.message}\n")
        return 2
    log_as_json(settings.log_level)
    sys.setrecursionlimit(_FRAMES)
    # Kopf only watches here; its log of every event is of no use.
    for name in ("kopf", "urllib3", "aiohttp"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        asyncio.run(run(settings))
    except (ConfigurationError, DefinitionMissing) as error:
        LOG.error("%s: %s; %s", error.reason, error.message, error.remedy)
        return 2 if isinstance(error, ConfigurationError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

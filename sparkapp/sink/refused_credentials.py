"""Whether it is the credentials that brokers do not like, for clients that see no more than a closed connection."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from sparkapp.model.client_config import cluster_properties
from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import AuthenticationFailed
from sparkapp.native.kafka_errors import MEANING, error_for

_LOOK_SECONDS = 3.0


def refused_credentials(config: Mapping[str, str], deadline: Deadline) -> Exception | None:
    """Connects once more with librdkafka, which reads a broker's last words; None where that is not the trouble.

    Called where a connection attempt came to nothing, never in normal operation.
    """
    if not any(name.startswith("sasl.") for name in config):
        return None
    errors: list[KafkaError] = []
    admin = AdminClient({**cluster_properties(config), "error_cb": errors.append, "log_level": 0})
    look = Deadline.after(deadline.bound(_LOOK_SECONDS), clock=deadline.clock)
    while True:
        admin.poll(look.bound(0.1))
        refused = next((error for error in errors if MEANING.get(error.code()) is AuthenticationFailed), None)
        if refused is not None:
            return error_for(refused, f"connecting to {config['bootstrap.servers']}")
        if look.expired:
            return None

"""Checks the spec's client properties with librdkafka itself, before the attempt changes anything."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from sparkapp.clients.errors import error_for
from sparkapp.dataplane.settings import consumer_settings, producer_settings
from sparkapp.model.errors import ConfigurationError

_REMEDY = (
    "correct or remove the property: https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md lists"
    " names and values"
)
_SILENT = logging.getLogger(f"{__name__}.silent")
_SILENT.disabled = True


def check_consumer(config: Mapping[str, str], properties: Mapping[str, str]) -> None:
    """Opens a consumer with ``config`` and closes it; needs no broker. Called by the driver at the start of an attempt.

    :param config: librdkafka properties of the job's consumer.
    :param properties: ``spec.source.properties``, which ``config`` contains.
    :raises ConfigurationError: librdkafka refuses a name, a value, or a combination of values.
    """
    _check("spec.source.properties", Consumer, consumer_settings(config), properties)


def check_producer(config: Mapping[str, str], properties: Mapping[str, str]) -> None:
    """:func:`check_consumer` for the job's producer and ``spec.sink.properties``."""
    _check("spec.sink.properties", Producer, producer_settings(config), properties)


def _check(
    where: str, kind: type[Consumer | Producer], settings: Mapping[str, str], properties: Mapping[str, str]
) -> None:
    refusal = _refusal(kind, settings)
    if not refusal:
        return
    others = {name: value for name, value in settings.items() if name not in properties}
    for name, value in sorted(properties.items()):
        # For an alias, librdkafka's message has the name of the aliased property.
        alone = _refusal(kind, {**others, name: value})
        if alone:
            raise ConfigurationError(f"{where}: {name}: {alone}", remedy=_REMEDY)
    raise ConfigurationError(f"{where}: {refusal}", remedy=_REMEDY)


def _refusal(kind: type[Consumer | Producer], settings: Mapping[str, str]) -> str:
    """librdkafka's message for a configuration that it refuses; empty if it accepts the configuration.

    :raises KafkaAccessError: the client could not be opened for another reason.
    """
    try:
        client = kind(settings, logger=_SILENT)
    except KafkaException as error:
        problem: KafkaError = error.args[0]
        if problem.code() != KafkaError._INVALID_ARG:
            raise error_for(problem, "opening a Kafka client") from error
        return str(problem.str())
    except (TypeError, ValueError) as error:
        # The property is a callback of the Python client, which does not accept text.
        return str(error)
    if isinstance(client, Consumer):
        client.close()
    return ""

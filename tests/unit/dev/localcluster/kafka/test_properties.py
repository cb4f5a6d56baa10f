"""The configuration that brokers are started with."""

from pathlib import Path

from localcluster.clusters import kind
from localcluster.kafka.properties import Listener, render, values

HOST = Listener("HOST", "127.0.0.1", 1)
PODS = Listener("PODS", "10.88.0.1", 2)
CONTROLLER = Listener("CONTROLLER", "127.0.0.1", 3)


def test_every_listener_is_advertised_but_the_controllers() -> None:
    made = values([HOST, PODS], CONTROLLER, Path("/data"))
    assert made["advertised.listeners"] == "HOST://127.0.0.1:1,PODS://10.88.0.1:2"
    assert made["listeners"] == "HOST://127.0.0.1:1,PODS://10.88.0.1:2,CONTROLLER://127.0.0.1:3"
    assert made["controller.quorum.voters"] == "1@127.0.0.1:3"
    assert made["auto.create.topics.enable"] == "false"


def test_overrides_win() -> None:
    text = render([HOST], CONTROLLER, Path("/data"), {"auto.create.topics.enable": "true"})
    assert "auto.create.topics.enable=true\n" in text
    assert "auto.create.topics.enable=false\n" not in text


def test_the_broker_next_to_kind_advertises_names_that_both_sides_can_reach() -> None:
    command = kind.broker_command()
    assert "--env=KAFKA_ADVERTISED_LISTENERS=HOST://127.0.0.1:19092,PODS://kafkaspark-kafka:19094" in command
    assert "--env=KAFKA_LISTENERS=HOST://0.0.0.0:19092,PODS://0.0.0.0:19094,CONTROLLER://127.0.0.1:19093" in command
    assert "--publish=127.0.0.1:19092:19092" in command

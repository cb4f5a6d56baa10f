"""The options of ``kafkaspark ui``: which brokers show the records of a sink."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkaspark import cluster_topics
from kafkaspark.__main__ import main
from kafkaspark.look import ui


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The brokers of each tail that is asked for; nothing is served."""
    found: list[str] = []

    def topics(config: dict[str, str]) -> Any:
        found.append(config["bootstrap.servers"])
        return SimpleNamespace(last=lambda _topic, _count: [])

    def served(_address: object, console: Any, **_: object) -> Any:
        assert console._tail is None or console._tail("out", 1) == []
        raise OSError(98, "Address already in use")

    monkeypatch.delenv("KAFKASPARK_BOOTSTRAP", raising=False)
    monkeypatch.setattr(cluster_topics, "Topics", topics)
    monkeypatch.setattr(ui, "ConsoleServer", served)
    monkeypatch.setattr(ui, "UserCluster", SimpleNamespace(of_context=lambda *_: SimpleNamespace(namespace="shop")))
    return found


def test_brokers_are_those_of_the_option_or_else_of_the_environment(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["ui"]) == 1
    assert asked == []
    monkeypatch.setenv("KAFKASPARK_BOOTSTRAP", "environment:9092")
    assert main(["ui"]) == 1
    assert main(["ui", "--bootstrap", "option:9092"]) == 1
    assert asked == ["environment:9092", "option:9092"]


@pytest.mark.parametrize("port", ["99999", "-1", "http", "65536"])
def test_a_port_that_no_machine_has_is_a_wrong_command_line(
    port: str, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["ui", "--port", port])
    assert ended.value.code == 2
    assert "argument --port: " in capsys.readouterr().err
    assert asked == []

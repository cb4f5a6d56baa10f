"""``kafkaspark topic`` against a real broker."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from kafkaspark.__main__ import main
from tests.support.kafka.topic_scope import TopicScope

pytestmark = pytest.mark.broker

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(topic_scope: TopicScope, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """``command("list", …)`` on the test's broker: exit status, output, messages."""

    def run(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setenv("KAFKASPARK_BOOTSTRAP", topic_scope.bootstrap)
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        capsys.readouterr()
        status = main(["topic", *map(str, arguments)])
        return (status, *capsys.readouterr())

    return run


def test_a_topic_is_created_filled_described_and_shown(command: Command, unique: str) -> None:
    settings = ("--setting", "retention.ms=86400000")
    assert command("create", unique, "--partitions", 2, *settings)[1] == f"topic {unique} created with 2 partitions\n"
    assert (unique, 2) in [(row["topic"], row["partitions"]) for row in json.loads(command("list", "--output=json")[1])]
    lines = "k:v\nno key\nk:ü\n".encode()
    assert command("produce", unique, "--key-separator", ":", stdin=lines)[1] == f"3 records written to {unique}\n"
    rows = json.loads(command("describe", unique, "--output=json")[1])
    assert [row["partition"] for row in rows] == [0, 1]
    assert sum(row["endOffset"] - row["firstOffset"] for row in rows) == 3
    status, shown, _ = command("tail", unique, "--from-beginning", "--output=json")
    records = [json.loads(line) for line in shown.splitlines()]
    assert status == 0
    assert sorted((r["key"] or "", r["value"]) for r in records) == [("", "no key"), ("k", "v"), ("k", "ü")]
    assert [r["offset"] for r in records if r["key"]] == sorted(r["offset"] for r in records if r["key"])


def test_tail_shows_the_last_ten_records_and_ends_behind_a_count(command: Command, unique: str) -> None:
    command("create", unique)
    command("produce", unique, stdin=b"".join(b"%d\n" % number for number in range(25)))
    assert command("tail", unique)[1] == "".join(f"0:{offset} {offset}\n" for offset in range(15, 25))
    assert command("tail", unique, "--from-beginning", "--count", 2)[1] == "0:0 0\n0:1 1\n"


def test_tail_shows_committed_records_only(
    command: Command, topic_scope: TopicScope, harness: Callable[..., object]
) -> None:
    attempt = harness().open()  # type: ignore[attr-defined]
    attempt.write(1)
    topic_scope.await_written(1)
    assert command("tail", topic_scope.topic, "--from-beginning")[1] == ""
    assert command("tail", topic_scope.topic, "--from-beginning", "--uncommitted")[1].count("\n") == 1


def test_bytes_of_a_record_do_not_reach_the_terminal(command: Command, unique: str) -> None:
    command("create", unique)
    command("produce", unique, stdin=b"\x1b[2Jred\x07\xff\n")
    assert command("tail", unique)[1] == "0:0 \\x1b[2Jred\\x07\\xff\n"


@pytest.mark.parametrize(
    ("arguments", "message", "remedy"),
    [
        (("describe", "{}"), "topic {} does not exist", "kafkaspark topic create {} --partitions 4"),
        (("tail", "{}"), "topic {} does not exist", "kafkaspark topic create {} --partitions 4"),
        (("produce", "{}"), "topic {} does not exist", "kafkaspark topic create {} --partitions 4"),
        (("create", "{}", "--replicas", "7"), "topic {} was not created", "check the brokers"),
        (("create", "{}", "--setting", "compact"), "'compact' is not NAME=VALUE", "cleanup.policy=compact"),
    ],
)
def test_a_refusal_says_what_mends_it(
    command: Command, unique: str, arguments: tuple[str, ...], message: str, remedy: str
) -> None:
    status, _, said = command(*(each.format(unique) for each in arguments))
    assert status == 1
    assert message.format(unique) in said
    assert remedy.format(unique) in said


def test_a_topic_that_exists_is_not_created_again(command: Command, unique: str) -> None:
    command("create", unique)
    status, _, said = command("create", unique)
    assert (status, f"topic {unique} exists" in said) == (1, True)

"""``sparkapp txn`` where the user may not do everything: the answer names the right that is missing."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from sparkapp.__main__ import main
from tests.support.kafka.secured_broker import Right, login, secured_broker

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """Bootstrap of a broker where ``job`` may describe ids of ``seen``; ``seen-0`` and ``hidden-0`` are open."""
    seen = Right(ResourceType.TRANSACTIONAL_ID, "seen", AclOperation.DESCRIBE, prefixed=True)
    with secured_broker(tmp_path_factory.mktemp("secured"), seen, topics=["out"]) as broker:
        settings = {"bootstrap.servers": broker.bootstrap, **login("admin", "a")}
        producers = []
        for name in ("seen-0", "hidden-0"):
            producers.append(Producer({**settings, "transactional.id": name}))
            producers[-1].init_transactions(30)
            producers[-1].begin_transaction()
            producers[-1].produce("out", name)
            assert producers[-1].flush(30) == 0
        yield broker.bootstrap
        del producers


@pytest.fixture
def txn(secured, tmp_path, capsys):
    """``txn("list", …)`` as the user ``job``, whose password is in a file."""
    path = tmp_path / "client.properties"

    def run(*arguments, password="j"):
        lines = [f"{name}={value}" for name, value in login("job", password).items()]
        path.write_text("\n".join(["# as kafka-acls.sh --command-config takes it", *lines]), encoding="utf-8")
        capsys.readouterr()
        status = main(["txn", *map(str, arguments), "--bootstrap", secured, "--config", str(path), "--allow-insecure"])
        return (status, *capsys.readouterr())

    return run


def test_what_may_be_described_is_listed(txn):
    for where in (("--prefix", "seen"), ()):
        status, output, _ = txn("list", *where, "--output", "json")
        assert (status, [row["transactionalId"] for row in json.loads(output)]) == (0, ["seen-0"])


@pytest.mark.parametrize("command", [("list", "--prefix", "hidden"), ("describe", "hidden-0", "--prefix", "hidden")])
def test_a_listing_that_is_not_permitted_names_the_right(txn, command):
    """Kafka itself answers with an empty list."""
    status, output, message = txn(*command)
    assert (status, output) == (1, "")
    assert "lacks DESCRIBE on the transactional ids of hidden" in message
    assert "--allow-principal User:job --operation Describe --transactional-id hidden" in message


def test_changes_name_the_right_to_write(txn):
    (row,) = json.loads(txn("describe", "seen-0", "--output", "json")[1])
    triple = ("seen-0", "--producer-id", row["producerId"], "--epoch", row["epoch"])
    for command in (("commit", *triple), ("abort", "seen-0"), ("abort", "--all-lingering", "--prefix", "seen")):
        status, _, message = txn(*command, "--yes")
        assert (status, "lacks WRITE on the transactional ids of seen" in message) == (1, True), command
    assert json.loads(txn("describe", "seen-0", "--output", "json")[1])[0]["state"] == "Ongoing"


def test_a_wrong_password_is_said(txn):
    status, _, message = txn("list", password="wrong")
    assert status == 1
    assert "credentials" in message.lower() or "authentication" in message.lower()
    assert "wrong" not in message

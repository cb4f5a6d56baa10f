"""Why Kubernetes refuses executors, from the log of Spark's allocator: shown while it lasts, and bounded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkapp.model.report import MAX_MESSAGE
from sparkapp.spark.reporting.executor_pods import HOLD_SECONDS, ExecutorPodsLog

SERVER = 'pods "orders-1-exec-{}" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2'
CLIENT = (
    "Failure executing: POST at: https://10.96.0.1:443/api/v1/namespaces/shop/pods. Message: {}. Received status:"
    " Status(apiVersion=v1, code=403, details=StatusDetails(causes=[], group=null, kind=pods), status=Failure)."
)


class Allocator:
    """Spark's, which writes a line for each try."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "pods.log"
        self.now, self.tries = 0.0, 0
        self.reported: list[str] = []
        self.log = ExecutorPodsLog(
            self.file, lambda **fields: self.reported.append(fields["executors_refused"]), clock=lambda: self.now
        )

    def write(self, message: str, cause: str | None = None) -> None:
        with self.file.open("a") as file:
            file.write(json.dumps({"message": message, "cause": cause}) + "\n")

    def refused(self, text: str = SERVER) -> None:
        self.tries += 1
        self.write(f"Failed to create executor pod {self.tries}.", CLIENT.format(text.format(self.tries)))
        self.log.look()

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.log.look()


@pytest.fixture
def allocator(tmp_path: Path) -> Allocator:
    return Allocator(tmp_path)


def test_a_refusal_is_reported_once_in_the_words_of_the_api_server_until_it_is_over(allocator: Allocator) -> None:
    allocator.wait(HOLD_SECONDS + 1)
    assert allocator.reported == [], "nothing was ever refused"
    for _ in range(5):
        allocator.refused()
        allocator.wait(1)
    assert allocator.reported == [SERVER.format("N")]
    allocator.wait(HOLD_SECONDS - 2)
    assert len(allocator.reported) == 1
    allocator.wait(2)
    assert allocator.reported[1:] == [""]
    allocator.refused("maximum memory usage per Container is 1Gi")
    assert allocator.reported[2:] == ["maximum memory usage per Container is 1Gi"]


def test_the_last_of_two_causes_counts_and_lines_without_a_cause_do_not(allocator: Allocator) -> None:
    allocator.refused()
    allocator.refused("no PriorityClass with name urgent was found")
    allocator.write("Executors with ids 1 were not detected")
    allocator.log.look()
    assert allocator.reported[-1] == "no PriorityClass with name urgent was found"


def test_the_same_line_again_is_a_refusal_again_and_a_slow_allocator_is_waited_for(allocator: Allocator) -> None:
    for _ in range(4):
        allocator.write("Exception when notifying snapshot subscriber.", "Connection refused")
        allocator.wait(60)
    assert allocator.reported == ["Connection refused"], "as the user's batch delay of a minute has it"
    allocator.wait(181)
    assert allocator.reported[-1] == ""


def test_a_new_file_and_half_a_line_are_read(allocator: Allocator) -> None:
    for _ in range(300):
        allocator.refused()
    allocator.file.write_text('{"message": "half')
    allocator.log.look()
    allocator.file.unlink()
    allocator.log.look()
    allocator.refused("denied by policy")
    assert allocator.reported[-1] == "denied by policy"


@pytest.mark.parametrize("line", [b"[1]\n", b"{}\n", b'{"message": 7, "cause": {"a": 1}}\n', b"\xff\xfe\n", b"{\n"])
def test_other_lines_break_nothing(allocator: Allocator, line: bytes) -> None:
    allocator.file.write_bytes(line)
    allocator.log.look()
    allocator.refused("x" * 10_000 + "\n\n  y")
    assert len(allocator.reported[-1]) == MAX_MESSAGE
    assert allocator.log.gave_up == ""


def test_the_end_by_failures_is_found(allocator: Allocator) -> None:
    allocator.write("Max number of executor failures (20) reached")
    allocator.write("later")
    assert allocator.log.gave_up == "Max number of executor failures (20) reached"

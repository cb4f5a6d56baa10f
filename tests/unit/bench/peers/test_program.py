"""Programs of the bench of peers: their lines, their ends, and what they use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.peers.process_usage import watch
from bench.peers.program import Program, ProgramFailed, Task
from bench.peers.workload import Shape
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from tests.support.patience import PATIENCE

TASK = Task(
    bootstrap="broker:9092", source="in", sink="out", records=7, delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
    parallelism=2, interval_millis=1000, shape=Shape.COPY, options={"linger-millis": "0"},
)  # fmt: skip
ECHO = """
import sys
from bench.peers.programs.task_lines import serve
def run(task):
    if not task.records:
        task.await_stop()
    print("not an answer")
    return float(task["moment"])
serve(run)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Program]]:
    running: list[Program] = []

    def of(code: str) -> Program:
        running.append(Program("echo", [sys.executable, "-c", code], tmp_path / "log"))
        return running[-1]

    yield of
    for program in running:
        program.close()


def task(records: int, moment: str) -> Task:
    return Task(
        bootstrap="b", source="s", sink="t", records=records, delivery_guarantee=DeliveryGuarantee.NONE,
        parallelism=1, interval_millis=1, options={"moment": moment},
    )  # fmt: skip


def test_a_task_is_a_line_of_options() -> None:
    assert TASK.line() == (
        "--bootstrap broker:9092 --source in --sink out --records 7 --delivery-guarantee ExactlyOnce"
        " --parallelism 2 --interval-millis 1000 --shape copy --linger-millis 0"
    )


def test_a_program_answers_task_after_task(start: Callable[[str], Program]) -> None:
    program = start(ECHO)
    for moment in ("1.5", "2.5"):
        program.begin(task(1, moment))
        assert program.answer(PATIENCE) == float(moment)
    program.begin(task(0, "3.5"))
    program.stop()
    assert program.answer(PATIENCE) == 3.5


def test_a_program_that_fails_names_its_last_messages(start: Callable[[str], Program]) -> None:
    program = start(ECHO)
    program.begin(task(1, "soon"))
    with pytest.raises(ProgramFailed, match=r"echo .*could not convert string to float: 'soon'"):
        program.answer(PATIENCE)
    with pytest.raises(ProgramFailed, match=r"ended with status 1|did not answer"):
        program.answer(PATIENCE)


def test_a_program_that_says_nothing_fails_by_time(start: Callable[[str], Program]) -> None:
    program = start(ECHO)
    program.begin(task(0, "1"))
    with pytest.raises(ProgramFailed, match="did not answer in time"):
        program.answer(0.01)


def test_usage_is_of_the_program_and_its_descendants(start: Callable[[str], Program]) -> None:
    work = (
        "import time; block = bytearray(50_000_000); end = time.process_time() + 0.3\n"
        "while time.process_time() < end: pass\n"
        "print(1, flush=True); input()"
    )
    code = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {work!r}],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print('ANSWER {\"ended\": 1}', flush=True)\n"
        "input()\n"
    )
    program = start(code)
    with watch(program.session) as usage:
        program.answer(PATIENCE)
    assert usage.cpu_seconds >= 0.3
    assert usage.peak_bytes >= 50_000_000
    with watch(program.session) as idle:
        pass
    assert idle.cpu_seconds < 0.3, "what was used before it was watched does not count"

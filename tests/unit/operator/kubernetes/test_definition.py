"""Without the resource's definition there is nothing to do: the process waits a while, says so, and ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkasparkjob_operator import __main__ as program
from kafkasparkjob_operator.kubernetes.definition import DefinitionMissing, await_definition
from kafkasparkjob_operator.kubernetes.port import ClusterError


class Server:
    """Answers one after the other, and the last one again and again."""

    def __init__(self, *answers: bool | ClusterError) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def served(self) -> bool:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if isinstance(answer, ClusterError):
            raise answer
        return answer


async def test_a_definition_that_comes_late_is_waited_for() -> None:
    server = Server(ClusterError("no answer"), False, True)
    assert await await_definition(server.served, asyncio.Event(), seconds=5, pause=0.001)
    assert server.asked == 3


async def test_a_definition_that_does_not_come_ends_the_process() -> None:
    with pytest.raises(DefinitionMissing, match="does not serve kafkasparkjobs") as caught:
        await await_definition(Server(False).served, asyncio.Event(), seconds=0.05, pause=0.01)
    assert "kubectl apply -f crds/kafkasparkjobs.yaml" in caught.value.remedy


async def test_an_api_server_that_is_away_is_waited_for_without_end() -> None:
    stop = asyncio.Event()
    waiting = asyncio.ensure_future(await_definition(Server(ClusterError("away")).served, stop, seconds=0, pause=0.001))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    stop.set()
    assert await waiting is False


def test_the_program_says_what_to_do(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def run(_: Any) -> None:
        raise DefinitionMissing("it is not there")

    monkeypatch.setattr(program, "run", run)
    assert program.main() == 1
    assert "it is not there; install it: kubectl apply" in caplog.text

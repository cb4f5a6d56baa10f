"""Rounds of stories: one ensemble for some of them, one outage for each."""

from __future__ import annotations

import faulthandler
import itertools
import tempfile
import threading
import time
import traceback
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from confluent_kafka.admin import AdminClient

from sparkapp.clients.transactions.client import TransactionClient
from tests.soak.kinds import Kind
from tests.soak.nemesis.meeting import Meeting, Seat
from tests.soak.nemesis.plan import ROUNDS, Outage, Plan, ground_of, outage_of, plan_of, round_of
from tests.soak.nemesis.play import Play
from tests.support.kafka.idempotent_producer import idempotent_producer
from tests.support.kafka.three_brokers import Ensemble
from tests.support.protocol.log_verdict import open_in_groups, verdict_of

_MEETING_SECONDS = 240.0
_ROUND_SECONDS = 420.0


def run_rounds(seeds: Iterable[int], kinds: Sequence[Kind], until: float) -> Iterator[tuple[int, str]]:
    """Each seed with its trace, which is empty for a clean story.

    :param until: when no further round begins, by the monotonic clock.
    """
    run = uuid.uuid4().hex[:6]
    for _, of_ensemble in itertools.groupby(seeds, lambda seed: round_of(seed) // ROUNDS):
        rounds = [list(group) for _, group in itertools.groupby(of_ensemble, round_of)]
        if time.monotonic() > until:
            return
        layout = ground_of(round_of(rounds[0][0])).layout
        with tempfile.TemporaryDirectory() as folder, Ensemble(Path(folder), layout) as ensemble:
            for of_round in rounds:
                if time.monotonic() > until:
                    break
                yield from _Round(ensemble, [plan_of(seed, kinds) for seed in of_round], run).run()
            idempotent_producer.cache_clear()


class _Round:
    """Stories that one outage strikes."""

    def __init__(self, ensemble: Ensemble, plans: Sequence[Plan], run: str) -> None:
        self._ensemble = ensemble
        self._prefixes = {plan: plan.prefix(run) for plan in plans}
        self._meeting = Meeting(len(plans))
        self._traces: dict[int, str] = {}

    def run(self) -> list[tuple[int, str]]:
        """Every seed with its trace."""
        outage = outage_of(round_of(next(iter(self._prefixes)).seed))
        topics = [topic for plan, prefix in self._prefixes.items() for topic in plan.topics(prefix)]
        self._ensemble.make_topics(*topics)
        threads = [threading.Thread(target=self._play, args=each, daemon=True) for each in self._prefixes.items()]
        for thread in threads:
            thread.start()
        self._strike(outage)
        deadline = time.monotonic() + _ROUND_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            faulthandler.dump_traceback()
        for plan in self._prefixes:
            self._traces.setdefault(plan.seed, f"the story does not end: {plan}")
        left = open_in_groups(self._ensemble)
        if left and not any(self._traces.values()):
            # Of no story that failed, so it is what one of these has left.
            self._traces[next(iter(self._traces))] = f"behind a round of clean stories, {left}"
        admin = AdminClient({"bootstrap.servers": self._ensemble.bootstrap})
        for answer in admin.delete_topics([topic.topic for topic in topics]).values():
            answer.result(60)
        return sorted(self._traces.items())

    def _strike(self, outage: Outage) -> None:
        try:
            met, nodes = self._meeting.await_all(_MEETING_SECONDS), outage.nodes
            print(f"{met} of {len(self._prefixes)} stories are at their moments: {outage}", flush=True)
            if outage.behind is not None:
                self._meeting.release()
                time.sleep(outage.behind)
            if outage.freezes:
                self._ensemble.freeze(*nodes)
            else:
                self._ensemble.kill(*nodes)
            if not self._ensemble.is_lost(nodes):
                self._ensemble.await_gone(*nodes)
                self._meeting.release()
                time.sleep(outage.seconds)
            self._ensemble.thaw(*nodes)
            self._ensemble.restart_brokers()
            self._ensemble.settle()
        finally:
            self._meeting.end()

    def _play(self, plan: Plan, prefix: str) -> None:
        seat = Seat(self._meeting)
        client = TransactionClient({"bootstrap.servers": self._ensemble.bootstrap})
        with closing(client):
            play = Play(plan, self._ensemble.bootstrap, prefix, client, seat)
            trace = ""
            try:
                play.run()
            except Exception:
                trace = traceback.format_exc()
            finally:
                seat.give_up()
            try:
                verdict = verdict_of(self._ensemble, play.story)
            except Exception:
                verdict = traceback.format_exc()
            if trace or verdict:
                history = "\n".join(play.story.history)
                trace = f"{trace}\nthe logs: {verdict or 'nothing lost, twice or open'}\n{history}"
            self._traces[plan.seed] = trace

"""Changes the number of subtasks of the running attempt, between two checkpoints (ADR 57)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sparkapp.model.report import Scale
from sparkapp.spark.engine.continuous.control_server import ControlServer
from sparkapp.spark.engine.continuous.pipeline import CheckpointPipeline
from sparkapp.spark.engine.continuous.places import SubtaskPlaces
from sparkapp.spark.engine.continuous.subtasks import Subtasks
from sparkapp.spark.launch.session import Spark, release_executors, request_executors

LOG = logging.getLogger(__name__)


class Rescaling:
    """Made by the continuous engine, which calls :meth:`advance` in its loop.

    The present subtasks write on until every added subtask is connected. Only then the next checkpoint waits until
    nothing runs, and begins with the other parallelism. The rescale does not wait for a present subtask that is lost.
    Others do its work meanwhile (ADR 60). It may get a place only when a surplus subtask ends.

    :param wanted: the parallelism that the operator asks for; None before it has asked.
    :param places: makes the check of that number of subtasks.
    :param report: gets fields of the driver's report.
    :ivar places: the check of the subtasks that are connected, or are to be.
    :ivar holds_back: whether the next checkpoint waits for the other parallelism.
    """

    def __init__(
        self,
        *,
        wanted: Callable[[], Scale | None],
        spark: Spark,
        server: ControlServer,
        subtasks: Subtasks,
        pipeline: CheckpointPipeline,
        places: Callable[[int], SubtaskPlaces],
        report: Callable[..., None],
    ) -> None:
        self.holds_back = False
        self._wanted = wanted
        self._spark = spark
        self._server = server
        self._subtasks = subtasks
        self._pipeline = pipeline
        self._make_places = places
        self.places = places(pipeline.parallelism)
        self._report = report
        self._scale: Scale | None = None
        self._has_surplus = False

    @property
    def parallelism(self) -> int:
        """Of the next checkpoint."""
        return self._pipeline.parallelism

    def advance(self) -> None:
        """Takes the next step to the wanted parallelism, if there is one; never waits for a subtask.

        :raises CheckpointError: of the document.
        """
        scale = self._wanted()
        if scale is not None:
            if scale != self._scale:
                self._take(scale)
            self._end_unused(scale)
            ready, added = self._server.ready, range(self.parallelism, scale.parallelism)
            self.holds_back = scale.parallelism != self.parallelism and ready.issuperset(added)
            if self.holds_back and self._pipeline.oldest is None:
                self._change(scale.parallelism)
            elif self._has_surplus and ready == set(range(self.parallelism)) and not self._server.ending:
                release_executors(self._spark, used=self._server.executors, keep=scale.executors)
                self._has_surplus = False

    def _take(self, scale: Scale) -> None:
        self._scale = scale
        self._report(rescaling=scale.parallelism)
        if scale.parallelism > self._subtasks.count:
            LOG.info("subtasks %d to %d are started", self._subtasks.count, scale.parallelism - 1)
            request_executors(self._spark, scale.executors)
            self._subtasks.start(scale.parallelism)
        self.places = self._make_places(max(scale.parallelism, self.parallelism))

    def _end_unused(self, scale: Scale) -> None:
        used = max(scale.parallelism, self.parallelism)
        unused = range(used, self._subtasks.count)
        if unused and self._server.end(unused, wave=self._subtasks.next_wave):
            self._subtasks.withdraw(used)
            self._has_surplus = True
        self._subtasks.cancel_withdrawn(self._server.ending)

    def _change(self, parallelism: int) -> None:
        before = self.parallelism
        self._pipeline.rescale(parallelism)
        LOG.info("rescaled in place from %d to %d subtasks", before, parallelism)
        self.holds_back = False
        self.places = self._make_places(parallelism)
        self._report(parallelism=parallelism)

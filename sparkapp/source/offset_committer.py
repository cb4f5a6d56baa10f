"""Commits group offsets outside the subtasks' transactions: one commit under way, the newest wins (case S37)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping
from typing import Protocol

from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.offset_commit import OffsetSender, Refusal
from sparkapp.model.partition import TopicPartition

LOG = logging.getLogger(__name__)

_AGAIN_SECONDS = 60.0
"""Pause before refused offsets are committed again, where no checkpoint commits newer offsets."""
_PLACE_SECONDS = 30.0
_PAUSE = 0.2


class OffsetCommitCallback(Protocol):
    """Receives the result of each commit, in the committer's thread (counted as in Flink's OffsetCommitCallback)."""

    def on_complete(self, offsets: Mapping[TopicPartition, int], error: str) -> None:
        """A commit has its answer.

        :param offsets: committed offsets; without refused partitions.
        :param error: why all or some partitions were refused, else empty.
        """
        ...


class OffsetCommitter:
    """Commits offsets after each completed checkpoint, in its own thread.

    A failed commit never fails the job: a restart reads the checkpoint, and the group's offsets are for people and
    tools. While a commit is under way, newer offsets replace waiting offsets. The next commit repeats offsets of a
    failed commit, unless newer offsets exist.

    :param sender: commits the offsets; closed with this.
    """

    def __init__(self, sender: OffsetSender, callback: OffsetCommitCallback) -> None:
        self._sender = sender
        self._sending = threading.Lock()
        self._callback = callback
        self._condition = threading.Condition()
        self._waiting: dict[TopicPartition, int] = {}
        self._refused: dict[TopicPartition, int] = {}
        """Offsets of failed commits."""
        self._mark = ""
        self._busy = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="offset-committer", daemon=True)
        self._thread.start()

    def commit(self, offsets: Mapping[TopicPartition, int], mark: str = "") -> None:
        """Takes offsets and returns at once.

        :param mark: text that is stored with them (``commit_outcome.offset_mark``).
        """
        with self._condition:
            self._waiting.update(offsets)
            self._mark = mark
            self._condition.notify_all()

    def place(self, offsets: Mapping[TopicPartition, int], mark: str) -> None:
        """Commits in the caller's thread with retries: marks that are evidence, before anything is read.

        :raises KafkaAccessError: any of them was refused, or no coordinator answered.
        :raises CheckpointConflict: another attempt owns the job.
        """
        deadline = Deadline.after(_PLACE_SECONDS)
        refused = self._send(offsets, mark)
        while refused and all(refusal.may_pass for refusal in refused.values()) and not deadline.expired:
            time.sleep(deadline.bound(_PAUSE))
            refused = self._send(offsets, mark)
        for refusal in refused.values():
            raise refusal.error

    def withdraw(self, partitions: Collection[TopicPartition], timeout: float) -> bool:
        """Waits until the commits of the partitions' offsets are over, and forgets offsets that were refused.

        Called before a transaction takes offsets of the same partitions, so that no older offset follows them. Waiting
        offsets are committed and not forgotten. In a pipeline that shuffles no transaction has offsets, and the mark of
        the waiting offsets alone shows a state that is rolled back.

        :returns: False if a commit waits or is under way after ``timeout`` seconds; nothing is forgotten then.
        """
        wanted = set(partitions)
        with self._condition:
            if not self._condition.wait_for(lambda: not (self._busy or wanted & self._waiting.keys()), timeout):
                return False
            for partition in wanted:
                self._refused.pop(partition, None)
            return True

    def drain(self, timeout: float) -> bool:
        """Waits until every offset is committed, or refused once more; for an orderly stop.

        :returns: whether every offset is committed.
        """
        deadline = Deadline.after(timeout)
        with self._condition:
            self._condition.wait_for(lambda: not self._busy, deadline.bound(timeout))
            self._waiting = self._refused | self._waiting
            self._refused = {}
            self._condition.notify_all()
            is_over = self._condition.wait_for(lambda: not self._waiting and not self._busy, deadline.bound(timeout))
            return is_over and not self._refused

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._thread.join(timeout=10)
        if self._thread.is_alive():
            # librdkafka searches a group's coordinator for a minute; a close during a commit would end the process.
            LOG.warning("the last commit of group offsets did not end in time")
            return
        self._sender.close()

    def _run(self) -> None:
        while True:
            with self._condition:
                again = _AGAIN_SECONDS if self._refused else None
                self._condition.wait_for(lambda: self._waiting or self._closed, again)
                if self._closed and not self._waiting:
                    return
                offsets, mark = self._refused | self._waiting, self._mark
                if not offsets:
                    continue  # they were withdrawn
                self._waiting, self._refused, self._busy = {}, {}, True
            self._commit(offsets, mark)

    def _commit(self, offsets: Mapping[TopicPartition, int], mark: str) -> None:
        refused, done, text = dict(offsets), dict[TopicPartition, int](), ""
        try:
            errors = self._send(offsets, mark)
            done = {partition: offset for partition, offset in offsets.items() if partition not in errors}
            # A deleted partition would be refused for ever.
            refused = {partition: offsets[partition] for partition, refusal in errors.items() if not refusal.is_gone}
            if errors:
                partition, first = next(iter(errors.items()))
                text = f"{len(errors)} of {len(offsets)} partitions refused, {partition}: {first.error.message}"
                LOG.warning("committing group offsets failed (the job continues): %s; %s", text, first.error.remedy)
        except Exception as error:
            # The job continues after any error, and no caller may wait for this commit for ever.
            text = f"{type(error).__name__}: {error}"
            LOG.exception("committing group offsets failed (the job continues)")
        try:
            self._callback.on_complete(done, text)
        except Exception:
            LOG.exception("a commit of group offsets could not be counted")
        finally:
            with self._condition:
                self._refused = refused
                self._busy = False
                self._condition.notify_all()

    def _send(self, offsets: Mapping[TopicPartition, int], mark: str) -> Mapping[TopicPartition, Refusal]:
        with self._sending:
            return self._sender.send(offsets, mark)

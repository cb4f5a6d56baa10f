"""The job's member of a consumer group: joins, sends heartbeats, handles rebalances and commits, and never fetches.

A thread polls it, so that a long checkpoint does not exceed the poll interval; the client's own threads send the
heartbeats (KIP-62). Every callback and every commit runs in that thread, too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.clients.errors import error_for
from sparkapp.clients.security.oauth_token import with_token_callback
from sparkapp.model.errors import KafkaAccessError, KafkaSparkJobError, KafkaUnreachable
from sparkapp.model.job.group_membership import MembershipOptions
from sparkapp.model.partition import TopicPartition, named
from sparkapp.source.group.errors import Reaction, cause_of, reaction_to
from sparkapp.source.group.membership import GroupMembership

LOG = logging.getLogger(__name__)

_TICK = 0.1
"""Seconds between polls: the delay until a rebalance is noticed, or a refused commit is retried."""
_FLUSH_SECONDS = 10.0
"""Seconds of retries of a commit before partitions are given back."""
_LOOK_INTERVAL = 10.0
_LOOK_SECONDS = 0.05
_STRANDED_SECONDS = 30.0
"""Seconds without a broker after which the client counts as stranded (librdkafka issue 5301)."""


class KafkaGroupMember:
    """Keeps a :class:`GroupMembership` in step with the brokers; each driver has one from start to :meth:`close`.

    :param config: result of ``sparkapp.model.job.client.config.group_member_config``.
    :param finish_seconds: seconds that a revocation waits for the checkpoint under way; default: of the options.
    :param open_consumer: opens the client; replaced in unit tests.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        membership: GroupMembership,
        options: MembershipOptions,
        finish_seconds: float | None = None,
        open_consumer: Callable[[dict[str, Any]], Any] = Consumer,
    ) -> None:
        self._membership = membership
        self._cooperative = options.assignor.cooperative
        self._finish = options.finish_seconds if finish_seconds is None else finish_seconds
        self._topics: frozenset[str] = frozenset()
        self._looked = self._met_broker = time.monotonic()
        self._consumer = open_consumer({**with_token_callback(config), "error_cb": self._on_error})
        self._thread = threading.Thread(target=self._run, name="group-member", daemon=True)
        self._thread.start()

    @property
    def member_id(self) -> str:
        """The member id from the coordinator; empty outside the group."""
        return str(self._consumer.memberid() or "")

    def close(self) -> None:
        """Leaves the group, so that others take over at once; a static member's partitions wait for its session."""
        self._membership.close()
        self._thread.join(timeout=30)

    # -- the member's thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._membership.closing:
                self._follow_topics()
                self._poll()
                self._commit()
                self._look_for_brokers()
                self._membership.pause(_TICK)
            self._flush()
        except KafkaSparkJobError as error:
            self._fail(error)
        except KafkaException as error:
            self._fail(error_for(error.args[0], "membership of the consumer group"))
        except Exception as error:
            self._fail(KafkaAccessError(f"membership of the consumer group: {error!r}"))
        finally:
            self._consumer.close()

    def _fail(self, error: KafkaSparkJobError) -> None:
        LOG.error("the membership of the consumer group has ended: %s", error)
        self._membership.fail(error)

    def _follow_topics(self) -> None:
        wanted = self._membership.topics
        if wanted == self._topics:
            return
        self._topics = wanted
        if not wanted:
            self._consumer.unsubscribe()
            return
        self._consumer.subscribe(
            sorted(wanted), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _poll(self) -> None:
        message = self._consumer.poll(0)
        error = message.error() if message is not None else None
        if error is not None:
            self._on_error(error)

    def _look_for_brokers(self) -> None:
        """Detects a client without brokers, which has left the group without reporting it.

        :raises KafkaUnreachable: no broker for longer than a restart takes; the next attempt joins with a new client.
        """
        now = time.monotonic()
        if not self._topics or now - self._looked < _LOOK_INTERVAL:
            return
        self._looked = now
        try:
            self._consumer.list_topics(min(self._topics), timeout=_LOOK_SECONDS)
        except KafkaException as failure:
            if failure.args[0].code() == KafkaError._TRANSPORT and now - self._met_broker >= _STRANDED_SECONDS:
                msg = f"membership of the consumer group: no broker for {now - self._met_broker:.0f} s"
                raise KafkaUnreachable(msg) from failure
        else:
            self._met_broker = now

    def _on_error(self, reported: KafkaError) -> None:
        if self._membership.closing:
            return
        error = cause_of(reported)
        reaction = reaction_to(error)
        LOG.warning("consumer group: %s (%s): %s", error.name(), error.str(), reaction)
        if reaction is Reaction.FAIL:
            raise error_for(error, "membership of the consumer group")

    # -- rebalances, called by poll() and close() -----------------------------------------------------------------

    def _on_assign(self, consumer: Any, partitions: Sequence[ClientPartition]) -> None:
        # The offset saves a request for the committed offset. Other consumers read; this consumer is paused at once.
        assigned = [ClientPartition(partition.topic, partition.partition, 0) for partition in partitions]
        if self._cooperative:
            consumer.incremental_assign(assigned)
        else:
            consumer.assign(assigned)
        consumer.pause(assigned)
        self._membership.assigned(_ours(partitions))

    def _on_revoke(self, _: Any, partitions: Sequence[ClientPartition]) -> None:
        asked = _ours(partitions)
        self._commit()
        if not self._membership.await_finished(asked, self._finish):
            self._membership.lost(asked, f"the checkpoint under way did not complete within {self._finish:.0f} s")
            return
        self._flush()
        self._membership.revoked(asked)

    def _on_lost(self, _: Any, partitions: Sequence[ClientPartition]) -> None:
        self._membership.lost(_ours(partitions), "the session ended, or the group has rebalanced")

    # -- commits --------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Commits waiting offsets, and retries while the coordinator asks for a retry."""
        end = time.monotonic() + min(_FLUSH_SECONDS, self._finish)
        while self._commit() and time.monotonic() < end:
            time.sleep(_TICK)

    def _commit(self) -> bool:
        """Commits all waiting offsets once; True if the commit must be retried."""
        offsets = self._membership.due()
        if not offsets:
            return False
        try:
            self._send(offsets)
        except KafkaException as failure:
            error = cause_of(failure.args[0])
            reaction = reaction_to(error)
            again = reaction is Reaction.RETRY
            self._membership.not_committed(offsets, error.str(), again=again)
            LOG.warning("committing %s: %s (%s): %s", named(sorted(offsets)), error.name(), error.str(), reaction)
            if reaction is Reaction.FAIL:
                raise error_for(error, "committing offsets as a member of the consumer group") from failure
            return again
        self._membership.committed(offsets)
        return False

    def _send(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits with the member's id and generation, which the broker checks.

        :raises KafkaException: with the first error of the response.
        """
        if not self.member_id:
            # The session has ended, and the callback follows. Without a member id, the broker would accept the commit
            # into an empty group, as a commit of no member. Or it would fence a static member (librdkafka pull 5585).
            raise KafkaException(KafkaError(KafkaError._ASSIGNMENT_LOST))
        mark = self._membership.mark
        answer = self._consumer.commit(
            offsets=[ClientPartition(topic, number, offset, mark) for (topic, number), offset in offsets.items()],
            asynchronous=False,
        )
        for partition in answer:
            if partition.error is not None:
                raise KafkaException(partition.error)


def _ours(partitions: Sequence[ClientPartition]) -> list[TopicPartition]:
    return [TopicPartition(partition.topic, partition.partition) for partition in partitions]

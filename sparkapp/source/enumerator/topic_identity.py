"""Topic ids: tells a recreated topic from the topic of the checkpoint's offsets (KIP-516, ADR 26)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from sparkapp.clients.cluster_view import ClusterView
from sparkapp.model.errors import TopicRecreated
from sparkapp.model.errors.listed import listed
from sparkapp.model.job.sections.source import OnDataLoss

LOG = logging.getLogger(__name__)


class TopicIdentity:
    """Compares the topic ids of the checkpoint with those of the brokers; used by the enumerator, from its thread.

    :param policy: whether a recreated topic ends the attempt.
    """

    def __init__(self, cluster: ClusterView, policy: OnDataLoss) -> None:
        self._cluster = cluster
        self._fails = policy is OnDataLoss.FAIL
        self._known: dict[str, str] = {}
        self._told = False

    @property
    def ids(self) -> Mapping[str, str]:
        """For the checkpoint; topics whose id is not known are absent."""
        return dict(self._known)

    def restore(self, ids: Mapping[str, str]) -> None:
        """Sets the ids of the restored checkpoint; called before the first :meth:`recreated`."""
        self._known = dict(ids)

    def is_known(self, topic: str) -> bool:
        return topic in self._known

    def recreated(self, topics: Iterable[str]) -> frozenset[str]:
        """The topics whose id has changed; each is reported once, and has its new id from then on.

        Called at a start, at each discovery, and where a log ends before its offset. A topic without a known id gets
        its id here. A topic without an id on the brokers is never reported.

        :raises TopicRecreated: a topic was recreated, and the policy is Fail.
        :raises KafkaAccessError: the brokers do not answer.
        """
        wanted = sorted(set(topics))
        found = self._cluster.topic_ids(wanted)
        if len(found) < len(wanted) and not self._told:
            self._told = True
            LOG.warning(
                "the brokers have no ids for %d topics: a recreated topic is not detected", len(wanted) - len(found)
            )
        changed = sorted(topic for topic, new in found.items() if self._known.get(topic, new) != new)
        if changed and self._fails:
            shown = listed(f"{topic!r} (id {self._known[topic]}…, now {found[topic]}…)" for topic in changed)
            msg = f"topic {shown} was recreated: the checkpoint's offsets belong to the previous topic"
            raise TopicRecreated(msg)
        self._known |= found
        return frozenset(changed)

    def forget(self, topics: Iterable[str]) -> None:
        """Drops topics that are no longer read: a later topic of the name is new anyway."""
        for topic in topics:
            self._known.pop(topic, None)

"""Whether a topic is the one that the checkpoint's offsets are of, or another one of its name (KIP-516, ADR 26)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from sparkapp.model.errors import TopicRecreated
from sparkapp.model.job import DataLossPolicy
from sparkapp.source.cluster import ClusterView

LOG = logging.getLogger(__name__)

_SHOWN = 5


class TopicIdentity:
    """The topics' ids, as the checkpoint has them and as the brokers tell; used by the enumerator, from its thread.

    :param policy: what becomes of a job whose topic was recreated.
    """

    def __init__(self, cluster: ClusterView, policy: DataLossPolicy) -> None:
        self._cluster = cluster
        self._fails = policy is DataLossPolicy.FAIL
        self._known: dict[str, str] = {}
        self._told = False

    @property
    def ids(self) -> Mapping[str, str]:
        """For the checkpoint; topics whose id is not known are absent."""
        return dict(self._known)

    def restore(self, ids: Mapping[str, str]) -> None:
        """What the restored checkpoint says; before the first :meth:`recreated`."""
        self._known = dict(ids)

    def is_known(self, topic: str) -> bool:
        return topic in self._known

    def recreated(self, topics: Iterable[str]) -> frozenset[str]:
        """The topics whose id is another one than before; each is told once, and known by its new id from then on.

        Asked at a start, at each discovery, and where a log ends before its offset. A topic without a known id gets
        one, and one that the brokers give no id for is not judged.

        :raises TopicRecreated: there is one, and the job does not go on without the records of the former one.
        :raises KafkaAccessError: the brokers do not answer.
        """
        wanted = sorted(set(topics))
        found = self._cluster.topic_ids(wanted)
        if len(found) < len(wanted) and not self._told:
            self._told = True
            LOG.warning(
                "the brokers give no ids for %d topics: recreated ones are not noticed", len(wanted) - len(found)
            )
        changed = sorted(one for one, new in found.items() if self._known.get(one, new) != new)
        if changed and self._fails:
            shown = ", ".join(f"{one!r} (id {self._known[one]}…, now {found[one]}…)" for one in changed[:_SHOWN])
            more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
            msg = f"topic {shown}{more} was deleted and created again: the checkpoint's offsets are of the former one"
            raise TopicRecreated(msg)
        self._known |= found
        return frozenset(changed)

    def forget(self, topics: Iterable[str]) -> None:
        """Topics that are no longer read: what comes back under the name is new anyway."""
        for one in topics:
            self._known.pop(one, None)

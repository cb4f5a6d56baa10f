"""Makes a job's enumerator from its spec."""

from __future__ import annotations

from sparkapp.clients.cluster_view import ClusterView
from sparkapp.model.job.spec import JobSpec
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.enumerator.options import EnumeratorOptions
from sparkapp.source.enumerator.subscriber import subscriber_of
from sparkapp.source.group.membership import GroupMembership
from sparkapp.source.offsets_initializer import Warn, starting_initializer


def enumerator_of(
    spec: JobSpec, cluster: ClusterView, *, warn: Warn, membership: GroupMembership | None = None
) -> KafkaSourceEnumerator:
    """The enumerator of a job's source; called by the driver once an attempt."""
    return KafkaSourceEnumerator(
        cluster=cluster,
        subscriber=subscriber_of(spec.source),
        starting=starting_initializer(spec.source.startup, warn=warn),
        options=EnumeratorOptions.of(spec),
        warn=warn,
        membership=membership,
    )

"""The views of a job's clusters: one where source and sink are on one cluster."""

from __future__ import annotations

from dataclasses import dataclass

from sparkapp.checkpoint.recovery.cluster_identity import ClusterIds
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.model.job.client.config import OfClusters
from sparkapp.model.job.spec import Job


@dataclass(frozen=True, slots=True)
class JobClusters:
    """Opened once an attempt, by the wiring and by what settles a deleted job.

    :param source: has the source's topics. :param sink: has the sink's; the same view where the job has one cluster.
    """

    source: KafkaClusterView
    sink: KafkaClusterView

    @classmethod
    def opened(cls, job: Job, configs: OfClusters) -> JobClusters:
        """
        :param configs: of the job's clients. The caller closes the views.
        """
        reads_committed = configs.source["isolation.level"] == "read_committed"
        source = KafkaClusterView(configs.source, read_committed=reads_committed)
        if job.spec.sink.kafka is None:
            return cls(source, source)
        return cls(source, KafkaClusterView(configs.sink, read_committed=True))

    @property
    def are_shared(self) -> bool:
        """Whether source and sink are on one cluster."""
        return self.sink is self.source

    @property
    def ids(self) -> ClusterIds:
        """
        :raises KafkaAccessError: no broker answered.
        """
        return ClusterIds(self.source.cluster_id(), self.sink.cluster_id())

    def close(self) -> None:
        """Ends the clients."""
        self.source.close()
        if not self.are_shared:
            self.sink.close()

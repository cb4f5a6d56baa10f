"""The cost of encryption: between Spark's processes, and between the job and its brokers, in interleaved rounds.

    PYTHONPATH=dev python -m bench.encryption_cost --rounds 7

One broker with a plain and a TLS listener, and the same records for all. Each session has two executors in processes
of their own (``local-cluster``). A round has a session without and a session with Spark's encryption, in
alternating order, so that drift favours neither. A *copy* sends no record between executors; a *shuffle* sends half of
all records, which are not compressed. Each ratio is of two runs of one round. The first micro-batch is not counted.
"""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bench.spread import PairedRatio, alternating
from bench.topic_copy import Run, TopicCopy, interleaved
from localcluster.kafka.distribution import THROUGHPUT
from sparkapp.dataplane.batch import implementation
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.job.client.security_properties import DIRECTORY_VARIABLE
from sparkapp.model.job.spark_settings import AUTHENTICATION, ENCRYPTED
from tests.support.jobs.spark_home import unzipped_spark_home
from tests.support.kafka.tls.broker import TlsBroker

COMPARED = (
    ("Spark's encryption, copy", "encrypted copy", "copy"),
    ("Spark's encryption, shuffle", "encrypted shuffle", "shuffle"),
    ("TLS to Kafka, copy", "copy over TLS", "copy"),
)
"""What is printed: a name, the runs that are judged, and the runs that they are compared with."""


def main() -> int:
    """Runs the bench of the options and prints the ratios; the exit status does not judge them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a record")
    parser.add_argument("--batch", type=int, default=200_000, help="records of a micro-batch")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    os.environ["SPARK_HOME"] = str(unzipped_spark_home())
    with (
        tempfile.TemporaryDirectory() as folder,
        TlsBroker(Path(folder), heap="1g", options=THROUGHPUT) as broker,
    ):
        return Bench(options, broker).run()


class Bench:
    """All rounds."""

    def __init__(self, options: argparse.Namespace, broker: TlsBroker) -> None:
        self.options = options
        plain = TopicCopy(
            bootstrap=broker.bootstrap, records=options.records, size=options.size, partitions=4, parallelism=2
        )
        cluster = broker.cluster("tls")
        # Executors inherit it from the driver's JVM.
        os.environ[DIRECTORY_VARIABLE] = str(broker.mounted(cluster))
        over_tls = replace(plain, kafka=cluster)
        query = "SELECT /*+ REPARTITION(2, value) */ key, value FROM source"
        self.plain = plain
        shuffled = replace(plain, query=query)
        self.runs = {
            False: {"copy": plain, "shuffle": shuffled, "copy over TLS": over_tls},
            True: {"encrypted copy": plain, "encrypted shuffle": shuffled},
        }

    def run(self) -> int:
        """Runs each session once a round; returns the exit status."""
        o = self.options
        print(
            f"{o.records:,} records of {o.size} bytes, local-cluster[2,1], {o.batch:,} a micro-batch,"
            f" {o.rounds} rounds; batch path: {implementation()}"
        )
        source = self.plain.topic()
        self.plain.load(source)
        runs = interleaved(self.round(source, order) for order in alternating(o.rounds, True, False))
        rates = {name: [run.warm for run in found] for name, found in runs.items()}
        for title, judged, base in COMPARED:
            ratio = PairedRatio.of(list(zip(rates[judged], rates[base], strict=True)))
            print(
                f"{title:28} median {ratio.median:.2f}, {min(ratio.ratios):.2f} to {max(ratio.ratios):.2f},"
                f" mean {ratio.mean:.2f} ± {ratio.error:.2f}; {statistics.median(rates[judged]):,.0f}/s"
                f" against {statistics.median(rates[base]):,.0f}/s"
            )
        return 0

    def round(self, source: str, order: Sequence[bool]) -> Iterator[tuple[str, Run]]:
        """A session for each item of ``order``; True stands for Spark's encryption."""
        for encrypted in order:
            spark = self.plain.session(**settings(encrypted=encrypted))
            for name, copy in self.runs[encrypted].items():
                yield name, copy.run(spark, source, DeliveryGuarantee.EXACTLY_ONCE, batch=self.options.batch)
            spark.stop()


def settings(*, encrypted: bool) -> dict[str, str]:
    """The settings of a session with two executors."""
    # Spark takes the secret from a file on Kubernetes only.
    protected = {AUTHENTICATION: "true", f"{AUTHENTICATION}.secret": secrets.token_urlsafe(32), **ENCRYPTED}
    return {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.executor.memory": "1g",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        # Executors of one machine would read each other's files.
        "spark.shuffle.readHostLocalDisk": "false",
        "spark.shuffle.compress": "false",
        # A machine with other load starts Python slowly.
        "spark.python.authenticate.socketTimeout": "120s",
        **(protected if encrypted else {}),
    }


if __name__ == "__main__":
    sys.exit(main())

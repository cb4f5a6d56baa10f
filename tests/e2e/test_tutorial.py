"""The tutorials in the cluster: jobs are applied, read, killed, rescaled and looked at, by the pages' own commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.e2e.conftest import MakeClusterJob
from tests.support.jobs.local_job import ROOT
from tests.support.tutorial import TUTORIAL, TUTORIAL_OF_STATE, Reader


@contextmanager
def reader_of(page: Path, make_cluster_job: MakeClusterJob, folder: Path, *, done: Sequence[int]) -> Iterator[Reader]:
    """A reader whose shell has a namespace of its own, and whose topics are deleted behind the block.

    :param done: sections that the reader has done, before the topics of the job get names of the test's own.
    """
    cluster_job = make_cluster_job("tutorial")
    environment, namespace = cluster_job.environment, cluster_job.namespace
    kubeconfig = yaml.safe_load(Path(environment.kubeconfig).read_text(encoding="utf-8"))
    for context in kubeconfig["contexts"]:
        context["context"]["namespace"] = namespace
    (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    reader = Reader(page, folder, {
        "KUBECONFIG": str(folder / "kubeconfig"), "KAFKASPARK_BOOTSTRAP": environment.bootstrap,
        "KAFKASPARK_BOOTSTRAP_PODS": environment.bootstrap_pods, "PYTHONPATH": f"{ROOT}:{ROOT / 'operator'}",
    })  # fmt: skip
    (folder / "bin/kubectl").symlink_to(environment.kubectl)
    for number in done:
        reader.does(number)
    # Topics are the cluster's, and another run may have left some.
    source, sink = f"{namespace}-orders", f"{namespace}-orders-out"
    reader.edits("job.yaml", "topics: [orders]", f"topics: [{source}]")
    reader.edits("job.yaml", "topic: orders-out", f"topic: {sink}")
    reader.replaces({
        "topic create orders ": f"topic create {source} ", "topic create orders-out ": f"topic create {sink} ",
        "topic produce orders": f"topic produce {source}", "written to orders": f"written to {source}",
        "topic tail orders-out ": f"topic tail {sink} ",
    })  # fmt: skip
    try:
        yield reader
    finally:
        cluster_job.topics.delete([source, sink])


def test_the_commands_print_what_the_page_shows(make_cluster_job: MakeClusterJob, tmp_path: Path) -> None:
    with reader_of(TUTORIAL, make_cluster_job, tmp_path, done=[2]) as reader:
        reader.edits("job.yaml", "BROKER:9092", reader.variables["KAFKASPARK_BOOTSTRAP_PODS"])
        reader.writes_files_of(4)
        reader.does(7)
        reader.does(8)


def test_state_is_killed_divided_and_looked_at(make_cluster_job: MakeClusterJob, tmp_path: Path) -> None:
    with reader_of(TUTORIAL_OF_STATE, make_cluster_job, tmp_path, done=[2, 3]) as reader:
        for number in (4, 5, 6, 7, 8):
            reader.does(number)

"""docs/tutorial.md in the cluster: the job is applied, read, rescaled and looked at, by the page's own commands."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.e2e.conftest import MakeClusterJob
from tests.support.jobs.local_job import ROOT
from tests.support.tutorial import Reader


def test_the_commands_print_what_the_page_shows(make_cluster_job: MakeClusterJob, tmp_path: Path) -> None:
    cluster_job = make_cluster_job("tutorial")
    environment, namespace = cluster_job.environment, cluster_job.namespace
    kubeconfig = yaml.safe_load(Path(environment.kubeconfig).read_text(encoding="utf-8"))
    for context in kubeconfig["contexts"]:
        context["context"]["namespace"] = namespace
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    variables = {
        "KUBECONFIG": str(tmp_path / "kubeconfig"), "KAFKASPARK_BOOTSTRAP": environment.bootstrap,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'operator'}",
    }  # fmt: skip
    reader = Reader(tmp_path, variables, {})
    (tmp_path / "bin/kubectl").symlink_to(environment.kubectl)
    reader.does(2)
    # Topics are the cluster's, and another run may have left some.
    source, sink = f"{namespace}-orders", f"{namespace}-orders-out"
    reader.edits("job.yaml", "topics: [orders]", f"topics: [{source}]")
    reader.edits("job.yaml", "topic: orders-out", f"topic: {sink}")
    reader.edits("job.yaml", "BROKER:9092", environment.bootstrap_pods)
    reader.replaces({
        "topic create orders ": f"topic create {source} ", "topic create orders-out ": f"topic create {sink} ",
        "topic produce orders ": f"topic produce {source} ", "written to orders": f"written to {source}",
        "topic tail orders-out ": f"topic tail {sink} ",
    })  # fmt: skip
    try:
        reader.writes_files_of(4)
        reader.does(7)
        reader.does(8)
    finally:
        cluster_job.topics.delete([source, sink])

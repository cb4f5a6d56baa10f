"""The context guard: whatever a person's kubectl is set to, only the local cluster is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterjob.environment import ClusterEnvironment
from clusterjob.kubectl import Kubectl
from localcluster.errors import SetupError

KUBECONFIG = """
clusters:
- cluster:
    server: https://{host}:16443
  name: local
"""


def environment(folder: Path, *, host: str = "127.0.0.1", kafka: str = "127.0.0.1:19092") -> ClusterEnvironment:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(host=host))
    return ClusterEnvironment.of(
        {
            "KUBECONFIG": str(kubeconfig),
            "KAFKASPARK_KUBECTL": "/bin/kubectl",
            "KAFKASPARK_HELM": "/bin/helm",
            "KAFKASPARK_BOOTSTRAP": kafka,
            "KAFKASPARK_BOOTSTRAP_PODS": "10.88.0.1:19094",
            "KAFKASPARK_LOGS": str(folder),
            "KAFKASPARK_NETWORK_POLICIES": "enforced",
        },
        source="cluster.env",
    )


def test_a_cluster_on_this_machine_is_accepted(tmp_path: Path) -> None:
    environment(tmp_path).refuse_foreign_cluster()


def test_a_cluster_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"is not on this machine: https://10\.1\.2\.3:16443"):
        environment(tmp_path, host="10.1.2.3").refuse_foreign_cluster()


def test_a_broker_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="not on this machine"):
        environment(tmp_path, kafka="broker.example:9092").refuse_foreign_cluster()


def test_json_kubeconfigs_are_understood(tmp_path: Path) -> None:
    found = environment(tmp_path)
    found.kubeconfig.write_text('{"clusters": [\n {"cluster": {\n  "server": "https://10.1.2.3:6443",\n }}]}')
    with pytest.raises(SetupError, match="not on this machine"):
        found.refuse_foreign_cluster()


def test_a_kubeconfig_without_server_is_refused(tmp_path: Path) -> None:
    found = environment(tmp_path)
    found.kubeconfig.write_text("")
    with pytest.raises(SetupError, match="names no API server"):
        found.refuse_foreign_cluster()


def test_missing_values_say_how_to_start_the_cluster() -> None:
    with pytest.raises(SetupError) as caught:
        ClusterEnvironment.of({}, source="cluster.env")
    assert "make cluster-up" in caught.value.report()


def test_every_command_names_the_kubeconfig(tmp_path: Path) -> None:
    found = environment(tmp_path)
    command = Kubectl(found, "demo").command("get", "pods")
    assert command == ["/bin/kubectl", f"--kubeconfig={tmp_path}/kubeconfig", "--namespace=demo", "get", "pods"]
    assert found.process_environment()["KUBECONFIG"] == str(tmp_path / "kubeconfig")

"""etcd, the API server, the controller manager and the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.kubernetes.kube_api import KubeApi
from localcluster.kubernetes.pki import Authority, Certificate, write_kubeconfig
from localcluster.machine.processes import Daemons
from localcluster.machine.waiting import wait_for
from localcluster.settings import NETWORK, NODE_NAME, Settings

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_API_SERVER_NAMES = (
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
    "DNS:localhost",
    "IP:127.0.0.1",
    f"IP:{NETWORK.kubernetes_service_ip}",
    f"IP:{NETWORK.node_ip}",
)


@dataclass(frozen=True)
class Credentials:
    """The certificates and kubeconfigs of the cluster's components, created by :func:`make_credentials`."""

    authority: Certificate
    api_server: Certificate
    api_server_as_client: Certificate
    service_accounts: Certificate
    kubelet: Certificate
    kubelet_kubeconfig: Path
    proxy_kubeconfig: Path
    router_kubeconfig: Path
    scheduler_kubeconfig: Path
    controller_manager_kubeconfig: Path


def make_credentials(settings: Settings) -> Credentials:
    """Creates the missing keys, certificates and kubeconfigs.

    :raises SetupError: openssl is missing or failed.
    """
    authority = Authority(settings.pki, settings.logs / "openssl.log")

    def kubeconfig(path: Path, name: str, subject: str) -> Path:
        if not path.exists():
            write_kubeconfig(path, NETWORK.api_url, authority.pair, authority.issue(name, subject))
        return path

    def component(name: str) -> Path:
        return kubeconfig(settings.pki / f"{name}.kubeconfig", name, f"/CN=system:{name}")

    kubelet = authority.issue(
        "kubelet", f"/O=system:nodes/CN=system:node:{NODE_NAME}", [f"DNS:{NODE_NAME}", f"IP:{NETWORK.node_ip}"]
    )
    kubelet_kubeconfig = settings.pki / "kubelet.kubeconfig"
    write_kubeconfig(kubelet_kubeconfig, NETWORK.api_url, authority.pair, kubelet)
    kubeconfig(settings.kubeconfig, "admin", "/O=system:masters/CN=admin")  # for the cluster's users
    return Credentials(
        authority=authority.pair,
        api_server=authority.issue("kube-apiserver", "/CN=kube-apiserver", _API_SERVER_NAMES),
        api_server_as_client=authority.issue("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client"),
        service_accounts=authority.signing_key("service-accounts"),
        kubelet=kubelet,
        kubelet_kubeconfig=kubelet_kubeconfig,
        proxy_kubeconfig=component("kube-proxy"),
        # Kubernetes has no role for it. It lists every pod, namespace and policy.
        router_kubeconfig=kubeconfig(
            settings.pki / "kube-router.kubeconfig", "kube-router", "/O=system:masters/CN=kube-router"
        ),
        scheduler_kubeconfig=component("kube-scheduler"),
        controller_manager_kubeconfig=component("kube-controller-manager"),
    )


def start(settings: Settings, daemons: Daemons, credentials: Credentials) -> None:
    """Starts the processes that do not run, and waits until the API server is ready.

    :raises SetupError: a process ended, or the API server was not ready in time.
    """
    programs = settings.programs
    daemons.start("etcd", [programs / "etcd", *_etcd_flags(settings)])
    api_server = daemons.start(
        "kube-apiserver", [programs / "kube-apiserver", *_api_server_flags(settings, credentials)]
    )
    api = KubeApi(NETWORK.api_url, settings.pki)
    wait_for(
        "the API server is ready",
        api.is_ready,
        seconds=240,
        process=api_server,
        log=daemons.log("kube-apiserver"),
        hint=f"read {daemons.log('etcd')}, too; check that no other program listens at port {NETWORK.api_port}",
    )
    # These two exit if the API server does not answer, so they start after it.
    daemons.start(
        "kube-controller-manager",
        [programs / "kube-controller-manager", *_controller_manager_flags(credentials)],
    )
    daemons.start("kube-scheduler", [programs / "kube-scheduler", *_scheduler_flags(credentials)])
    if daemons.running("etcd") is None:
        raise SetupError("etcd ended", log=daemons.log("etcd"))


def stop(daemons: Daemons) -> None:
    """Stops all four processes, the clients of the API server first."""
    for name in reversed(NAMES):
        daemons.stop(name)


def _etcd_flags(settings: Settings) -> list[str]:
    client = f"http://127.0.0.1:{NETWORK.etcd_client_port}"
    peer = f"http://127.0.0.1:{NETWORK.etcd_peer_port}"
    return [
        f"--data-dir={settings.state / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # a test cluster may lose its last writes when the machine loses power
        "--log-level=warn",
    ]


def _api_server_flags(settings: Settings, credentials: Credentials) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{NETWORK.etcd_client_port}",
        f"--secure-port={NETWORK.api_port}",
        f"--advertise-address={NETWORK.node_ip}",
        f"--tls-cert-file={credentials.api_server.certificate}",
        f"--tls-private-key-file={credentials.api_server.key}",
        f"--cert-dir={settings.pki}",
        f"--client-ca-file={credentials.authority.certificate}",
        f"--service-account-key-file={credentials.service_accounts.certificate}",
        f"--service-account-signing-key-file={credentials.service_accounts.key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={NETWORK.service_cidr}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--anonymous-auth=false",
        "--allow-privileged=true",
        "--profiling=false",
        f"--kubelet-client-certificate={credentials.api_server_as_client.certificate}",
        f"--kubelet-client-key={credentials.api_server_as_client.key}",
        f"--kubelet-certificate-authority={credentials.authority.certificate}",
        "--kubelet-preferred-address-types=InternalIP",
        "--endpoint-reconciler-type=lease",
    ]


def _controller_manager_flags(credentials: Credentials) -> list[str]:
    kubeconfig = credentials.controller_manager_kubeconfig
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={credentials.service_accounts.key}",
        f"--root-ca-file={credentials.authority.certificate}",
        f"--cluster-signing-cert-file={credentials.authority.certificate}",
        f"--cluster-signing-key-file={credentials.authority.key}",
        "--use-service-account-credentials=true",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",  # a single process: a lease would only delay its start after a crash
        "--profiling=false",
    ]


def _scheduler_flags(credentials: Credentials) -> list[str]:
    kubeconfig = credentials.scheduler_kubeconfig
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--profiling=false",
    ]

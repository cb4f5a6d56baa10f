"""kube-proxy: forwards service addresses to pods and to the API server."""

from __future__ import annotations

import json

from localcluster.kubernetes.control_plane import Credentials
from localcluster.machine import network
from localcluster.machine.processes import Daemons
from localcluster.settings import NETWORK, NODE_NAME, Settings

NAME = "kube-proxy"


def start(settings: Settings, daemons: Daemons, credentials: Credentials) -> None:
    """Starts kube-proxy. Nothing waits for it, because clients retry connections that are too early."""
    configuration = settings.state / "kube-proxy.json"
    configuration.write_text(json.dumps(_configuration(credentials), indent=1))
    daemons.start(NAME, [settings.programs / "kube-proxy", f"--config={configuration}"])


def stop(daemons: Daemons) -> None:
    """Stops kube-proxy. :func:`localcluster.machine.network.tear_down` removes its rules."""
    daemons.stop(NAME)


def _configuration(credentials: Credentials) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": NODE_NAME,
        "bindAddress": NETWORK.node_ip,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "clientConnection": {"kubeconfig": str(credentials.proxy_kubeconfig)},
        "clusterCIDR": NETWORK.pod_cidr,
        "nodePortAddresses": [NETWORK.pod_cidr],  # never on an address that other machines can reach
        "iptables": {
            "localhostNodePorts": False,
            "masqueradeAll": not network.filter_bridged_traffic(),
            "minSyncPeriod": "100ms",
        },
        # Zero: kube-proxy does not change the machine's connection tracking.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }

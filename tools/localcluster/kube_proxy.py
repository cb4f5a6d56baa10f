"""kube-proxy: makes service addresses lead to pods, and to the API server."""

from __future__ import annotations

import json

from localcluster import network
from localcluster.control_plane import Credentials
from localcluster.processes import Daemons
from localcluster.settings import NETWORK, NODE_NAME, Settings

NAME = "kube-proxy"


def start(settings: Settings, daemons: Daemons, credentials: Credentials) -> None:
    """Starts kube-proxy; it needs no waiting for, a connection that comes too early is tried again."""
    configuration = settings.state / "kube-proxy.json"
    configuration.write_text(json.dumps(_configuration(credentials), indent=1))
    daemons.start(NAME, [settings.programs / "kube-proxy", f"--config={configuration}"])


def stop(daemons: Daemons) -> None:
    """Stops kube-proxy; its rules go with :func:`localcluster.network.tear_down`."""
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
        "nodePortAddresses": [NETWORK.pod_cidr],  # never on an address that others can reach
        "iptables": {
            "localhostNodePorts": False,
            "masqueradeAll": not network.let_bridged_traffic_meet_the_firewall(),
            "minSyncPeriod": "100ms",
        },
        # Zero: leave the machine's connection tracking as it is.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }

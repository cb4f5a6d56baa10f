"""kube-router: enforces NetworkPolicies. It routes nothing here, because the cluster has a single node."""

from __future__ import annotations

from localcluster.kubernetes.control_plane import Credentials
from localcluster.machine.processes import Daemons
from localcluster.settings import NETWORK, NODE_NAME, Settings

NAME = "kube-router"


def start(settings: Settings, daemons: Daemons, credentials: Credentials) -> None:
    """Starts kube-router after the node is known, because it ends without the node's address.

    Called only where :func:`localcluster.machine.network.can_enforce_policies` is true.
    """
    daemons.start(
        NAME,
        [
            settings.programs / NAME,
            f"--kubeconfig={credentials.router_kubeconfig}",
            f"--hostname-override={NODE_NAME}",
            f"--service-cluster-ip-range={NETWORK.service_cidr}",
            "--iptables-sync-period=1m",
        ],
    )


def stop(daemons: Daemons) -> None:
    """Stops kube-router. :func:`localcluster.machine.network.tear_down` removes its rules and address sets."""
    daemons.stop(NAME)

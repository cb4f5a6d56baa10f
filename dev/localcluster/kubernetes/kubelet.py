"""kubelet: the agent of the only node, this machine."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from localcluster.kubernetes.containerd import Containerd
from localcluster.kubernetes.control_plane import Credentials
from localcluster.kubernetes.kube_api import KubeApi
from localcluster.machine.processes import Daemons
from localcluster.machine.waiting import wait_for
from localcluster.settings import NETWORK, NODE_NAME, Settings

NAME = "kubelet"


def start(settings: Settings, daemons: Daemons, credentials: Credentials, containerd: Containerd) -> None:
    """Starts kubelet and waits until the node accepts pods.

    :raises SetupError: it ended, or the node was not ready in time.
    """
    root = settings.state / "kubelet"
    configuration = settings.state / "kubelet.json"
    configuration.write_text(json.dumps(_configuration(settings, credentials, containerd), indent=1))
    already = daemons.running(NAME) is not None
    # Times of the API server are in whole seconds.
    since = None if already else datetime.now(UTC).replace(microsecond=0)
    identity = daemons.start(
        NAME,
        [
            settings.programs / "kubelet",
            f"--config={configuration}",
            f"--kubeconfig={credentials.kubelet_kubeconfig}",
            f"--hostname-override={NODE_NAME}",
            f"--root-dir={root}",
            f"--cert-dir={root / 'pki'}",
            f"--node-ip={NETWORK.node_ip}",
        ],
    )
    api = KubeApi(NETWORK.api_url, settings.pki)
    wait_for(
        "the node is ready",
        lambda: api.node_is_ready(since=since),
        seconds=240,
        process=identity,
        log=daemons.log(NAME),
    )


def stop(daemons: Daemons) -> None:
    """Stops kubelet. The containers keep running until containerd ends them."""
    daemons.stop(NAME)


def _configuration(settings: Settings, credentials: Credentials, containerd: Containerd) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NETWORK.node_ip,
        "authentication": {
            "x509": {"clientCAFile": str(credentials.authority.certificate)},
            "webhook": {"enabled": True},
            "anonymous": {"enabled": False},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(credentials.kubelet.certificate),
        "tlsPrivateKeyFile": str(credentials.kubelet.key),
        "containerRuntimeEndpoint": containerd.endpoint,
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        # The cluster has no DNS, and pods must not resolve names of other networks.
        "resolvConf": "",
        "podLogsDir": str(settings.logs / "pods"),
        "volumePluginDir": str(settings.state / "kubelet" / "plugins-exec"),
        "serializeImagePulls": False,
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "5s",
        # Images come from the builder, not from a registry: kubelet could not pull a deleted image again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        "shutdownGracePeriod": "0s",
        "logging": {"verbosity": 1},
    }

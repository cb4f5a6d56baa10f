"""The pods' bridge, and the firewall rules that keep the cluster's traffic on this machine."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from localcluster.machine.commands import output_of, run, succeeds
from localcluster.settings import NETWORK

_FORWARD_CHAIN = "KAFKASPARK-FORWARD"
_INPUT_CHAIN = "KAFKASPARK-INPUT"
_OUR_CHAINS = {_FORWARD_CHAIN: "FORWARD", _INPUT_CHAIN: "INPUT"}
# kube-proxy, kubelet and the portmap plugin leave chains with these prefixes in the tables.
_CLUSTER_CHAIN_PREFIXES = ("KUBE-", "CNI-")
# kube-router accepts what policies admit, and would accept it before the chains above: these see it first.
_POLICY_CHAIN = "KUBE-ROUTER-FORWARD"
_POLICY_SETS = ("KUBE-SRC-", "KUBE-DST-")
_CNI_RESULTS = Path("/var/lib/cni/results")
NETWORK_NAME = "kafkaspark-pods"


def write_cni_configuration(folder: Path, reservations: Path) -> None:
    """Configures how a pod gets its address; the folder ``reservations`` records the addresses in use."""
    configuration = {
        "cniVersion": "0.4.0",
        "name": NETWORK_NAME,
        "plugins": [
            {
                "type": "bridge",
                "bridge": NETWORK.bridge,
                "isGateway": True,
                "ipMasq": False,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(reservations),
                    "ranges": [
                        [
                            {
                                "subnet": NETWORK.pod_cidr,
                                "rangeStart": NETWORK.pod_range_start,
                                "gateway": NETWORK.node_ip,
                            }
                        ]
                    ],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "10-pods.conflist").write_text(json.dumps(configuration, indent=1))


def bring_up() -> None:
    """Creates the bridge, the service route and the firewall rules that do not exist.

    :raises SetupError: ``ip`` or ``iptables`` refused.
    """
    bridge = NETWORK.bridge
    if not _bridge_exists():
        run(["ip", "link", "add", bridge, "type", "bridge"])
    run(["ip", "address", "replace", f"{NETWORK.node_ip}/{NETWORK.prefix_length}", "dev", bridge])
    run(["ip", "link", "set", bridge, "up"])
    # A service address that kube-proxy does not serve ends at the bridge instead of leaving the machine.
    run(["ip", "route", "replace", NETWORK.service_cidr, "dev", bridge])
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")
    filter_bridged_traffic()

    _fill_chain(
        _FORWARD_CHAIN,
        ["-i", bridge, "-o", bridge, "-j", "ACCEPT"],
        ["-i", bridge, "-j", "REJECT"],  # not DROP: a wrong address in a pod fails at once
        ["-o", bridge, "-j", "DROP"],
    )
    _fill_chain(
        _INPUT_CHAIN,
        ["-i", "lo", "-j", "RETURN"],
        ["-i", bridge, "-j", "RETURN"],
        # The API server listens on every address, to serve loopback and pods. Nothing else may reach it.
        ["-p", "tcp", "--dport", str(NETWORK.api_port), "-j", "DROP"],
        ["-d", NETWORK.pod_cidr, "-j", "DROP"],
    )
    if can_enforce_policies():
        _add_chain(_POLICY_CHAIN)
        for rule in (["-i", bridge, "!", "-o", bridge], ["!", "-i", bridge, "-o", bridge]):
            _insert_rule(_POLICY_CHAIN, [*rule, "-j", _FORWARD_CHAIN])


def can_enforce_policies() -> bool:
    """Whether this kernel has what kube-router needs: sets of addresses, and matches of bridged packets."""
    probe = f"KAFKASPARK-PROBE-{os.getpid()}"
    try:
        return (
            filter_bridged_traffic()
            and succeeds(["ipset", "create", probe, "hash:net"])
            and succeeds(["iptables", "-w", "-N", probe])
            and succeeds(["iptables", "-w", "-A", probe, "-m", "set", "--match-set", probe, "src", "-j", "NFLOG"])
            and succeeds(["iptables", "-w", "-A", probe, "-m", "physdev", "--physdev-is-bridged", "-j", "REJECT"])
        )
    finally:
        succeeds(["iptables", "-w", "-F", probe])
        succeeds(["iptables", "-w", "-X", probe])
        succeeds(["ipset", "destroy", probe])


def filter_bridged_traffic() -> bool:
    """Makes replies between two pods pass the address translation of services; False where the kernel cannot.

    :mod:`localcluster.kubernetes.kube_proxy` calls it too: without it kube-proxy translates the senders' addresses.
    """
    switch = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if not switch.exists():
        succeeds(["modprobe", "br_netfilter"])
    if not switch.exists():
        return False
    switch.write_text("1\n")
    return True


def tear_down() -> None:
    """Removes the bridge with every pod's interface, and every firewall rule of the stopped cluster.

    A machine without the programs has no rules: ``make cluster-down`` succeeds before the first ``make cluster-up``.
    """
    if _bridge_exists():
        for interface in json.loads(output_of(["ip", "-json", "link", "show", "master", NETWORK.bridge]) or "[]"):
            succeeds(["ip", "link", "delete", interface["ifname"]])
        succeeds(["ip", "link", "delete", NETWORK.bridge])
    for table in ("filter", "nat", "mangle"):
        for family in filter(shutil.which, ("iptables", "ip6tables")):
            _remove_chains(family, table)
    names = output_of(["ipset", "list", "-name"]) if shutil.which("ipset") else ""
    for name in names.split():
        if name.startswith(_POLICY_SETS):
            succeeds(["ipset", "destroy", name])


def forget_pod_addresses() -> None:
    """Removes the CNI library's records of pods. Called when no pod is left."""
    for result in _CNI_RESULTS.glob(f"{NETWORK_NAME}-*"):
        # NETWORK_NAME-CONTAINER-INTERFACE; the loopback interface has its own file, under the same container.
        container = result.name.removeprefix(f"{NETWORK_NAME}-").rpartition("-")[0]
        for file in (result, result.with_name(f"cni-loopback-{container}-lo")):
            file.unlink(missing_ok=True)


def _bridge_exists() -> bool:
    return Path("/sys/class/net", NETWORK.bridge).exists()


def _fill_chain(chain: str, *rules: list[str]) -> None:
    _add_chain(chain)
    run(["iptables", "-w", "-F", chain])
    for rule in rules:
        run(["iptables", "-w", "-A", chain, *rule])
    _insert_rule(_OUR_CHAINS[chain], ["-j", chain])


def _add_chain(chain: str) -> None:
    if not succeeds(["iptables", "-w", "-n", "-L", chain]):
        run(["iptables", "-w", "-N", chain])


def _insert_rule(chain: str, rule: list[str]) -> None:
    if not succeeds(["iptables", "-w", "-C", chain, *rule]):
        run(["iptables", "-w", "-I", chain, *rule])


def _remove_chains(family: str, table: str) -> None:
    saved = output_of([f"{family}-save", "-t", table]).splitlines()
    removed = cluster_chains(saved)
    if not removed:
        return
    # One atomic change: flush the chains and delete the rules that lead to them, then delete the chains.
    lines = [f"*{table}"]
    lines += [f"-F {chain}" for chain in removed]
    lines += [f"-D {rule.removeprefix('-A ')}" for rule in rules_leading_to(saved, removed)]
    lines += [f"-X {chain}" for chain in removed]
    lines.append("COMMIT\n")
    output_of([f"{family}-restore", "-w", "--noflush"], stdin="\n".join(lines).encode())


def cluster_chains(saved: list[str]) -> list[str]:
    """The chains of the cluster in the output of ``iptables-save``."""
    chains = [line[1:].split()[0] for line in saved if line.startswith(":")]
    return [chain for chain in chains if chain in _OUR_CHAINS or chain.startswith(_CLUSTER_CHAIN_PREFIXES)]


def rules_leading_to(saved: list[str], chains: list[str]) -> list[str]:
    """The rules of other chains that jump into ``chains``. Flushing ``chains`` would not remove them."""
    wanted = set(chains)
    rules = []
    for line in saved:
        arguments = line.split()
        if not line.startswith("-A ") or arguments[1] in wanted:
            continue
        if any(flag in {"-j", "-g"} and arguments[at + 1] in wanted for at, flag in enumerate(arguments[:-1])):
            rules.append(line)
    return rules

"""Which firewall rules `cluster-down` takes away, and which it leaves to others."""

from pathlib import Path

import pytest

from localcluster.machine import network
from localcluster.machine.network import cluster_chains, rules_leading_to

SAVED = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:DOCKER - [0:0]
:KAFKASPARK-FORWARD - [0:0]
:KUBE-FORWARD - [0:0]
-A INPUT -j DOCKER
-A FORWARD -j KAFKASPARK-FORWARD
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -i docker0 -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KAFKASPARK-FORWARD -i kafkaspark0 -o kafkaspark0 -j ACCEPT
COMMIT
""".splitlines()


def test_only_chains_of_the_cluster_are_taken() -> None:
    assert cluster_chains(SAVED) == ["KAFKASPARK-FORWARD", "KUBE-FORWARD"]


def test_only_foreign_rules_that_lead_to_them_are_deleted_one_by_one() -> None:
    assert rules_leading_to(SAVED, ["KAFKASPARK-FORWARD", "KUBE-FORWARD"]) == [
        "-A FORWARD -j KAFKASPARK-FORWARD",
        '-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD',
    ]


def test_a_table_without_the_cluster_has_nothing_to_take() -> None:
    assert cluster_chains([":INPUT ACCEPT [0:0]", "-A INPUT -j ACCEPT"]) == []


def test_a_fresh_machine_enforces_no_policies_and_has_nothing_to_take(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``make test`` asks for both before it installs iptables and ipset."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(network, "filter_bridged_traffic", lambda: True)
    monkeypatch.setattr(network, "_bridge_exists", lambda: False)
    assert not network.can_enforce_policies()
    network.tear_down()

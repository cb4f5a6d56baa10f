"""A pod template that sets everything that a template may set."""

from __future__ import annotations

from typing import Any

EVERYTHING: dict[str, Any] = {
    "metadata": {
        "labels": {"team": "data", "example.com/cost-centre": "42a"},
        "annotations": {"example.com/owner": "data@example.com"},
    },
    "spec": {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {"matchLabels": {"team": "data"}},
                        },
                    }
                ]
            }
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"team": "data"}},
            }
        ],
        "priorityClassName": "streaming",
        "schedulerName": "own-scheduler",
        "terminationGracePeriodSeconds": 180,
        "hostAliases": [{"ip": "10.0.0.9", "hostnames": ["broker.example.com"]}],
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["10.0.0.10"]},
        "securityContext": {"fsGroupChangePolicy": "OnRootMismatch"},
        "volumes": [
            {"name": "model", "persistentVolumeClaim": {"claimName": "model-files"}},
            {"name": "lookup", "configMap": {"name": "lookup-tables"}},
            {"name": "keys", "projected": {"sources": [{"secret": {"name": "lookup-keys"}}]}},
            {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}},
        ],
    },
}


def everything(role: str) -> dict[str, Any]:
    """:data:`EVERYTHING` with the container of ``role``."""
    container: dict[str, Any] = {
        "name": role,
        "env": [{"name": "REGION", "value": "eu"}],
        "envFrom": [
            {"secretRef": {"name": "service-keys"}},
            {"prefix": "LIMIT_", "configMapRef": {"name": "limits"}},
        ],
        "volumeMounts": [
            {"name": "model", "mountPath": "/mnt/model", "readOnly": True},
            {"name": "lookup", "mountPath": "/mnt/lookup"},
            {"name": "keys", "mountPath": "/mnt/keys"},
            {"name": "cache", "mountPath": "/var/cache/app"},
        ],
    }
    spec = {**EVERYTHING["spec"], "containers": [container]}
    return {"metadata": EVERYTHING["metadata"], "spec": spec}

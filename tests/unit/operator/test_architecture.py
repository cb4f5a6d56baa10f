"""Who may import what in the operator: the state machine stays pure, the Kubernetes client stays behind its port."""

from __future__ import annotations

import ast
import operator
from pathlib import Path

import kafkasparkjob_operator

PACKAGE = Path(kafkasparkjob_operator.__file__).parent
KOPF = {
    "runtime",
    "controller.watches.kopf_settings",
    "controller.watches.kopf_watch_patch",
}
KUBERNETES = {"kubernetes.client"}
IMPURE = {
    "kubernetes.client",
    "runtime",
    "kubernetes.leadership",
    "controller.reconcile",
    "controller.job_objects.plan_runner",
    "controller.requests.hold",
    "controller.job_objects.pins",
    "controller.requests.snapshots",
    "controller.job_objects.standing",
    "controller.live_look",
    "controller.sweep",
    "controller.watches.kopf_watch_patch",
    "controller.watches.code_watch",
    "controller.watches.handlers",
    "controller.watches.namespaces",
    "controller.watches.retention",
    "controller.watches.state_pins",
    "controller.watches.snapshots",
    "controller.event_recorder",
    "controller.probes",
    "controller.work_queue",
    "__main__",
    "kubernetes.port",
    "kubernetes.definition",
}


def modules() -> dict[str, set[str]]:
    """Every module of the package, with the top-level names of what it imports."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        imported: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module)
        found[name] = imported
    return found


def importers(package: str) -> set[str]:
    return {name for name, imported in modules().items() if any(each.split(".")[0] == package for each in imported)}


def test_only_the_adapter_imports_the_kubernetes_client() -> None:
    assert importers("kubernetes") == KUBERNETES


def test_only_the_watching_parts_import_kopf() -> None:
    assert importers("kopf") == KOPF


def test_what_decides_neither_waits_nor_asks() -> None:
    assert importers("asyncio") <= IMPURE
    for name, imported in modules().items():
        if name not in IMPURE | KOPF:
            assert not {f"kafkasparkjob_operator.{each}" for each in IMPURE - {"kubernetes.port"}} & imported, name


def test_the_folder_does_not_shadow_the_standard_librarys_operator() -> None:
    assert operator.add(1, 2) == 3
    assert not (PACKAGE.parent / "__init__.py").exists()

"""The chart's dashboards are what the module generates, and their queries name metrics that exist."""

from __future__ import annotations

import json
import re

import pytest

from dashboards import DASHBOARDS, FOLDER, Dashboard, text_of
from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.metrics import OperatorMetrics
from tests.support.kubernetes.operator_fixture import job_body

METRIC = re.compile(r"\b(?:kafkaspark|process)_(?!io_)[a-z_]+")
PAGES = [(FOLDER.parents[3] / f"docs/{page}.md").read_text(encoding="utf-8") for page in ("metrics", "operations")]
SHORT_FORMS = ("kafkaspark_client", "kafkaspark_job")
"""Prefixes of which the pages give the first name whole, and then the ends of others."""


def exported() -> set[str]:
    cache = Cache()
    cache.put_job(job_body())
    metrics = OperatorMetrics(cache)
    metrics.gauge("kafkaspark_operator_queue_depth", "", lambda: 0)  # the runtime adds it
    found = {sample.name for family in metrics.registry.collect() for sample in family.samples}
    found |= {family.name for family in metrics.registry.collect()}
    for page in PAGES:
        found |= {*METRIC.findall(page)}
        found |= {f"{prefix}{end}" for prefix in SHORT_FORMS for end in re.findall(r"`(_[a-z_]+)`", page)}
    return found | {f"{name}{end}" for name in found for end in ("_bucket", "_total")}


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_a_dashboard_is_up_to_date_and_whole(dashboard: Dashboard) -> None:
    text = (FOLDER / f"{dashboard.name}.json").read_text(encoding="utf-8")
    assert text == text_of(dashboard), "run `make generate`"
    board = json.loads(text)
    assert [panel["id"] for panel in board["panels"]] == [*range(1, len(board["panels"]) + 1)]
    assert all(panel["description"] and panel["targets"] for panel in board["panels"])
    cells: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in board["panels"]):
        own = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & own, "panels overlap"
        assert all(x < 24 for x, _ in own)
        cells |= own


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_each_query_names_metrics_that_are_exported(dashboard: Dashboard) -> None:
    named = {name for panel in dashboard.panels for query, _ in panel.queries for name in METRIC.findall(query)}
    assert named - exported() == set()


def test_every_dashboard_is_written() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == {dashboard.name for dashboard in DASHBOARDS}

"""docs/tutorial.md as far as it goes without a cluster: a job is made, run, changed, tested, and run on a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.jobs.local_job import ROOT, environment
from tests.support.tutorial import TUTORIAL, Reader

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def test_the_commands_print_what_the_page_shows(broker: str, unique: str, tmp_path: Path) -> None:
    variables = {**environment(), "PYTHONPATH": f"{ROOT}:{ROOT / 'operator'}", "USER": unique}
    # Topics of this test's own: the broker is that of other tests, too.
    topics = {"orders-out": f"{unique}-out", "orders-dev": f"{unique}-dev"}
    reader = Reader(TUTORIAL, tmp_path, variables, {"BROKER:9092": broker})
    for number in (2, 3, 4, 5):
        reader.does(number)
    reader.edits("job.yaml", "[orders]", f"[{unique}]")
    reader.edits("job.yaml", "orders-out", f"{unique}-out")
    reader.replaces(topics)
    reader.does(6)

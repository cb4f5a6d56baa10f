"""``kafkaspark dev --bootstrap`` on a real broker: every record of the input once, over two attempts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkaspark.__main__ import main
from tests.support.jobs.local_job import ROOT, environment
from tests.support.kafka.visibility import records

pytestmark = pytest.mark.spark


@pytest.fixture
def dev(broker: str, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """``dev(*arguments) -> what it has printed``, in the folder of a job with topics of this test's own."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "shop-orders", "--template", "python"]) == 0
    folder = tmp_path / "shop-orders"
    job = folder / "job.yaml"
    text = (
        job.read_text().replace("topics: [orders]", f"topics: [{unique}]").replace("shop-orders-out", f"{unique}.out")
    )
    job.write_text(text)

    def run(*arguments: str, status: int = 0) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "kafkaspark", "dev", "job.yaml", "--bootstrap", broker, "--once", *arguments],
            cwd=folder, env={**environment(), "USER": unique, "PYTHONPATH": f"{ROOT}:{ROOT / 'operator'}"},
            capture_output=True, text=True, check=False, timeout=500,
        )  # fmt: skip
        assert ran.returncode == status, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    return run


def test_each_record_is_written_once_over_two_attempts(dev: Callable[..., str], broker: str, unique: str) -> None:
    printed = dev("--input", "orders.jsonl")
    assert f"5 records of orders.jsonl written to {unique}-dev" in printed
    assert "5 records read, 5 written, lag 0" in printed
    values = [value or b"" for value in records(broker, f"{unique}.out-dev")]
    assert len(values) == 5
    assert b'"tax":62.5' in b"".join(values)
    printed = dev("--input", "orders.jsonl")
    assert "10 records read, 10 written, lag 0" in printed
    assert len(records(broker, f"{unique}.out-dev")) == 10


def test_a_refusal_of_the_attempt_has_its_remedy(dev: Callable[..., str], unique: str) -> None:
    printed = dev(status=1)
    assert "TopicNotFound" in printed
    assert unique in printed

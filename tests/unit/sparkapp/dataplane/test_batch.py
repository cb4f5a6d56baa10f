"""Which implementation is chosen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparkapp.dataplane import batch
from sparkapp.model.errors import ExtensionMissing


def test_the_switch_forces_the_plain_implementation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(batch.SWITCH, "0")
    assert batch.implementation() == "plain"
    consumer, producer = batch.open_consumer({}), batch.open_producer({})
    try:
        assert type(consumer).__name__ == "PlainConsumer"
        assert type(producer).__name__ == "PlainProducer"
    finally:
        consumer.close()
        producer.close()


def test_the_extension_is_chosen_where_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(batch.SWITCH, raising=False)
    pytest.importorskip("sparkapp.dataplane.native._kafka_arrow")
    assert batch.implementation() == "native"
    consumer, producer = batch.open_consumer({}), batch.open_producer({})
    try:
        assert type(consumer).__name__ == "NativeConsumer"
        assert type(producer).__name__ == "NativeProducer"
    finally:
        consumer.close()
        producer.close()


def test_without_the_extension_the_plain_implementation_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(batch.SWITCH, raising=False)
    monkeypatch.setattr(batch, "_why_not_native", lambda: "ImportError: none")
    assert batch.implementation() == "plain"


def test_without_the_extension_the_image_refuses_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(batch.SWITCH, "required")
    assert batch.implementation() == "native"
    monkeypatch.setattr(batch, "_why_not_native", lambda: "ImportError: no file")
    with pytest.raises(ExtensionMissing, match="no file"):
        batch.open_consumer({})


def test_the_image_and_its_build_require_the_extension() -> None:
    stages = Path("images/sparkapp/Containerfile").read_text().split("\nFROM ")
    assert [stage.split("\n")[0] for stage in stages if "KAFKASPARK_NATIVE=required" in stage] == [
        "build-tools AS application",
        "dependencies",
    ]


def test_an_extension_that_does_not_load_says_why(tmp_path: Path) -> None:
    (tmp_path / "stub.py").write_text("import sys\nsys.modules['sparkapp.dataplane.native._kafka_arrow'] = None\n")
    program = "import stub\nfrom sparkapp.dataplane.batch import implementation\nimplementation()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, batch.SWITCH: "required", "PYTHONPATH": f"{tmp_path}:{Path.cwd()}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "ExtensionMissing: the batch path's C extension does not load: " in done.stderr
    assert "_kafka_arrow" in done.stderr

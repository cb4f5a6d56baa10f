"""What documents say of the command line and of the chart: commands run, answers occur, numbers are right."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kafkaspark.__main__ import main
from kafkaspark.scaffold.init import contents

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted((ROOT / "docs").glob("*.md"))
CHART = ROOT / "charts/kafkaspark-operator"
VERDICT = re.compile(r"^job\.yaml: default/[a-z-]+: (valid; .*)$", re.MULTILINE)
PACKAGE = re.compile(r"kafkaspark (package job\.yaml --image [^`\n]*)")
POLICIES = (
    "attempts",
    "drivers",
    "operator",
    "operator-pods",
    "operator-jobs",
    "operator-expiry",
    "operator-snapshots",
)
METRIC = re.compile(r"\"(kafkaspark_(?:operator|job|driver|source|sink|checkpoints?|watermark)_[a-z_]+)\"")
NUMBERS = {7: "Seven"}


def found(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Page and first group of each match in the documents for users."""
    for page in PAGES:
        yield from ((page.name, match) for match in pattern.findall(page.read_text(encoding="utf-8")))


def test_an_image_of_a_document_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in contents("python"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    commands = list(found(PACKAGE))
    assert len(commands) >= 2
    for number, (page, command) in enumerate(commands):
        assert main([*shlex.split(command), "--output", f"image-{number}"]) == 0, f"{page}: {command}"


def test_a_verdict_of_a_document_occurs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their jobs leave ``spec.engine`` out."""
    monkeypatch.chdir(tmp_path)
    (job,) = (text for name, text in contents("python") if name == "job.yaml")
    (tmp_path / "job.yaml").write_text(job, encoding="utf-8")
    assert main(["validate", "--no-plan", "job.yaml"]) == 0
    (verdict,) = VERDICT.findall(capsys.readouterr().out)
    answers = list(found(VERDICT))
    assert {page for page, _ in answers} >= {"command-line.md", "quick-start.md", "tutorial.md"}
    assert {said for _, said in answers} == {f"{verdict}; the transform is planned"}


def test_the_charts_readme_counts_the_admission_policies() -> None:
    texts = "".join(file.read_text(encoding="utf-8") for file in (CHART / "templates").glob("*-policy.yaml"))
    names = re.findall(r"kind: ValidatingAdmissionPolicy\nmetadata:\n  name: {{ \$clusterName }}-(\S+)", texts)
    assert sorted(names) == sorted(POLICIES)
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    (row,) = (line for line in readme.splitlines() if "ValidatingAdmissionPolicies and their bindings" in line)
    assert row.startswith(f"| {NUMBERS[len(names)]} ValidatingAdmissionPolicies")
    assert all(f"`{name}`" in row for name in names), row


def test_the_canarys_kafka_has_the_fields_of_a_job() -> None:
    definition = yaml.safe_load((ROOT / "crds/kafkasparkjobs.yaml").read_text(encoding="utf-8"))
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    fields = set(spec["properties"]["kafka"]["properties"])
    schema = yaml.safe_load((CHART / "values.schema.json").read_text(encoding="utf-8"))
    kafka = schema["properties"]["canary"]["properties"]["kafka"]
    assert (set(kafka["properties"]), kafka["additionalProperties"]) == (fields, False)
    (comment,) = re.findall(r"# -- spec\.kafka of the job: {(.*)}", (CHART / "values.yaml").read_text(encoding="utf-8"))
    assert set(re.findall(r"(\w+):", comment)) <= fields


def documented() -> set[str]:
    """Names of metrics in the documents. ``_end`` stands for a name that begins as another name of its paragraph."""
    names: set[str] = set()
    for page in ("operations.md", "metrics.md"):
        for paragraph in re.split(r"\n\n|\n\|", (ROOT / "docs" / page).read_text(encoding="utf-8")):
            full = re.findall(r"`(kafkaspark_[a-z_]+)", paragraph)
            ends = re.findall(r"`(_[a-z_]+)", paragraph)
            names |= {*full, *(f"{name[:at]}{end}" for name in full for at in range(len(name)) for end in ends)}
    return names


def test_every_metric_is_in_a_document() -> None:
    sources = [*(ROOT / "operator/kafkasparkjob_operator").rglob("*.py"), *(ROOT / "sparkapp/spark").rglob("*.py")]
    served = {name for file in sources for name in METRIC.findall(file.read_text(encoding="utf-8"))}
    assert len(served) > 50
    known = documented()
    assert sorted(name for name in served if not {name, f"{name}_total"} & known) == []

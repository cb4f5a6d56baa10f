"""The documents' prose, width, and the files that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkapp.dataplane.settings import BATCH_BYTES, BATCH_ROWS
from tests.support.prose import Found, Kind, findings

REPOSITORY = Path(__file__).resolve().parents[3]
GENERATED = REPOSITORY / "docs/fields.md"
DOCUMENTS = sorted(
    {
        *(REPOSITORY / "docs").rglob("*.md"),
        *(REPOSITORY / "bench").rglob("*.md"),
        *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
        REPOSITORY / "examples/README.md",
        REPOSITORY / "dev/README.md",
    }
    - {GENERATED}
)
WIDTH = 120
ROOTS = ("", "sparkapp", "operator/kafkasparkjob_operator", "tests", "images/sparkapp")
"""A path in a document begins at one of these folders."""
_NAMED = re.compile(r"`([\w.*-]+(?:/[\w.*-]+)*\.(?:py|c|h|sh|toml|md|yaml)|images/[\w/]*Containerfile)(?:::\w+)?`")
_MODULE = re.compile(r"python -m ((?:bench|tests|sparkapp|demo|localcluster)(?:\.\w+)*)")
_USERS_OWN = {
    "kafka-console-consumer.sh",
    "orders.py",
    "rules.py",
    "test_orders.py",
    "job.yaml",
    "kustomization.yaml",
    "orders.yaml",
    "server.properties",
    "client.properties",
}
"""Files that a reader makes, or that Kafka has."""


_NAMES_OF_OTHERS = {"ReadWriteMany", "InitProducerId", "AverageValue", "FlinkKafkaProducer"}
"""Names of Kubernetes, Kafka and Flink."""


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def prose_of(text: str) -> Iterator[str]:
    """Paragraphs, list items, headings and table cells, without code blocks, code spans and targets of links."""
    text = re.sub(r"^([ \t]*)(`{3,}|~{3,}).*?^\1\2[^\n]*$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^\|?[ :|-]+\|[ :|-]*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text).replace("[", "").replace("]", "")
    text = re.sub(r"`[^`]+`", "CODE", text).replace("**", "").replace("*", "")
    block: list[str] = []
    is_heading = False
    for line in [*text.splitlines(), ""]:
        begins = re.match(r"\s*([-*]|\d+\.|#+)\s+", line)
        if (begins or not line.strip() or line.startswith("|") or is_heading) and block:
            yield " ".join(block)
            block = []
        is_heading = line.startswith("#")
        if line.startswith("|"):
            yield from (cell.strip() for cell in line.strip("| ").split(" | ") if cell.strip())
        elif line.strip():
            block.append(line[begins.end() :] if begins else line.strip())


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_the_prose_of_a_document(path: Path) -> None:
    is_decision = path.parent.name == "adr"
    broken = []
    for text in prose_of(path.read_text(encoding="utf-8")):
        for finding in findings(Found(name_of(path), text, Kind.TEXT)):
            if is_decision and " words: " in finding:
                continue  # a decision may argue at length
            broken.append(f"{finding}: {text[:100]}")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_lines_wrap(path: Path) -> None:
    in_code = False
    long = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        in_code ^= line.lstrip().startswith("```")
        without_targets = re.sub(r"\]\([^)]*\)", "]", line)
        is_free = in_code or line.lstrip().startswith("|") or " " not in line.strip()
        if len(without_targets) > WIDTH and not is_free:
            long.append(number)
    assert not long, f"{name_of(path)}: lines {long}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_named_files_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    missing = {name for name in _NAMED.findall(text) if name not in _USERS_OWN and not exists(name)}
    modules = {name for name in _MODULE.findall(text) if not module_exists(name)}
    assert not missing | modules


def exists(name: str) -> bool:
    folders = [REPOSITORY / root for root in ROOTS]
    if any(any(folder.glob(name)) if "*" in name else (folder / name).exists() for folder in folders):
        return True
    return "/" not in name and name in names_of_files()


def names_of_files() -> set[str]:
    kept = ("sparkapp", "operator", "tests", "bench", "demo", "dev", "docs", "examples", "images", "crds", "charts")
    return {file.name for root in kept for file in (REPOSITORY / root).rglob("*.*")} | {"pyproject.toml", "setup.py"}


def module_exists(name: str) -> bool:
    base = name.replace(".", "/")
    return any(
        (REPOSITORY / root / place).exists() for root in ("", "dev") for place in (f"{base}.py", f"{base}/__main__.py")
    )


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path.parent != REPOSITORY / "docs"], ids=name_of)
def test_links_outside_the_site_have_a_target(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    assert [target for target in targets if target and not (path.parent / target).exists()] == []


@pytest.mark.parametrize(
    "page",
    [
        "operations.md",
        "reasons.md",
        "state.md",
        "troubleshooting.md",
        "checkpoints.md",
        "sink.md",
        "source.md",
        "stateful.md",
    ],
)
def test_named_reasons_are_in_the_product(page: str) -> None:
    """A reason, condition, event or enum value that a page names is one that the product can show."""
    named = set(
        re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", (REPOSITORY / "docs" / page).read_text(encoding="utf-8"))
    )
    product = [*(REPOSITORY / "sparkapp").rglob("*.py"), *(REPOSITORY / "operator").rglob("*.py")]
    product += REPOSITORY.glob("crds/*.yaml")
    words = {word for file in product for word in re.findall(r"[A-Za-z]+", file.read_text(encoding="utf-8"))}
    assert named - words - _NAMES_OF_OTHERS == set()


def test_the_limits_of_a_batch_are_those_of_the_reader() -> None:
    text = (REPOSITORY / "docs/write-a-transform.md").read_text(encoding="utf-8")
    assert f"In the continuous engine it has up to {BATCH_ROWS:,} rows and {BATCH_BYTES >> 20} MiB" in text

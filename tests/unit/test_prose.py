"""Sentences that people read: at most 25 words, the right ending, no word that needs a second reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.prose import (
    Found,
    Kind,
    comment_blocks,
    definition_texts,
    error_classes,
    findings,
    python_texts,
)

ROOT = Path(__file__).parents[2]
PRODUCT = ("bench", "operator", "sparkapp", "dev", "demo", "images")
CHART = "charts/kafkaspark-operator"


def modules() -> list[Path]:
    return [path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py"))]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def read_by_users() -> Iterator[Found]:
    errors = error_classes(modules())
    for path in modules():
        yield from python_texts(path, name_of(path), errors, code=False)
    for definition in sorted(ROOT.glob("crds/*.yaml")):
        yield from definition_texts(definition)
    yield from definition_texts(ROOT / CHART / "values.schema.json")
    yield from comment_blocks(ROOT / CHART / "values.yaml")
    notes = (ROOT / CHART / "templates/NOTES.txt").read_text(encoding="utf-8")
    yield Found("NOTES.txt", notes, Kind.TEXT)


def read_by_developers() -> Iterator[Found]:
    for path in modules():
        yield from python_texts(path, name_of(path), frozenset(), code=True)


@pytest.mark.parametrize("texts", [read_by_users, read_by_developers])
def test_sentences_keep_the_rules_of_prose(texts: Callable[[], Iterator[Found]]) -> None:
    broken = [
        f"{found.where}: {finding}: {' '.join(found.text.split())[:100]}"
        for found in texts()
        for finding in findings(found)
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("text", "kind", "rule"),
    [
        ("Seconds between checkpoints, 10 by default", Kind.DESCRIPTION, "a description ends with a period"),
        ("How long it takes.", Kind.DESCRIPTION, "begins as a question: How long it takes. …"),
        ("no broker answered.", Kind.MESSAGE, "a message has no period at its end"),
        ("the job goes on at its last checkpoint", Kind.MESSAGE, "banned: goes on"),
        ("word " * 26, Kind.TEXT, f"26 words: {'word ' * 12} …"),
        ("former_state", Kind.NAME, "banned name: former"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named(text: str, kind: Kind, rule: str) -> None:
    assert findings(Found("here", text, kind)) == [rule]


def test_a_command_to_paste_is_a_single_word() -> None:
    command = "kubectl get ksj orders -n shop -o jsonpath='{.status.lastFailure.log}' " + "x " * 40
    assert findings(Found("here", f"read the log: {command}", Kind.MESSAGE)) == []


def test_messages_are_found_where_they_are_composed(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "class Mine(KafkaSparkJobError):\n"
        "    default_remedy = 'wait.'\n"
        "def fail(draft, name, late):\n"
        "    'A docstring.'\n"
        "    msg = f'{name} failed' + ('.' if late else '')\n"
        "    draft.event('key', 'Failed', f'{name} is gone')\n"
        "    draft.set_state(1, message='stopped')\n"
        "    raise Mine(msg)\n"
    )
    texts = python_texts(module, "module", error_classes([module]), code=False)
    assert sorted(found.text for found in texts if found.kind is Kind.MESSAGE) == [
        "X failed.", "X is gone", "stopped", "wait.",
    ]  # fmt: skip

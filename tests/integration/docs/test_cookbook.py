"""Each recipe of docs/cookbook.md does what the page shows: its job over its records, by ``kafkaspark.testing``."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaspark.testing import Record, run_transform

PAGE = Path(__file__).parents[3] / "docs/cookbook.md"
BLOCK = re.compile(r"^```(yaml|python|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Recipe:
    """A job of the page with its records in and out."""

    title: str
    spec: dict[str, Any]
    code: str
    given: list[Record]
    expected: list[Record]


def recipes() -> list[Recipe]:
    found = []
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title = section.partition("\n")[0]
        blocks = BLOCK.findall(section)
        starts = [index for index, (kind, _) in enumerate(blocks) if kind == "yaml"]
        for start, end in zip(starts, [*starts[1:], len(blocks)], strict=True):
            _, *others = blocks[start:end]
            given, expected = ([record(line) for line in text.splitlines()] for kind, text in others if kind == "json")
            code = "".join(text for kind, text in others if kind == "python")
            found.append(Recipe(title, yaml.safe_load(blocks[start][1]), code, given, expected))
    return found


def record(line: str) -> Record:
    return Record(**json.loads(line))


RECIPES = recipes()


def test_the_page_has_recipes() -> None:
    assert len({recipe.title for recipe in RECIPES}) >= 12


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title.lower().replace(" ", "-"))
def test_a_recipe_does_what_the_page_shows(recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "recipe.py").write_text(recipe.code, encoding="utf-8")
    job = {
        "apiVersion": "streaming.kafkaspark.io/v1beta1", "kind": "KafkaSparkJob", "metadata": {"name": "recipe"},
        "spec": {"kafka": {"bootstrapServers": "BROKER:9092"}, **recipe.spec},
    }  # fmt: skip
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job), encoding="utf-8")
    written = run_transform(path, recipe.given)
    assert sorted(written, key=repr) == sorted(recipe.expected, key=repr)
    with_topic = {(each.topic, each.text) for each in recipe.expected if each.topic}
    assert {(each.topic, each.text) for each in written} >= with_topic

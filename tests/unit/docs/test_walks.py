"""docs/internals/walks.md: every file and symbol exists, and each step really leads to the next."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import yaml

from sparkapp.model.encoding.schema import resource_name

REPOSITORY = Path(__file__).resolve().parents[3]
WALKS = REPOSITORY / "docs/internals/walks.md"
MOST_FILES = 5


@dataclass(frozen=True)
class Step:
    """A row of a walk."""

    number: int
    file: str
    symbol: str
    link: str


def walks() -> dict[str, list[Step]]:
    """The steps of each walk, by its heading."""
    found = {}
    for section in WALKS.read_text(encoding="utf-8").split("\n## ")[1:]:
        rows = re.findall(r"^\| (\d) \| `([^`]+)` \| `([^`]+)` \| (.*?) \|", section, re.MULTILINE)
        found[section.splitlines()[0]] = [Step(int(number), *rest) for number, *rest in rows]
    return found


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))


def defines(file: str, symbol: str) -> bool:
    """Whether a module has the class, function, or member of a class."""
    body: list[ast.stmt] = tree(file).body
    for name in symbol.split("."):
        inside = [node for node in body if name_of(node) == name]
        if not inside:
            return False
        body = getattr(inside[0], "body", [])
    return True


def name_of(node: ast.stmt) -> str:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return node.name
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return ""


def uses(file: str, symbol: str, origin: str) -> bool:
    """Whether a module imports the symbol from the module of ``origin``, and does something with it."""
    module = origin.removesuffix(".py").replace("/", ".")
    nodes = list(ast.walk(tree(file)))
    imported = any(
        isinstance(node, ast.ImportFrom) and node.module == module and symbol in {name.name for name in node.names}
        for node in nodes
    )
    return imported and any(isinstance(node, ast.Name) and node.id == symbol for node in nodes)


def module_of(file: str, symbol: str) -> str:
    """The file of the module from which another one imports the symbol."""
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.ImportFrom) and node.module and symbol in {name.name for name in node.names}:
            return node.module.replace(".", "/") + ".py"
    raise AssertionError(f"{file} does not import {symbol}")


def reads(file: str, attribute: str) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == attribute for node in ast.walk(tree(file)))


def in_definition(path: str) -> bool:
    """Whether the CustomResourceDefinition has the field."""
    definition = yaml.safe_load((REPOSITORY / "crds/kafkasparkjobs.yaml").read_text(encoding="utf-8"))
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path.split("."):
        schema = schema.get("properties", {}).get(name)
        if schema is None:
            return False
    return True


def check(step: Step, steps: list[Step]) -> None:
    """The link of a step is one of those that the document uses, and it holds."""

    def numbered(text: str) -> Step:
        return steps[int(text) - 1]

    if found := re.fullmatch(r"step (\d) uses `(\w+)`", step.link):
        assert uses(numbered(found[1]).file, found[2], step.file)
    elif found := re.fullmatch(r"step (\d) calls `(\w+)`, which uses `(\w+)`", step.link):
        between = module_of(numbered(found[1]).file, found[2])
        assert uses(numbered(found[1]).file, found[2], between)
        assert uses(between, found[3], step.file)
    elif found := re.fullmatch(r"uses `(\w+)` of step (\d)", step.link):
        assert uses(step.file, found[1], numbered(found[2]).file)
    elif found := re.fullmatch(r"reads `(\w+)` of `(\w+)` in step (\d)", step.link):
        assert reads(step.file, found[1])
        assert defines(numbered(found[3]).file, f"{found[2]}.{found[1]}")
    elif found := re.fullmatch(r"the field of step (\d) in camel case", step.link):
        assert step.symbol.rpartition(".")[2] == resource_name(numbered(found[1]).symbol.rpartition(".")[2])
    elif found := re.fullmatch(r"Spark runs step (\d) and step (\d) in one task", step.link):
        engine = "sparkapp/spark/engine/micro_batch"
        modules = [f"{engine}/{file.name}" for file in (REPOSITORY / engine).glob("*.py")]
        assert any(uses(file, "KafkaSparkDataSource", numbered(found[1]).file) for file in modules)
        assert any(uses(file, numbered(found[2]).symbol, numbered(found[2]).file) for file in modules)
    else:
        assert step.number == 1
        assert step.link == "–", step.link


@pytest.mark.parametrize("walk", sorted(walks()))
def test_a_walk_has_few_files(walk: str) -> None:
    steps = walks()[walk]
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert 2 < len(steps) <= MOST_FILES


@pytest.mark.parametrize("step", [step for steps in walks().values() for step in steps], ids=lambda step: step.file)
def test_each_symbol_exists(step: Step) -> None:
    assert in_definition(step.symbol) if step.file.endswith(".yaml") else defines(step.file, step.symbol)


@pytest.mark.parametrize(("walk", "number"), [(name, step.number) for name, steps in walks().items() for step in steps])
def test_each_step_leads_to_the_next(walk: str, number: int) -> None:
    steps = walks()[walk]
    check(steps[number - 1], steps)


def test_the_field_reaches_the_line() -> None:
    """The last step of the second walk names the expression in its description."""
    steps = walks()["A field, from its description to the line that it changes"]
    (expression,) = re.findall(r"`(\w+=[\w.]+)`", WALKS.read_text(encoding="utf-8"))
    assert expression in (REPOSITORY / steps[-1].file).read_text(encoding="utf-8")
    assert expression.endswith(steps[0].symbol.rpartition(".")[2])

"""Finds the sentences of the project that users and developers read, and the rules of prose that a sentence breaks."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

import yaml

MAX_WORDS = 25
FEWEST_WORDS = 4
"""A literal with fewer words is a name, a key or a part of a format."""
ROOT_ERRORS = frozenset({"KafkaSparkJobError", "SetupError"})
"""Roots of the error trees of the product and of the development tools."""

_BANNED = {
    "mend": r"mend(s|ed|ing)?", "words": r"words", "life": r"life|lives", "tells of": r"t(ells?|old) of",
    "goes on": r"go(es|ing)? on|went on", "former": r"former(ly)?", "anew": r"anew", "beside": r"besides?",
    "turn (activation)": r"(its|their|awaits?|given?) turn", "witness": r"witness(es|ed)?",
    "in vain": r"in vain", "since long": r"since long", "look after": r"look(s|ed|ing)? after",
    "taken again": r"taken again", "so many": r"so many", "thereby": r"thereby", "for it is": r"for it is",
    "what is, is": r"what [^.;:]{1,60} is, is", "ones": r"ones|one (that|which|whose)",
    "one": r"(an?other|the|this|that|each|every|last|next|first|same|such an?|no|newe?r?|older|earlier|later) one",
}  # fmt: skip
_BANNED_RULES = {name: re.compile(rf"\b({rule})\b(?! hundred)", re.IGNORECASE) for name, rule in _BANNED.items()}
_RULES = frozenset({"Rule", "ObjectRule", "at", "Described"})
_BANNED_NAMES = frozenset({"one", "mend", "mended", "life", "former", "anew", "beside", "witness", "heir", "heirs"})
_QUESTION = re.compile(r"(What|How|Whether)\b")
_COMMAND = re.compile(r"`[^`]*`|\b(kubectl|python -m|helm|kafka-[a-z-]+\.sh) (?:[^\n;.]|\.(?=\S)|;(?=\S))*")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+|\s\|\s")


class Kind(Enum):
    """Which rules hold for a text."""

    DESCRIPTION = auto()
    """Of a field: sentences that end with a period, and none that begins as a question."""
    MESSAGE = auto()
    """Of an error, event, condition or remedy: no period at the end."""
    TEXT = auto()
    """Any other: a log line, help, a comment, a docstring."""
    NAME = auto()
    """An identifier."""


@dataclass(frozen=True, slots=True)
class Found:
    """A text of the project."""

    where: str
    text: str
    kind: Kind


def findings(found: Found) -> list[str]:
    """Each rule that the text breaks, in words for the person who has to rewrite it."""
    if found.kind is Kind.NAME:
        return [f"banned name: {part}" for part in found.text.lower().split("_") if part in _BANNED_NAMES]
    prose = _COMMAND.sub("COMMAND", found.text)
    broken = [f"banned: {rule}" for rule, pattern in _BANNED_RULES.items() if pattern.search(prose)]
    for sentence in _SENTENCE_END.split(prose.strip()):
        count = sum(any(letter.isalnum() for letter in word) for word in sentence.split())
        if count > MAX_WORDS:
            broken.append(f"{count} words: {sentence[:60]} …")
        if found.kind is Kind.DESCRIPTION and _QUESTION.match(sentence):
            broken.append(f"begins as a question: {sentence[:40]} …")
    end = prose.strip()[-1:]
    if found.kind is Kind.DESCRIPTION and end not in {".", "!", "?"}:
        broken.append("a description ends with a period")
    if found.kind is Kind.MESSAGE and end in {".", "!", "?"}:
        broken.append("a message has no period at its end")
    return broken


def python_texts(path: Path, name: str, errors: frozenset[str], *, code: bool) -> Iterator[Found]:
    """Texts of a module.

    :param errors: names of the project's error classes.
    :param code: identifiers, docstrings and comments; else what the module says while it runs.
    """
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    documentation = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and _is_text(node.value)}
    if not code:
        # The messages of rules and the descriptions of fields are read in the definition that is made of them.
        in_definition = {argument for call in ast.walk(tree) for argument in _of_definition(call)}
        yield from _literals(tree, name, documentation | in_definition, set(_messages(tree, errors)))
        return
    yield from _names(tree, name)
    for literal in documentation:
        text = re.sub(r"\n(?!\s*(\n|:|\*|-|\d\.))\s*", " ", flat(literal))
        yield Found(f"{name}:{literal.lineno}", text, Kind.TEXT)
    yield from _comments(source, name)


def error_classes(paths: list[Path]) -> frozenset[str]:
    """Names of every class below the roots of the error trees."""
    bases: dict[str, set[str]] = {}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {ast.unparse(base).rsplit(".", 1)[-1] for base in node.bases}
    known = set(ROOT_ERRORS)
    while True:
        more = {name for name, above in bases.items() if above & known} - known
        if not more:
            return frozenset(known)
        known |= more


def flat(node: ast.expr) -> str:
    """The text of a string expression, X for each value that is filled in; empty for any other expression."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(flat(part) or "X" for part in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            before, after = flat(left), flat(right)
            return (before or "X") + (after or "X") if before or after else ""
        case ast.BinOp(left=left, op=ast.Mod()):
            return flat(left)
        case ast.IfExp(body=body, orelse=orelse):
            return max(flat(body), flat(orelse), key=len)
        case _:
            return ""


def yaml_texts(node: Any, name: str) -> Iterator[Found]:
    """Descriptions and validation messages of a definition or a JSON schema."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "description" and isinstance(value, str):
                yield Found(name, value, Kind.DESCRIPTION)
            elif key == "x-kubernetes-validations":
                yield from (Found(f"{name}: validation", rule["message"], Kind.MESSAGE) for rule in value)
            else:
                yield from yaml_texts(value, f"{name}.{key}" if key != "properties" else name)
    elif isinstance(node, list):
        for item in node:
            named = item.get("name", "") if isinstance(item, dict) else ""
            yield from yaml_texts(item, f"{name}.{named}" if named else name)


def definition_texts(path: Path) -> Iterator[Found]:
    """:func:`yaml_texts` of a file."""
    yield from yaml_texts(yaml.safe_load(path.read_text(encoding="utf-8")), path.name)


def comment_blocks(path: Path) -> Iterator[Found]:
    """Comments of a YAML file, adjacent lines as a single text."""
    name = path.name
    block: list[str] = []
    for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
        text = line.strip()
        if text.startswith("#"):
            if text.startswith("# --") and block:
                yield Found(name, " ".join(block), Kind.TEXT)
                block = []
            block.append(text.lstrip("# -"))
        elif block:
            yield Found(name, " ".join(block), Kind.TEXT)
            block = []


def _names(tree: ast.Module, name: str) -> Iterator[Found]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield Found(f"{name}:{node.lineno}", node.id, Kind.NAME)
        elif isinstance(node, ast.arg):
            yield Found(f"{name}:{node.lineno}", node.arg, Kind.NAME)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield Found(f"{name}:{node.lineno}", node.name, Kind.NAME)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _messages(tree: ast.Module, errors: frozenset[str]) -> Iterator[ast.expr]:
    """Expressions that become the message or the remedy of an error, event or condition."""
    for scope in ast.walk(tree):
        if isinstance(scope, ast.ClassDef):
            assigned = [statement for statement in scope.body if isinstance(statement, ast.Assign)]
            yield from (found.value for found in assigned if ast.unparse(found.targets[0]) == "default_remedy")
        if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        sunk = [node for call in ast.walk(scope) if isinstance(call, ast.Call) for node in _sunk(call, errors)]
        yield from sunk
        names = {node.id for node in sunk if isinstance(node, ast.Name)}
        for item in ast.walk(scope):
            if isinstance(item, ast.Assign) and names & {ast.unparse(target) for target in item.targets}:
                yield item.value


def _of_definition(call: ast.AST) -> list[ast.expr]:
    """Expression and message of a rule of the API server, or the description of a field."""
    is_call = isinstance(call, ast.Call) and ast.unparse(call.func) in _RULES
    return call.args if is_call and isinstance(call, ast.Call) else []


def _sunk(call: ast.Call, errors: frozenset[str]) -> Iterator[ast.expr]:
    called = ast.unparse(call.func).rsplit(".", 1)[-1]
    if called in errors and call.args:
        yield call.args[0]
    if called == "event" and len(call.args) > 2:  # StatusDraft.event(occurrence, reason, message)
        yield call.args[2]
    yield from (keyword.value for keyword in call.keywords if keyword.arg in {"message", "remedy", "hint"})


def _literals(node: ast.AST, name: str, documentation: set[ast.expr], messages: set[ast.expr]) -> Iterator[Found]:
    for child in ast.iter_child_nodes(node):
        if child in documentation:
            continue
        text = flat(child) if isinstance(child, ast.expr) else ""
        if text:
            if child in messages or len(text.split()) >= FEWEST_WORDS:
                kind = Kind.MESSAGE if child in messages else Kind.TEXT
                yield Found(f"{name}:{getattr(child, 'lineno', 0)}", text, kind)
            yield from _inside(child, name, documentation, messages)
        else:
            yield from _literals(child, name, documentation, messages)


def _inside(node: ast.AST, name: str, documentation: set[ast.expr], messages: set[ast.expr]) -> Iterator[Found]:
    """Literals within the values that a text is filled with."""
    for child in ast.walk(node):
        if isinstance(child, ast.FormattedValue | ast.Call):
            yield from _literals(child, name, documentation, messages)


def _comments(source: str, name: str) -> Iterator[Found]:
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or re.match(r"#\s*(noqa|type:|fmt:|pragma|!)", token.string):
            continue
        line = token.start[0]
        if block and line != last + 1:
            yield Found(f"{name}:{last}", " ".join(block), Kind.TEXT)
            block = []
        block.append(re.sub(r"(noqa|type:).*", "", token.string.lstrip("# ")))
        last = line
    if block:
        yield Found(f"{name}:{last}", " ".join(block), Kind.TEXT)

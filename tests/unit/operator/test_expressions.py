"""No expression of a user's is evaluated in the operator: one that backtracks would stop it for every job."""

from __future__ import annotations

import ast
import re
import sys
from importlib import import_module
from pathlib import Path

import kafkasparkjob_operator
import sparkapp

PACKAGES = {
    "sparkapp": Path(sparkapp.__file__).parent,
    "kafkasparkjob_operator": Path(kafkasparkjob_operator.__file__).parent,
}
ENGINES = {"re", "regex", "fnmatch", "glob", "sre_compile"}


def loaded() -> dict[str, Path]:
    """Every module that a running operator has: its own, and all that they import of the application."""
    for path in PACKAGES["kafkasparkjob_operator"].rglob("*.py"):
        parts = path.relative_to(PACKAGES["kafkasparkjob_operator"]).with_suffix("").parts
        if parts[-1] != "__main__":
            import_module(".".join(("kafkasparkjob_operator", *parts)).removesuffix(".__init__"))
    found: dict[str, Path] = {}
    waiting = [name for name in sys.modules if name.split(".")[0] == "kafkasparkjob_operator"]
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        if name in found or module is None or module.__file__ is None:
            continue
        found[name] = Path(module.__file__)
        for node in ast.walk(ast.parse(found[name].read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                waiting += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
        waiting = [name for name in waiting if name.split(".")[0] in PACKAGES]
    return found


def expressions(path: Path) -> list[str]:
    """The regular expressions of a module, each checked to be a literal that is compiled when the module is loaded."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    at_load = {
        id(node.value) for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.module not in ENGINES, f"{path.name}:{node.lineno}"
        if isinstance(node, ast.Import):
            assert not (ENGINES - {"re"}) & {alias.name for alias in node.names}, f"{path.name}:{node.lineno}"
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "re"):
            continue
        # Types, flags and an escape compile nothing.
        if node.attr in {"Pattern", "Match", "escape"} or node.attr.isupper():
            continue
        call = next(
            (
                each
                for each in ast.walk(tree)
                if isinstance(each, ast.Call) and each.func is node and id(each) in at_load
            ),
            None,
        )
        where = f"{path.name}:{node.lineno}: re.{node.attr}"
        assert call is not None, f"{where} is not a constant of the module"
        assert node.attr == "compile", where
        assert isinstance(call.args[0], ast.Constant), f"{where} of something that is no literal"
        found.append(str(call.args[0].value))
    return found


def test_every_expression_in_the_operator_is_a_literal_of_ours() -> None:
    modules = loaded()
    assert {"sparkapp.model.job.rules.spec_rules", "kafkasparkjob_operator.decisions.state_machine"} <= set(modules)
    found = [each for path in modules.values() for each in expressions(path)]
    assert r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(m)?" in found


def test_none_of_ours_repeats_a_repetition() -> None:
    """Python's engine backtracks; without a repetition inside a repetition it does so a polynomial number of times."""
    for path in loaded().values():
        for each in expressions(path):
            assert not _nested(re._parser.parse(each)), f"{path.name}: {each}"  # type: ignore[attr-defined]


def test_the_check_sees_a_repetition_of_a_repetition() -> None:
    assert _nested(re._parser.parse("(a+)+b"))  # type: ignore[attr-defined]
    assert not _nested(re._parser.parse("a+(b*c)?"))  # type: ignore[attr-defined]


def _nested(parsed: object, *, repeated: bool = False) -> bool:
    """Whether an unlimited repetition is inside of another one."""
    for part in parsed:  # type: ignore[attr-defined]
        if isinstance(part, tuple) and str(part[0]).endswith("_REPEAT"):
            _, most, body = part[1]
            many = most == re._constants.MAXREPEAT  # type: ignore[attr-defined]
            if (many and repeated) or _nested(body, repeated=repeated or many):
                return True
        elif isinstance(part, tuple | list | re._parser.SubPattern) and _nested(part, repeated=repeated):  # type: ignore[attr-defined]
            return True
    return False

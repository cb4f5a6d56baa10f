"""The scripts of completion, run by bash; those of other shells have the same words."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kafkaspark.__main__ import main


@pytest.fixture
def script(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", "bash"]) == 0
    return capsys.readouterr().out


def complete(script: str, folder: Path, *words: str) -> list[str]:
    """What bash proposes for the last word; kubectl knows the jobs of a fake."""
    kubectl = folder / "kubectl"
    kubectl.write_text("#!/bin/sh\necho orders-in orders-out\n")
    kubectl.chmod(0o755)
    quoted = " ".join(f"'{word}'" for word in words)
    ask = f'COMP_WORDS=(kafkaspark {quoted}); COMP_CWORD={len(words)}; _kafkaspark; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        [shutil.which("bash") or "bash", "--norc", "-c", f"{script}\n{ask}"], check=True, capture_output=True,
        text=True, env={"PATH": f"{folder}:/usr/bin:/bin"},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        (["va"], ["validate"]),
        (["txn", "ha"], ["hanging"]),
        (["init", "orders", "--template", "s"], ["sql", "stateful"]),
        (["topic", "tail", "--from"], ["--from-beginning"]),
        (["completion", "f"], ["fish"]),
        (["status", "orders-o"], ["orders-out"]),
        (["status", "--verb"], ["--verbose"]),
        (["validate", "job"], []),
    ],
)
def test_bash_proposes_what_fits(script: str, tmp_path: Path, words: list[str], proposed: list[str]) -> None:
    assert complete(script, tmp_path, *words) == proposed


def test_fish_has_every_command_and_option_of_bash(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish"]) == 0
    fish = capsys.readouterr().out
    assert "complete -c kafkaspark -n 'test (__kafkaspark_path) = \"topic tail\"' -l from-beginning" in fish
    assert "-l template -x -a 'sql python arrow stateful join'" in fish
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out == f"autoload -U +X bashcompinit && bashcompinit\n{script}"

"""``kafkaspark completion`` of zsh and fish in these shells: what they propose, and jobs of a cluster."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import time
from pathlib import Path

import pytest

from kafkaspark.__main__ import main
from localcluster.machine import packages
from localcluster.machine.packages import Need
from localcluster.progress import Progress
from localcluster.settings import Settings

SHELLS = {"zsh": Need("zsh", "zsh"), "fish": Need("fish", "fish")}
SECONDS = 120.0
LINES = [
    ("kafkaspark va", "validate"),
    ("kafkaspark txn ha", "hanging"),
    ("kafkaspark init orders --template st", "stateful"),
    ("kafkaspark topic tail --from", "--from-beginning"),
    ("kafkaspark status orders-o", "orders-out"),
]
_ZSH = """\
PROMPT='> '
autoload -U compinit && compinit -u -d "$HOME/compdump"
source "$HOME/script"
shown() { print -r -- "<$BUFFER>"; exit }
zle -N shown
bindkey '^X' shown
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose ``kubectl`` knows two jobs."""
    (tmp_path / "kubectl").write_text("#!/bin/sh\necho orders-in orders-out\n")
    (tmp_path / "kubectl").chmod(0o755)
    return tmp_path


def written(shell: str, home: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Writes the script; returns the environment of the shell."""
    packages.ensure((SHELLS[shell],), Settings.from_environment(), Progress())
    capsys.readouterr()
    assert main(["completion", shell]) == 0
    (home / "script").write_text(capsys.readouterr().out)
    return {
        **os.environ,
        "HOME": str(home),
        "ZDOTDIR": str(home),
        "TERM": "dumb",
        "PATH": f"{home}:{os.environ['PATH']}",
    }


@pytest.mark.parametrize(("line", "word"), LINES, ids=[word for _, word in LINES])
def test_fish_proposes_what_fits(line: str, word: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = written("fish", home, capsys)
    ask = f"source $HOME/script; complete -C '{line}'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", ask], env=environment, capture_output=True, text=True, timeout=SECONDS,
        check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert [proposed.partition("\t")[0] for proposed in done.stdout.splitlines()] == [word]


@pytest.mark.parametrize(("line", "word"), LINES, ids=[word for _, word in LINES])
def test_zsh_completes_what_fits(line: str, word: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = written("zsh", home, capsys)
    (home / ".zshrc").write_text(_ZSH)
    child, terminal = pty.fork()
    if not child:
        os.execvpe("zsh", ["zsh", "-i"], environment)
    said = b""

    def read_until(mark: str) -> str:
        nonlocal said
        deadline = time.monotonic() + SECONDS
        while re.search(mark.encode(), said) is None:
            assert time.monotonic() < deadline, said
            try:
                said += os.read(terminal, 4096)
            except OSError:  # the shell has ended
                break
        return said.decode(errors="replace")

    try:
        read_until("> ")
        os.write(terminal, f"{line}\t\x18".encode())
        found = re.search(r"<([^>]*)>", read_until(r"<[^>]*>"))
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    assert found is not None, said
    assert found.group(1).split() == [*line.split()[:-1], word]

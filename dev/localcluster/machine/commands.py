"""Runs commands to their end, keeps their output, explains their failures."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from localcluster.errors import SetupError


def run(
    argv: Sequence[str | Path],
    *,
    log: Path | None = None,
    hint: str = "",
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> None:
    """Runs a command to its end, with its output in ``log``, which is overwritten.

    ``environment`` is added to this process's environment. ``on_line`` gets each line of output, to report progress.

    :raises SetupError: the program is missing or ended with an error.
    """
    command = [str(argument) for argument in argv]
    environ = {**os.environ, **environment} if environment is not None else None
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with Path(log if log is not None else os.devnull).open("w", encoding="utf-8") as output:
            output.write(f"$ {shlex.join(command)}\n")
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
                cwd=cwd,
                env=environ,
            )
            assert process.stdout is not None
            for line in process.stdout:
                output.write(line)
                output.flush()
                if on_line is not None:
                    on_line(line.rstrip("\n"))
            status = process.wait()
    except FileNotFoundError as missing:
        raise SetupError(f"the program {command[0]} is not on this machine ({missing})", hint=hint) from missing
    if status != 0:
        raise SetupError(f"{shlex.join(command)} ended with status {status}", log=log, hint=hint)


def output_of(argv: Sequence[str | Path], *, stdin: bytes | None = None) -> str:
    """The output of a quick command.

    :raises SetupError: the program is missing or ended with an error, which is in the message.
    """
    command = [str(argument) for argument in argv]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    except FileNotFoundError as missing:
        raise SetupError(f"the program {command[0]} is not on this machine") from missing
    if done.returncode != 0:
        stderr = done.stderr.decode(errors="replace").strip()
        raise SetupError(f"{shlex.join(command)} ended with status {done.returncode}: {stderr}")
    return done.stdout.decode(errors="replace")


def succeeds(argv: Sequence[str | Path]) -> bool:
    """Whether a quick command ends without an error. A program that is not on this machine does not."""
    command = [str(argument) for argument in argv]
    nothing = subprocess.DEVNULL
    try:
        done = subprocess.run(command, stdin=nothing, stdout=nothing, stderr=nothing, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0

"""``kafkaspark completion SHELL``: a script that completes commands, options, their values, and names of jobs."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkaspark.cluster.options import subcommands

_EXAMPLES = """\
examples:
  source <(kafkaspark completion bash)              # in ~/.bashrc
  source <(kafkaspark completion zsh)               # in ~/.zshrc, behind compinit
  kafkaspark completion fish > ~/.config/fish/completions/kafkaspark.fish
"""
_JOBS = "kubectl get kafkasparkjobs -o jsonpath='{.items[*].metadata.name}' 2>/dev/null"


@dataclass(frozen=True, slots=True)
class Completed:
    """What can follow a command.

    :param path: names of command and subcommand.
    :param values: of options, by option.
    :param takes_job: whether its first argument is the name of a job.
    """

    path: tuple[str, ...]
    words: tuple[str, ...]
    options: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]
    takes_job: bool


def add_commands(commands: Any) -> None:
    """Registers ``completion``; called by ``kafkaspark.__main__`` once.

    :param commands: what ``ArgumentParser.add_subparsers`` returned. Its commands are read when the command runs.
    """
    what = "print the script that completes the command line in a shell"
    command = commands.add_parser(
        "completion", help=what, description=what, epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    command.add_argument("shell", choices=tuple(_SHELLS))
    command.set_defaults(answer=lambda options: _answer(commands.choices, options))


def _answer(commands: Mapping[str, argparse.ArgumentParser], options: argparse.Namespace) -> int:
    completed = [Completed((), tuple(commands), ("--help",), {}, takes_job=False), *_completed(commands)]
    print(_SHELLS[options.shell](completed), end="")
    return 0


def _completed(commands: Mapping[str, argparse.ArgumentParser], path: tuple[str, ...] = ()) -> Iterator[Completed]:
    for name, parser in commands.items():
        below = subcommands(parser)
        actions = parser._actions
        named = [action for action in actions if action.option_strings]
        first = next((action for action in actions if not action.option_strings), None)
        choices = first.choices if first is not None and not below and first.choices else ()
        yield Completed(
            path=(*path, name),
            words=tuple(below) or tuple(map(str, choices)),
            options=tuple(option for action in named for option in action.option_strings),
            values={
                option: tuple(map(str, action.choices))
                for action in named
                if action.choices
                for option in action.option_strings
            },
            takes_job=first is not None and first.dest == "job",
        )
        yield from _completed(below, (*path, name))


def bash(completed: Sequence[Completed]) -> str:
    """A script for bash, which zsh reads, too. Where no word fits, the shell completes file names.

    It has no variable ``path``, which is the search path of zsh as an array.
    """
    known = " | ".join(f'" {" ".join(each.path)}"' for each in completed if each.path)
    cases = []
    for each in completed:
        values = "".join(
            f"      {option}) found={shlex.quote(' '.join(found))} ;;\n" for option, found in each.values.items()
        )
        words = shlex.quote(" ".join(each.words)) if not each.takes_job else f'"$({_JOBS})"'
        path = f" {' '.join(each.path)}" if each.path else ""
        cases.append(
            f'    "{path}")\n'
            f'      case "$previous" in\n{values}'
            f'      *) if [[ "$current" == -* ]]; then found={shlex.quote(" ".join(each.options))};'
            f" else found={words}; fi ;;\n      esac ;;\n"
        )
    return f"""\
_kafkaspark() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" chosen="" found="" index
  for ((index = 1; index < COMP_CWORD; index++)); do
    case "$chosen ${{COMP_WORDS[index]}}" in {known}) chosen="$chosen ${{COMP_WORDS[index]}}" ;; esac
  done
  case "$chosen" in
{"".join(cases)}  esac
  COMPREPLY=($(compgen -W "$found" -- "$current"))
}}
complete -o default -F _kafkaspark kafkaspark
"""


def zsh(completed: Sequence[Completed]) -> str:
    """The script for bash, with zsh's reading of it."""
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash(completed)}"


def fish(completed: Sequence[Completed]) -> str:
    """A script for fish."""
    paths = " ".join(shlex.quote(" ".join(each.path)) for each in completed if each.path)
    lines = [
        "function __kafkaspark_path",
        f"  set -l known {paths}",
        '  set -l path ""',
        "  for word in (commandline -opc)[2..]",
        '    set -l longer (string trim -- "$path $word")',
        '    contains -- "$longer" $known; and set path "$longer"',
        "  end",
        '  echo "$path"',
        "end",
    ]
    for each in completed:
        at = shlex.quote(f'test (__kafkaspark_path) = "{" ".join(each.path)}"')
        begin = f"complete -c kafkaspark -n {at}"
        if each.words:
            lines.append(f"{begin} -f -a {shlex.quote(' '.join(each.words))}")
        if each.takes_job:
            jobs = f"(string split ' ' ({_JOBS}))"
            lines.append(f"{begin} -f -a {shlex.quote(jobs)}")
        for option in each.options:
            kind, name = ("-l", option[2:]) if option.startswith("--") else ("-s", option[1:])
            values = each.values.get(option)
            lines.append(f"{begin} {kind} {name}" + (f" -x -a {shlex.quote(' '.join(values))}" if values else ""))
    return "\n".join(lines) + "\n"


_SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}

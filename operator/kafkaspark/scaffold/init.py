"""``kafkaspark init NAME``: a folder with a job that runs at once."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from sparkapp.model import names
from sparkapp.model.errors import CommandRefused

NAME = "my-job"
"""The job's name in the templates."""
TEMPLATES = {
    "sql": "Writes the large orders, by a SQL query.",
    "python": "Adds the tax to each order, by a function over DataFrames.",
    "arrow": "Masks the customers of orders, by a function over Arrow batches in the continuous engine.",
    "stateful": "Counts the orders of each minute, by a function that keeps state.",
    "join": "Joins orders and their payments, by a function that keeps state.",
}
_INPUT = "orders.jsonl"
_EXAMPLES = """\
examples:
  kafkaspark init orders
  kafkaspark init totals --template stateful
"""
_KUSTOMIZATION = """\
# kubectl apply -k . applies job.yaml{code}.
resources: [job.yaml]
"""
_GENERATOR = """\
configMapGenerator:
  - name: my-job-code
    files: [transform.py]
generatorOptions:
  disableNameSuffixHash: true   # the job names the ConfigMap, and restarts by itself when its content changes
"""
_CONTENTS = {
    "job.yaml": "the job",
    "transform.py": "its function",
    _INPUT: "records for `kafkaspark dev`",
    "test_transform.py": "tests, which need neither Kafka nor Kubernetes",
    "kustomization.yaml": "what `kubectl apply -k .` applies",
}


def add_commands(commands: Any) -> None:
    """Registers ``init``, as :func:`kafkaspark.validate.add_commands` does ``validate``."""
    what = "make a folder with a job, its code, sample data and a test"
    command = commands.add_parser(
        "init", help=what, description=what, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("name", metavar="NAME", help="of the job and of the folder, which may be a path")
    command.add_argument("--template", choices=TEMPLATES, default="python", help="default: python")
    command.set_defaults(answer=_answer)


def _answer(options: argparse.Namespace) -> int:
    folder = Path(options.name)
    check(folder)
    write(folder, options.template)
    print(
        f"{folder} has a job of the template {options.template}. Next:\n"
        f"  cd {folder}\n"
        f"  kafkaspark dev job.yaml --input {_INPUT}\n"
        f"  python -m pytest"
    )
    return 0


def check(folder: Path) -> None:
    """:raises CommandRefused: no job can be made there."""
    problem = names.job_name_problem(folder.name)
    if problem:
        raise CommandRefused(f"{folder.name!r} is no name of a job: {problem}", remedy="kafkaspark init orders")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandRefused(f"{folder} exists and is not empty", remedy="choose another name, or remove it")


def write(folder: Path, template: str) -> None:
    """Makes the folder with the files of a template.

    :raises OSError: a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in contents(template):
        (folder / file).write_text(text.replace(NAME, folder.name), encoding="utf-8")


def contents(template: str) -> Iterator[tuple[str, str]]:
    """The name and the text of each file, in which :data:`NAME` is the job."""
    templates = files("kafkaspark.scaffold") / "templates"
    texts = {entry.name: entry.read_text(encoding="utf-8") for entry in _entries(templates / template)}
    has_code = "transform.py" in texts
    kustomization = _KUSTOMIZATION.format(code=", and makes the ConfigMap of its code" if has_code else "")
    texts["kustomization.yaml"] = kustomization + (_GENERATOR if has_code else "")
    table = "\n".join(f"| `{file}` | {what} |" for file, what in _CONTENTS.items() if file in texts)
    readme = (templates / "README.md").read_text(encoding="utf-8")
    texts["README.md"] = readme.replace("TITLE", TEMPLATES[template]).replace("INPUT", _INPUT).replace("FILES", table)
    yield from sorted(texts.items())


def _entries(folder: Traversable) -> Iterator[Traversable]:
    return (entry for entry in folder.iterdir() if entry.is_file() and not entry.name.endswith(".pyc"))

"""``kafkaspark package FILE``: a job's modules as a ConfigMap, or with their packages as the context of an image."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kafkaspark.local.project import Project, chosen_job, project_of
from kafkaspark.manifests import objects
from sparkapp.cli.client_file import read_text
from sparkapp.model.errors import CommandRefused

_MOST_BYTES = 1 << 20
"""What a ConfigMap holds."""
_EXAMPLES = """\
examples:
  kafkaspark package job.yaml | kubectl apply -f -
  kafkaspark package job.yaml --image REGISTRY/orders:1 --from REGISTRY/kafkaspark/sparkapp:0.2.0

Without --image the answer is the ConfigMap that spec.transform names. With it, a folder with a Containerfile.
"""
_CODE = frozenset({"python", "arrow"})
"""Parts of spec.transform that name a ConfigMap."""
_PACKAGES = "/usr/local/lib/user-packages"
_CONTAINERFILE = """\
# The code of {job}, and its packages. The folder of packages is on the Python path of driver and executors.
{stage}FROM {base}
{copy}COPY code {packages}
COPY user.pth /usr/local/lib/python3.11/dist-packages/user.pth
"""
_STAGE = """\
FROM docker.io/library/python:3.11-slim-bookworm AS packages
COPY requirements.txt .
RUN python3 -m pip install --no-cache-dir --target /packages --requirement requirements.txt

"""


def add_commands(commands: Any) -> None:
    """Registers ``package``, as :func:`kafkaspark.validate.add_commands` does ``validate``."""
    what = "put a job's modules into a ConfigMap, or with its requirements into an image"
    command = commands.add_parser(
        "package", help=what, description=what, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("file", metavar="FILE", type=Path, help="YAML or JSON with the KafkaSparkJob")
    command.add_argument("--name", default="", help="of the job, where the file has several")
    command.add_argument("--namespace", "-n", default="default", help="of a job that names none")
    command.add_argument("--image", default="", metavar="REGISTRY/NAME:TAG", help="make the context of this image")
    command.add_argument("--from", dest="base", default="", metavar="IMAGE", help="sparkapp image of the release")
    command.add_argument(
        "--requirements", type=Path, metavar="FILE", help="by default requirements.txt in the job's folder"
    )
    command.add_argument("--output", type=Path, metavar="FOLDER", help="of the context; by default package-NAME")
    command.set_defaults(answer=_answer)


def _answer(options: argparse.Namespace) -> int:
    bodies = list(objects(str(options.file)))
    body = chosen_job(bodies, options.file, options.name)
    project = project_of(
        body, folder=options.file.parent, others=bodies, namespace=options.namespace, environ=os.environ
    )  # fmt: skip
    if not project.files:
        msg = f"the job {project.job.name} has no modules of its own: its transform is SQL, or of an image"
        raise CommandRefused(msg, remedy="apply the job: kubectl apply -f FILE")
    file = options.requirements or options.file.parent / "requirements.txt"
    requirements = read_text(file) if options.requirements is not None or file.is_file() else None
    if options.image:
        folder = options.output or Path(f"package-{project.job.name}")
        write_context(
            folder, project, body, image=options.image, base=options.base or str(body["spec"].get("image") or ""),
            requirements=requirements or "",
        )  # fmt: skip
        print(_next_commands(folder, options.image))
        return 0
    if requirements is not None:
        msg = f"{file} names packages, and a ConfigMap has modules alone"
        raise CommandRefused(msg, remedy="make an image: add --image REGISTRY/NAME:TAG")
    print(yaml.safe_dump(config_map(project), sort_keys=False), end="")
    return 0


def config_map(project: Project) -> dict[str, Any]:
    """The ConfigMap of the job's modules.

    :raises CommandRefused: the job names none, or the modules are too large for one.
    """
    job = project.job
    if not job.spec.transform.code:
        msg = "spec.transform names no ConfigMap"
        raise CommandRefused(msg, remedy=f"set configMapRef.name: {job.name}-code next to its function, or add --image")
    data = {name: _text(content) for name, content in project.files.items()}
    size = sum(len(text.encode()) for text in data.values())
    if size > _MOST_BYTES:
        msg = f"the modules have {size} bytes, and a ConfigMap holds {_MOST_BYTES}"
        raise CommandRefused(msg, remedy="make an image: add --image REGISTRY/NAME:TAG")
    metadata = {"name": job.spec.transform.code, "namespace": job.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def write_context(
    folder: Path, project: Project, body: Mapping[str, Any], *, image: str, base: str, requirements: str
) -> None:
    """Writes a folder that a builder of images takes, and the job with the image in place of its ConfigMap.

    :param body: of the resource. :param base: the image that it builds on.
    :param requirements: text for pip; empty for none.
    :raises CommandRefused: there is no base, or the folder is not empty.
    """
    if not base:
        msg = "the sparkapp image of your release is not known"
        raise CommandRefused(msg, remedy="add --from REGISTRY/kafkaspark/sparkapp:VERSION, the chart's job.image")
    if folder.exists() and any(folder.iterdir()):
        msg = f"{folder} is not empty"
        raise CommandRefused(msg, remedy="name a new folder: --output FOLDER")
    code = folder / "code"
    code.mkdir(parents=True)
    for name, content in project.files.items():
        if isinstance(content, Path):
            shutil.copyfile(content, code / name)
        else:
            (code / name).write_text(content, encoding="utf-8")
    text = _CONTAINERFILE.format(
        job=f"{project.job.namespace}/{project.job.name}", base=base, packages=_PACKAGES,
        stage=_STAGE if requirements else "", copy=f"COPY --from=packages /packages {_PACKAGES}\n" * bool(requirements),
    )  # fmt: skip
    (folder / "Containerfile").write_text(text, encoding="utf-8")
    (folder / "user.pth").write_text(f"{_PACKAGES}\n", encoding="utf-8")
    if requirements:
        (folder / "requirements.txt").write_text(requirements, encoding="utf-8")
    (folder / "job.yaml").write_text(yaml.safe_dump(_with_image(body, image), sort_keys=False), encoding="utf-8")


def _with_image(body: Mapping[str, Any], image: str) -> dict[str, Any]:
    transform = {
        kind: {name: value for name, value in part.items() if name != "configMapRef"} if kind in _CODE else part
        for kind, part in body["spec"]["transform"].items()
    }
    return {**body, "spec": {**body["spec"], "image": image, "transform": transform}}


def _text(content: Path | str) -> str:
    return read_text(content) if isinstance(content, Path) else content


def _next_commands(folder: Path, image: str) -> str:
    return (
        f"{folder} has the context of {image}. Next:\n"
        f"  docker build --file {folder}/Containerfile --tag {image} {folder}\n"
        f"  docker push {image}\n"
        f"  kubectl apply -f {folder}/job.yaml"
    )

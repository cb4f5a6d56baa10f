"""``python -m imagerelease``: builds the images of a release, and what their builds depend on."""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from imagerelease.bill_of_materials import attach
from imagerelease.debian_lock import write_locks
from imagerelease.difference import differences
from imagerelease.release import Source, build_from_nothing
from localcluster.errors import SetupError
from localcluster.images.builder import NAMES, Image
from localcluster.settings import REPOSITORY

_MAX_DIFFERENCES = 20


def main(arguments: Sequence[str]) -> int:
    """Runs a command; the exit status is 1 where two builds differ, and 2 after an error."""
    parser = argparse.ArgumentParser(prog="python -m imagerelease", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("build", "build images as OCI layouts, each with its bill of materials"),
        ("twice", "build images twice from nothing, and compare every bit"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("images", nargs="*", default=list(NAMES), metavar="IMAGE", help="by default all")
        command.add_argument("--base-image", default="", help="with its digest; by default made from Debian's archive")
        command.add_argument("--archive", default="", help="a snapshot archive; by default the machine's archive")
        command.add_argument("--output", type=Path, default=REPOSITORY / "artifacts" / "images", metavar="FOLDER")
    commands.add_parser("lock-debian", help="write locks/debian from Debian's archive")
    commands.add_parser("class-list", help="write sparkapp/spark/launch/archive/*.list from runs of Spark")
    options = parser.parse_args(arguments)
    try:
        if options.command == "lock-debian":
            write_locks()
            return 0
        if options.command == "class-list":
            from imagerelease.class_list import write_class_list, write_laptop_list  # noqa: PLC0415 - imports pyspark

            write_class_list()
            write_laptop_list()
            return 0
        source = Source(options.base_image, options.archive)
        if options.command == "twice":
            return max([_twice(Image(name), source) for name in options.images])
        for name in options.images:
            _build(Image(name), source, options.output)
    except SetupError as error:
        print(error.report(), file=sys.stderr)
        return 2
    return 0


def _build(image: Image, source: Source, folder: Path) -> None:
    layout = build_from_nothing(image, source, folder.resolve())
    print(f"{image.name}: {layout.digest} in {layout.folder}, {attach(image, layout)}")


def _twice(image: Image, source: Source) -> int:
    """0 where two builds of the image, and their bills of materials, are equal."""
    # Below the repository: the folder for temporary files may be in memory, and an image is gigabytes.
    (REPOSITORY / "artifacts").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=REPOSITORY / "artifacts") as folder:
        layouts = [build_from_nothing(image, source, Path(folder) / number) for number in ("first", "second")]
        bills = [attach(image, layout).read_bytes() for layout in layouts]
        print(f"{image.name}: {layouts[0].digest} | {layouts[1].digest}")
        lines = list(itertools.islice(differences(*layouts), _MAX_DIFFERENCES))
        lines += ["the bills of materials differ"] if bills[0] != bills[1] else []
    for line in lines or ["the builds are equal bit by bit"]:
        print(f"  {line}")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""``python -m localcluster.objectstore FOLDER``: the classes for object stores, for an image."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from localcluster.objectstore.client import StoreClasses
from localcluster.progress import Progress
from localcluster.settings import Settings


def main(folder: Path) -> None:
    """Downloads the jars where the cache lacks them, and copies them.

    :raises SetupError: see :meth:`StoreClasses.fetch`.
    """
    settings = Settings.from_environment()
    classes = StoreClasses.of(settings)
    classes.fetch(settings, Progress())
    folder.mkdir(parents=True, exist_ok=True)
    for jar in classes.class_path.split(":"):
        shutil.copy(jar, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

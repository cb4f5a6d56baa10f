"""The documentation site of a release, as an archive of its pages."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.settings import REPOSITORY
from releasefiles.archives import compressed, files_of, tar_of
from sparkapp import __version__


def write_site(folder: Path) -> None:
    """Renders the pages, and writes ``kafkaspark-docs-VERSION.tar.gz``.

    :raises SetupError: a link is broken.
    """
    with tempfile.TemporaryDirectory() as site:
        done = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", site], cwd=REPOSITORY,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            msg = f"the site was not rendered:\n{done.stderr[-2000:]}"
            raise SetupError(msg)
        name = f"kafkaspark-docs-{__version__}"
        files = {f"{name}/{path}": content for path, content in files_of(Path(site)).items()}
        (folder / f"{name}.tar.gz").write_bytes(compressed(tar_of(files)))

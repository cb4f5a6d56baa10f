"""The allocator of the sparkapp image, for programs of a bench that run without the image."""

from __future__ import annotations

import re
from collections.abc import Mapping

from localcluster.machine import packages
from localcluster.progress import Progress
from localcluster.settings import REPOSITORY, Settings

_VARIABLES = re.compile(r"^(?:ENV| +) ?(LD_PRELOAD|MALLOC_CONF)=(\S+)", re.MULTILINE)
_CONTAINERFILE = REPOSITORY / "images" / "sparkapp" / "Containerfile"


def allocator() -> Mapping[str, str]:
    """The variables of the environment that choose it. Installs its library, a Debian package, at its first use.

    :raises SetupError: it cannot be installed.
    """
    packages.ensure([packages.ALLOCATOR], Settings.from_environment(), Progress())
    return dict(_VARIABLES.findall(_CONTAINERFILE.read_text(encoding="utf-8")))

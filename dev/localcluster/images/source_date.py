"""The date of the images' files, which the Containerfiles name."""

from __future__ import annotations

import re

from localcluster.settings import REPOSITORY


def source_date_epoch() -> int:
    """``SOURCE_DATE_EPOCH`` of the Containerfiles, in seconds: the date of Debian's snapshot.

    A fixed date, and not that of a commit: a layer changes only when its contents do.
    """
    text = (REPOSITORY / "images" / "operator" / "Containerfile").read_text(encoding="utf-8")
    (seconds,) = re.findall(r"^ARG SOURCE_DATE_EPOCH=(\d+)$", text, re.MULTILINE)
    return int(seconds)

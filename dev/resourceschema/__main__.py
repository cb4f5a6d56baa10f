"""Writes the generated files: ``make generate``."""

from __future__ import annotations

import sys

from resourceschema.files import REPOSITORY, generated


def main() -> int:
    """:returns: 0."""
    for path, text in generated().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(REPOSITORY)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Entry point of ``python3 -m localcluster``."""

import sys

if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - it runs with whatever python3 the machine has
        sys.exit(f"error: this needs Python 3.11 or newer; python3 is {sys.version.split()[0]}")
    from localcluster.cli import main

    sys.exit(main())

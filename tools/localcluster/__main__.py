"""Entry point of ``python3 -m localcluster``."""

import sys

from localcluster.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""`python -m tfjit.demo`: the same as `tfjit demo`."""

from __future__ import annotations

import sys

from tfjit.cli import main

if __name__ == "__main__":
    sys.exit(main(["demo", *sys.argv[1:]]))

"""`tfjit.app`: a program's main function, run after its flags are read."""

from __future__ import annotations

from tfjit.client import flags
from tfjit.client.flags import run

__all__ = ["flags", "run"]

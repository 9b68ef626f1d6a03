"""Write large tensors to files beside the dumps that name them.

Dumps stay short and can be read back.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FOLDER = "constants"
"""The folder of these files in the folder of a plan's dumps."""


@dataclass(frozen=True, slots=True)
class TensorFiles:
    """A folder of tensors, one file for each.

    A file contains the bytes of a tensor and is named by their digest.
    """

    folder: Path

    def put(self, array: np.ndarray) -> str:
        """Write a tensor unless its file exists; return its name."""
        raw = array.tobytes()
        name = hashlib.sha256(raw).hexdigest()[:16]
        path = self.folder / f"{name}.bin"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(raw)
        return name

    def get(self, name: str) -> bytes:
        """Return the bytes of a tensor. Raises FileNotFoundError."""
        return (self.folder / f"{name}.bin").read_bytes()

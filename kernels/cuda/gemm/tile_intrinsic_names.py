"""Name the intrinsics that texts of matrix products may use.

`tile_intrinsics` defines them for a GPU, `simulated_tile_intrinsics` for host memory.
"""

from __future__ import annotations

from typing import Final

NAMES: Final = (
    "ld_below", "ld_below2", "ld_below4", "ld_inside", "ld_inside2", "ld_inside4", "multiply_slab",
    "run_of", "scale_rows", "st_shared2", "st_shared4", "zeros",
)  # fmt: skip

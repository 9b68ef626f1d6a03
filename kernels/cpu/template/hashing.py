"""Hash integers for the tables of kernels."""

from __future__ import annotations

from typing import Final

GOLDEN: Final = -7046029254386353131
"""2**64 divided by the golden ratio, as a signed number.

Its products spread over all bits.
"""

__all__ = ["GOLDEN"]

"""Check the defaults of columns of CSV."""

from __future__ import annotations

from collections.abc import Sequence

from tfjit.framework.types.shape import Shape
from tfjit.ops.core.shape_rules import fail


def check_defaults(shapes: Sequence[Shape]) -> None:
    """Raise ValueError for a default that has more than one element."""
    for shape in shapes:
        if shape is not None and (
            len(shape) > 1 or (len(shape) == 1 and shape[0] is not None and shape[0] > 1)
        ):
            raise fail("Shape of a default must be a length-0 or length-1 vector, or a scalar.")

"""The shape of a tensor, for families below those of arrays."""

from __future__ import annotations

import numpy as np

from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor


def shape_of(value: Tensor, name: str = "Shape") -> Tensor:
    """Return the shape as int32.

    A known shape is a constant of that name.
    """
    known = value.shape_tuple
    if known is None or None in known:
        return tensor("Shape", None, input=value)
    return convert_to_tensor(np.array(known, np.int32), name=name)

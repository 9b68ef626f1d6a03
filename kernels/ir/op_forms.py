"""List op types by their part in fused groups on any device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SLICING: Final = frozenset(
    {"Slice", "StridedSlice", "ReverseV2", "Split", "SplitV", "Unpack", "Tile"}
)
"""Index maps of loops; other templates read their results from memory."""
MOVING: Final = frozenset({"Transpose", "BroadcastTo"}) | SLICING
"""Index maps that a fused kernel reads through."""
PARAMETERS: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("Reshape", "ExpandDims", "Transpose", "BroadcastTo", "ReverseV2", "Tile"), (1,)),
    "Slice": (1, 2), "StridedSlice": (1, 2, 3), "Split": (0,), "SplitV": (1, 2),
}  # fmt: skip
"""The inputs that define an index map; planning must know them."""
BIAS: Final = frozenset({"BiasAdd", "BiasAddV1"})
ROW_OPS: Final = frozenset(
    {
        "Softmax",
        "LogSoftmax",
        "SoftmaxCrossEntropyWithLogits",
        "SparseSoftmaxCrossEntropyWithLogits",
    }
)
"""Op types that are several reductions along the last dim themselves."""

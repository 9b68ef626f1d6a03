"""Map op types to builders of CUDA launches."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from typing import Final

from tfjit.kernels.registry import Builder

_BUILDERS: Final[dict[str, Builder]] = {}
_WITHOUT: Final[dict[str, frozenset[str]]] = {}
_FAMILIES: Final = (
    "conv.argmax_pooling",
    "conv.conv",
    "conv.depthwise",
    "conv.pooling",
    "data_movement.diagonal",
    "data_movement.gather",
    "data_movement.mirrored",
    "data_movement.movement",
    "data_movement.padded_rows",
    "data_movement.scatter",
    "data_movement.sequences",
    "elementwise.assign",
    "elementwise.loop",
    "elementwise.optimizer_updates",
    "elementwise.sparse_updates",
    "fused",
    "gemm.matmul",
    "gemm.sparse_product",
    "images.crop",
    "images.resize",
    "random.stateful_random",
    "random.stateless_random",
    "reduction.argmax",
    "reduction.binary_search",
    "reduction.reduction",
    "reduction.response_normalization",
    "reduction.row_reduction",
    "reduction.scan",
    "reduction.segment",
    "reduction.top_k",
)
"""Modules of this package that register builders."""
_loaded: list[str] = []


def device_native(*op_types: str, without: Collection[str] = ()) -> Callable[[Builder], Builder]:
    """Register the builder of launches for op types.

    without: names of dtypes that it has no form for. The passes then know that nodes with an input
    or output of these are the host's; an Unsupported of the builder shows in a run only. Raises
    ValueError for a second one.
    """

    def register(builder: Builder) -> Builder:
        for op_type in op_types:
            if op_type in _BUILDERS:
                raise ValueError(f"two CUDA builders for {op_type}")
            _BUILDERS[op_type] = builder
            _WITHOUT[op_type] = frozenset(without)
        return builder

    return register


def find_builder(op_type: str) -> Builder | None:
    """Return the builder of an op type, or None."""
    if not _loaded:
        for family in _FAMILIES:
            importlib.import_module(f"tfjit.kernels.cuda.{family}")
        _loaded.append("all")
    return _BUILDERS.get(op_type)


def refused_types(op_type: str) -> frozenset[str]:
    """Return the dtypes' names for which a builder has no form."""
    return _WITHOUT.get(op_type, frozenset()) if find_builder(op_type) is not None else frozenset()

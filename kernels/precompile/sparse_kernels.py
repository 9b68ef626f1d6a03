"""List sources for sparse matrices, segments, sampled classes, and unknown sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.data_movement.unique import unique_source
from tfjit.kernels.cpu.data_movement.where import where_source
from tfjit.kernels.cpu.elementwise.sparse_math import values_with_dense_source
from tfjit.kernels.cpu.gemm.sparse_math import product_source
from tfjit.kernels.cpu.random.candidate_sampling import SAMPLERS, sampler_source
from tfjit.kernels.cpu.reduction.box_suppression import suppression_source
from tfjit.kernels.cpu.reduction.segment import segment_source
from tfjit.kernels.source import KernelSource

_MASKS: Final = ((d.bool, 1), (d.bool, 2), (d.bool, 3), (d.int32, 1), (d.int64, 1), (d.float32, 1))
"""Dtype and rank of the arrays whose elements are searched."""


def sparse_sources() -> Iterator[KernelSource]:
    """Yield the sources."""
    for kind, counts in itertools.product(("i32", "i64"), (False, True)):
        yield unique_source(kind, "i32", counts)
    for kind in ("i32", "i64"):
        yield unique_source(kind, "i64", False)
    for dtype, rank in _MASKS:
        yield where_source(dtype, rank)
    yield suppression_source(2)
    for kind, ids in itertools.product(("Sum", "Mean"), ("i32", "i64")):
        yield segment_source(kind, d.float32, ids)
    for kind, ids, index in itertools.product(
        ("Sum", "Mean", "SqrtN"), ("i32", "i64"), ("i32", "i64")
    ):
        yield segment_source(kind, d.float32, ids, index)
    for adjoint in (False, True):
        yield product_source(d.float32, "i64", adjoint)
    yield values_with_dense_source("Mul", d.float32, 2)
    for op, unique in itertools.product(SAMPLERS, (False, True)):
        yield sampler_source(op, unique)

"""List sources for sparse matrices, segments, samples, searches, and unknown sizes."""

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
from tfjit.kernels.cpu.random.rejection import sampler_source as rejection_source
from tfjit.kernels.cpu.random.shuffle import classes_source, shuffle_source
from tfjit.kernels.cpu.reduction.box_suppression import suppression_source
from tfjit.kernels.cpu.reduction.histogram import histogram_source
from tfjit.kernels.cpu.reduction.local_response import gradient_source, response_source
from tfjit.kernels.cpu.reduction.segment import segment_source
from tfjit.kernels.cpu.reduction.sorted_search import search_source
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
    yield shuffle_source()
    for out in ("i32", "i64"):
        yield classes_source("f32", out)
    yield rejection_source("gamma", d.float32, d.float32)
    for counted in (d.float32, d.int32):
        yield rejection_source("poisson", d.float32, counted)
    yield histogram_source(d.float32, "i32")
    for upper in (False, True):
        yield search_source(d.float32, "i32", upper)
    for radius, beta in ((5, 0.5), (2, 0.75)):
        yield response_source(radius, beta)
        yield gradient_source(radius, beta)

"""List nodes that cover reductions, losses, scans and searches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.precompile.nodes import Input, Shape, integers, node, scalar, tensor
from tfjit.kernels.registry import NodeSpec

_USUAL: Final[tuple[tuple[Shape, Shape], ...]] = (
    ((300,), (0,)),  # a whole vector
    ((40, 300), (1,)),  # rows
    ((40, 300), (0,)),  # columns
    ((40, 30), (0,)),  # short columns, which are folded
    ((2, 3), (1,)),  # short rows
)
_ALL: Final[tuple[tuple[Shape, Shape], ...]] = (
    *_USUAL,
    ((300, 1), (0,)),
    ((2, 3, 30), (0,)),
    ((4, 10, 30), (1,)),
    ((4, 10, 30), (0, 2)),
    ((4, 10, 6, 30), (1, 3)),
    ((4, 10, 6, 30), (0, 2)),
    ((1, 300), (1,)),
    ((1,), (0,)),
    ((300,), ()),
)
_REDUCED: Final[dict[str, tuple[DType, ...]]] = {
    "Sum": (d.float32, d.float64, d.int32),
    "Mean": (d.float32, d.float64),
    "Max": (d.float32, d.int32),
    "Min": (d.float32, d.int32),
    "Prod": (d.float32, d.int32),
    "All": (d.bool,),
    "Any": (d.bool,),
    "EuclideanNorm": (d.float32,),
}


def reduction_nodes() -> Iterator[NodeSpec]:
    """Yield the nodes."""
    for op, dtypes in _REDUCED.items():
        for dtype in dtypes:
            often = op in ("Sum", "Mean", "Max") and dtype is d.float32
            for shape, axes in _ALL if often else _USUAL:
                left = [n for k, n in enumerate(shape) if k not in axes]
                inputs: list[Input] = [tensor(dtype, *shape), integers(*axes)]
                yield node(op, inputs, [tensor(dtype, *left)], T=dtype, keep_dims=False)
    for dtype in (d.float32, d.float64):
        for size in ((), (300,)):
            yield node("L2Loss", [tensor(dtype, *size)], [tensor(dtype)], T=dtype)
        for shape in ((40, 300), (40, 30), (4, 8, 8, 30)):
            inputs = [tensor(dtype, *shape)]
            outputs = [tensor(dtype, shape[-1])]
            yield node("BiasAddGrad", inputs, outputs, T=dtype, data_format=b"NHWC")
        images = [tensor(dtype, 4, 30, 8, 8)]
        yield node("BiasAddGrad", images, [tensor(dtype, 30)], T=dtype, data_format=b"NCHW")
        yield from _rows(dtype)
    yield from _searches()
    yield from _scans()


def _rows(dtype: DType) -> Iterator[NodeSpec]:
    for columns in (10, 300, 5000):
        x, loss = tensor(dtype, 40, columns), tensor(dtype, 40)
        for op in ("Softmax", "LogSoftmax"):
            yield node(op, [x], [x], T=dtype)
        yield node("SoftmaxCrossEntropyWithLogits", [x, x], [loss, x], T=dtype)
        for labels in (d.int32, d.int64):
            yield node(
                "SparseSoftmaxCrossEntropyWithLogits",
                [x, tensor(labels, 40)],
                [loss, x],
                T=dtype,
                Tlabels=labels,
            )


def _searches() -> Iterator[NodeSpec]:
    for dtype in (d.float32, d.float64, d.int32):
        for op in ("ArgMax", "ArgMin"):
            for shape, axis in (((40, 300), 1), ((40, 10), 1), ((40, 300), 0)):
                left = shape[0] if axis else shape[1]
                for index in (d.int64, d.int32):
                    inputs: list[Input] = [tensor(dtype, *shape), scalar(axis)]
                    yield node(op, inputs, [tensor(index, left)], T=dtype, output_type=index)
    for dtype in (d.float32, d.int32):
        for k in (5, 150):
            outputs = [tensor(dtype, 40, k), tensor(d.int32, 40, k)]
            yield node("TopKV2", [tensor(dtype, 40, 300), scalar(k)], outputs, T=dtype, sorted=True)
    for index in (d.int32, d.int64):
        scores = [tensor(d.float32, 40, 300), tensor(index, 40)]
        yield node("InTopKV2", [*scores, scalar(5)], [tensor(d.bool, 40)], T=index)


def _scans() -> Iterator[NodeSpec]:
    for op in ("Cumsum", "Cumprod"):
        for dtype in (d.float32, d.int32, d.int64):
            for axis in (0, 1):
                x = tensor(dtype, 40, 300)
                yield node(op, [x, scalar(axis)], [x], T=dtype, exclusive=False, reverse=False)

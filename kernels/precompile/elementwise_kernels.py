"""List nodes that cover the loops of single elementwise ops.

A loop's text depends on the op, the dtypes, the number of dims that are left after merging, and the
pattern of each operand along the innermost one; the builders see to that, so a few shapes stand for
all. Long chains of arithmetic have further variants for long rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tfjit.framework.scalar import elementwise
from tfjit.framework.scalar.elementwise import Elementwise
from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.precompile.nodes import Shape, node, tensor
from tfjit.kernels.registry import NodeSpec

LENGTHS: Final = (100, 300, 2000)
"""Inner lengths with different interleaving of long chains."""

# the result's shape is the broadcast shape of the operands
_ONE: Final = (((), ()),)
_VECTORS: Final = tuple(
    shapes for n in LENGTHS for shapes in (((n,), (n,)), ((n,), ()), ((), (n,)))
)
_MATRICES: Final = tuple(
    shapes for n in LENGTHS for shapes in (((48, n), (n,)), ((48, n), (48, 1)), ((48, 1), (48, n)))
)
_CUBES: Final = tuple(
    shapes
    for n in LENGTHS
    for shapes in (((3, 20, n), (3, 1, n)), ((3, 20, n), (20, 1)), ((20, 1), (3, 20, n)))
)
_SHORT: Final = (*_ONE, *_VECTORS)
_PLAIN: Final = (*_SHORT, *_MATRICES)
_FULL: Final = (*_PLAIN, *_CUBES)
_SAME: Final = (*_ONE, *(((n,), (n,)) for n in LENGTHS))

_COMMON: Final = frozenset(
    ("AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "SquaredDifference", "DivNoNan")
)
_SCALED: Final = frozenset(("Add", "Div", "FloorDiv", "FloorMod", "Pow"))
"""Ops with a scalar as the second operand at times."""
_INDICES: Final = frozenset(
    ("AddV2", "Add", "Sub", "Mul", "FloorDiv", "FloorMod", "Maximum", "Minimum", "Square", "Abs",
     "Neg", "Sign")
)  # fmt: skip
"""Ops that programs apply to integers."""
_ORDER: Final = frozenset(("Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"))
_NEVER: Final = frozenset(("Cast", "Select", "SelectV2", "ClipByValue", "AddN", "Inv", "InvGrad"))
_SLOW_NS: Final = 1.0
"""Least cost of an element for functions compiled in float32 alone."""
_CAST: Final = (*(d.bool, d.uint8, d.int32, d.int64, d.float16, d.bfloat16, d.float32, d.float64),)
_CAST_ALONE: Final = (d.bool, d.int32, d.int64, d.float32)
"""Types between which scalars are cast."""
_DEFAULTS: Final[dict[str, float]] = {"alpha": 0.2, "tolerance": 1e-5}


def elementwise_nodes() -> Iterator[NodeSpec]:
    """Yield the nodes."""
    for row in elementwise.TABLE:
        if row.op in _NEVER or row.result in ("Tout", "DstT"):
            continue
        for dtype in _dtypes(row):
            for shapes in _layouts(row, dtype):
                yield _applied(row, dtype, shapes)
    yield from _casts()
    yield from _selections()
    yield from _sums()


def _dtypes(row: Elementwise) -> Sequence[DType]:
    if d.float32 not in row.dtypes:
        return [t for t in (d.bool, d.int32, d.int64, d.uint8) if t in row.dtypes]
    found = [d.float32]
    if d.float64 in row.dtypes and row.cost_ns < _SLOW_NS:
        found.append(d.float64)
    if row.op in _INDICES | _ORDER:
        found += [t for t in (d.int32, d.int64) if t in row.dtypes]
    if row.op in ("Equal", "NotEqual"):
        found += [d.bool, d.uint8]
    return found


def _layouts(row: Elementwise, dtype: DType) -> Sequence[Sequence[Shape]]:
    """Return the shapes of the operands for which an op is compiled."""
    if row.arity == 1:
        return ((),), *(((n,),) for n in LENGTHS)
    if row.op in _ORDER | {"LogicalAnd", "LogicalOr"}:
        return _PLAIN if dtype in (d.float32, d.int32) else _SHORT
    if row.op in _COMMON and dtype is d.float32:
        return _FULL
    if row.op in _COMMON and dtype is not d.int64:
        return _PLAIN
    if row.op in _COMMON | _SCALED | _INDICES:
        return _SHORT
    return [shapes * (row.arity - 1) if row.arity == 3 else shapes for shapes in _SAME]


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(max(sizes) for sizes in zip(*padded, strict=True))


def _applied(row: Elementwise, dtype: DType, shapes: Sequence[Shape]) -> NodeSpec:
    attrs: dict[str, object] = {"T": dtype}
    attrs.update((name, _DEFAULTS[name]) for name in row.attrs)
    result = row.result_dtype(dtype, attrs)
    inputs = [tensor(dtype, *shape) for shape in shapes[: row.arity]]
    return node(row.op, inputs, [tensor(result, *_broadcast(shapes))], **attrs)


def _casts() -> Iterator[NodeSpec]:
    for source in _CAST:
        for target in _CAST:
            if source is target:
                continue
            alone = source in _CAST_ALONE and target in _CAST_ALONE
            for shape in ((), (300,)) if alone else ((300,),):
                yield node(
                    "Cast",
                    [tensor(source, *shape)],
                    [tensor(target, *shape)],
                    SrcT=source,
                    DstT=target,
                    Truncate=False,
                )


def _selections() -> Iterator[NodeSpec]:
    n = 300
    same: list[Sequence[Shape]] = [((), (), ()), ((n,), (n,), (n,))]
    scalars: list[Sequence[Shape]] = [((n,), (n,), ()), ((n,), (), (n,)), ((n,), (), ())]
    rows: list[Sequence[Shape]] = [
        *(((48, 1), (48, n), (48, n)), ((48, 1), (48, n), ()), ((48, 1), (), (48, n))),
        *(((n,), (48, n), (48, n)), ((48, n), (48, n), (48, 1)), ((), (n,), (n,))),
    ]
    for dtype in (d.float32, d.float64, d.int32, d.int64, d.bool):
        for op in ("Select", "SelectV2"):
            for shapes in [*same, *(scalars if op == "SelectV2" else ())] + (
                rows if dtype is d.float32 and op == "SelectV2" else []
            ):
                inputs = [tensor(t, *s) for t, s in zip((d.bool, dtype, dtype), shapes)]
                yield node(op, inputs, [tensor(dtype, *_broadcast(shapes))], T=dtype)
        if dtype is not d.bool:
            for limits in ((), (n,)):
                inputs = [tensor(dtype, n), tensor(dtype, *limits), tensor(dtype, *limits)]
                yield node("ClipByValue", inputs, [tensor(dtype, n)], T=dtype)
    inputs = [tensor(d.bool, 48), tensor(d.float32, 48, n), tensor(d.float32, 48, n)]
    yield node("Select", inputs, [tensor(d.float32, 48, n)], T=d.float32)


def _sums() -> Iterator[NodeSpec]:
    for dtype, most in ((d.float32, 8), (d.float64, 3), (d.int32, 3)):
        for count in range(2, most + 1):
            for shape in ((), (300,)) if count < 4 else ((300,),):
                tensors = [tensor(dtype, *shape)] * count
                yield node("AddN", tensors, tensors[:1], T=dtype, N=count)
    for dtype in (d.float32, d.float64):
        for sizes, axis in (((8, 300), 1), ((2, 16, 8, 8), 1), ((2, 4, 4, 300), 3)):
            inputs = [tensor(dtype, *sizes), tensor(dtype, sizes[axis])]
            layout = b"NHWC" if axis == len(sizes) - 1 else b"NCHW"
            yield node("BiasAdd", inputs, inputs[:1], T=dtype, data_format=layout)
        short = [tensor(dtype, 1024, 16), tensor(dtype, 16)]  # rows that are folded
        yield node("BiasAdd", short, short[:1], T=dtype, data_format=b"NHWC")

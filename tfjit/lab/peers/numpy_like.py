"""Define ops in terms of NumPy's interface.

The rules serve NumPy itself (constants and shapes) and jax.numpy (values of a trace).

A rule takes (xp, node, *inputs) and returns the output, or a tuple where an op has several. xp is
NumPy when all inputs are NumPy values, so values that a graph computes of shapes stay known while
JAX traces it. Sources: TensorFlow's op documentation, by op type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tfjit.lab.peers.graph import PeerNode

if TYPE_CHECKING:
    from types import EllipsisType, ModuleType

# A known value. The values of a trace have the same interface, and JAX need not be installed.
Array: TypeAlias = "np.ndarray"
# Part of the index of an array.
Index: TypeAlias = "int | slice | EllipsisType | None"
Rule: TypeAlias = "Callable[..., Array | tuple[Array, ...]]"
RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Register a rule for op types."""

    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return add


# Op types that one NumPy function serves.
_SAME = (
    "Tanh Exp Log Sqrt Abs Sign Floor Ceil Square Sin Cos Log1p Expm1 Maximum Minimum Greater "
    "Less Equal"
)
_OTHER = """
    AddV2=add Add=add BiasAdd=add Sub=subtract Mul=multiply RealDiv=divide Neg=negative
    Pow=power Reciprocal=reciprocal FloorDiv=floor_divide FloorMod=mod LogicalAnd=logical_and
    LogicalOr=logical_or LogicalNot=logical_not Select=where SelectV2=where
    GreaterEqual=greater_equal LessEqual=less_equal NotEqual=not_equal IsFinite=isfinite
    IsNan=isnan IsInf=isinf
"""
_NAMED = {op: op.lower() for op in _SAME.split()} | dict(pair.split("=") for pair in _OTHER.split())
for _op, _name in _NAMED.items():
    RULES[_op] = lambda xp, node, *inputs, _name=_name: getattr(xp, _name)(*inputs)

_REDUCTIONS = {"Sum": "sum", "Mean": "mean", "Max": "max", "Min": "min", "Prod": "prod"}
for _op, _name in _REDUCTIONS.items():
    RULES[_op] = lambda xp, node, x, axes, _name=_name: getattr(xp, _name)(
        x, axis=_ints(axes), keepdims=node.attrs["keep_dims"]
    )


def _ints(values: Array) -> tuple[int, ...]:
    return tuple(int(v) for v in np.ravel(values))


@rule("Identity", "StopGradient", "PreventGradient", "Snapshot")
def _identity(xp: ModuleType, node: PeerNode, x: Array) -> Array:
    return x


@rule("Const")
def _const(xp: ModuleType, node: PeerNode) -> Array:
    return node.attrs["value"]


@rule("ZerosLike")
def _zeros_like(xp: ModuleType, node: PeerNode, x: Array) -> Array:
    return xp.zeros_like(x)


@rule("OnesLike")
def _ones_like(xp: ModuleType, node: PeerNode, x: Array) -> Array:
    return xp.ones_like(x)


@rule("Relu")
def _relu(xp: ModuleType, node: PeerNode, x: Array) -> Array:
    return xp.maximum(x, x.dtype.type(0))


@rule("Relu6")
def _relu6(xp: ModuleType, node: PeerNode, x: Array) -> Array:
    return xp.clip(x, x.dtype.type(0), x.dtype.type(6))


@rule("ReluGrad")
def _relu_grad(xp: ModuleType, node: PeerNode, dy: Array, x: Array) -> Array:
    return xp.where(x > 0, dy, dy.dtype.type(0))


@rule("Rsqrt")
def _rsqrt(xp: ModuleType, node: PeerNode, x: Array) -> Array:
    if xp is np:
        return 1 / np.sqrt(x)
    from jax import lax

    return lax.rsqrt(x)


@rule("SquaredDifference")
def _squared_difference(xp: ModuleType, node: PeerNode, a: Array, b: Array) -> Array:
    return xp.square(a - b)


@rule("Cast")
def _cast(xp: ModuleType, node: PeerNode, x: Array) -> Array:
    return x.astype(node.attrs["DstT"])


@rule("Shape")
def _shape(xp: ModuleType, node: PeerNode, x: Array) -> Array:
    return np.array(x.shape, node.attrs.get("out_type", np.int32))


@rule("ShapeN")
def _shape_n(xp: ModuleType, node: PeerNode, *inputs: Array) -> tuple[Array, ...]:
    return tuple(np.array(x.shape, node.attrs.get("out_type", np.int32)) for x in inputs)


@rule("Size")
def _number(xp: ModuleType, node: PeerNode, x: Array) -> Array:
    return np.array(np.prod(x.shape, dtype=np.int64), node.attrs.get("out_type", np.int32))


@rule("Range")
def _range(xp: ModuleType, node: PeerNode, start: Array, limit: Array, step: Array) -> Array:
    return xp.arange(start, limit, step)


@rule("DynamicStitch")
def _stitch(xp: ModuleType, node: PeerNode, *inputs: Array) -> Array:
    indices, data = inputs[: len(inputs) // 2], inputs[len(inputs) // 2 :]
    first = next(d.shape[np.ndim(i) :] for i, d in zip(indices, data, strict=True))
    merged = np.zeros(
        (max(int(np.max(i)) for i in indices if np.size(i)) + 1, *first), data[0].dtype
    )
    for index, part in zip(indices, data, strict=True):
        merged[index] = part
    return merged


@rule("BroadcastTo")
def _broadcast_to(xp: ModuleType, node: PeerNode, x: Array, shape: Array) -> Array:
    return xp.broadcast_to(x, _ints(shape))


@rule("Reshape")
def _reshape(xp: ModuleType, node: PeerNode, x: Array, shape: Array) -> Array:
    return xp.reshape(x, _ints(shape))


@rule("Transpose")
def _transpose(xp: ModuleType, node: PeerNode, x: Array, order: Array) -> Array:
    return xp.transpose(x, _ints(order))


@rule("Squeeze")
def _squeeze(xp: ModuleType, node: PeerNode, x: Array) -> Array:
    return xp.squeeze(x, tuple(node.attrs["squeeze_dims"]) or None)


@rule("ExpandDims")
def _expand_dims(xp: ModuleType, node: PeerNode, x: Array, axis: Array) -> Array:
    return xp.expand_dims(x, int(axis))


@rule("Fill")
def _fill(xp: ModuleType, node: PeerNode, shape: Array, value: Array) -> Array:
    return xp.full(_ints(shape), value)


@rule("Tile")
def _tile(xp: ModuleType, node: PeerNode, x: Array, multiples: Array) -> Array:
    return xp.tile(x, _ints(multiples))


@rule("Pad")
def _pad(xp: ModuleType, node: PeerNode, x: Array, paddings: Array) -> Array:
    return xp.pad(x, [tuple(int(v) for v in pair) for pair in paddings])


@rule("ConcatV2")
def _concat(xp: ModuleType, node: PeerNode, *inputs: Array) -> Array:
    return xp.concatenate(inputs[:-1], axis=int(inputs[-1]))


@rule("Pack")
def _pack(xp: ModuleType, node: PeerNode, *inputs: Array) -> Array:
    return xp.stack(inputs, axis=node.attrs["axis"])


@rule("Unpack")
def _unpack(xp: ModuleType, node: PeerNode, x: Array) -> tuple[Array, ...]:
    axis = node.attrs["axis"]
    return tuple(xp.take(x, i, axis=axis) for i in range(x.shape[axis]))


@rule("GatherV2")
def _gather(xp: ModuleType, node: PeerNode, table: Array, indices: Array, axis: Array) -> Array:
    return xp.take(table, indices, axis=int(axis))


@rule("StridedSlice")
def _strided_slice(
    xp: ModuleType, node: PeerNode, x: Array, begin: Array, end: Array, strides: Array
) -> Array:
    return x[slices(node, begin, end, strides)]


def slices(node: PeerNode, begin: Array, end: Array, strides: Array) -> tuple[Index, ...]:
    """Return the index of a StridedSlice."""
    index: list[Index] = []
    for i, (first, last, step) in enumerate(
        zip(_ints(begin), _ints(end), _ints(strides), strict=True)
    ):
        if node.attrs["ellipsis_mask"] >> i & 1:
            index.append(Ellipsis)
        elif node.attrs["new_axis_mask"] >> i & 1:
            index.append(None)
        elif node.attrs["shrink_axis_mask"] >> i & 1:
            index.append(first)
        else:
            no_begin, no_end = node.attrs["begin_mask"] >> i & 1, node.attrs["end_mask"] >> i & 1
            index.append(slice(None if no_begin else first, None if no_end else last, step))
    return tuple(index)


@rule("MatMul")
def _matmul(xp: ModuleType, node: PeerNode, a: Array, b: Array) -> Array:
    a = a.T if node.attrs["transpose_a"] else a
    b = b.T if node.attrs["transpose_b"] else b
    return xp.matmul(a, b)


@rule("BatchMatMulV2")
def _batch_matmul(xp: ModuleType, node: PeerNode, a: Array, b: Array) -> Array:
    a = xp.swapaxes(a, -1, -2) if node.attrs["adj_x"] else a
    b = xp.swapaxes(b, -1, -2) if node.attrs["adj_y"] else b
    return xp.matmul(a, b)


@rule("BiasAddGrad")
def _bias_add_grad(xp: ModuleType, node: PeerNode, dy: Array) -> Array:
    return xp.sum(dy, axis=tuple(range(dy.ndim - 1)))


# Ops on shapes and constants, which a translator may compute before the run. Rules of the JAX
# translator for the rest need JAX.
FOLDED = frozenset(RULES)

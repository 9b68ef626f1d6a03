"""Define ops in terms of NumPy's interface.

The rules serve NumPy itself (constants and shapes) and jax.numpy (values of a trace).

A rule takes (xp, node, *inputs) and returns the output, or a tuple where an op has several. xp is
NumPy when all inputs are NumPy values, so values that a graph computes of shapes stay known while
JAX traces it. Sources: TensorFlow's op documentation, by op type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfjit.lab.peers.graph import PeerNode

Rule = Callable[..., Any]
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


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(int(v) for v in np.ravel(values))


@rule("Identity", "StopGradient", "PreventGradient", "Snapshot")
def _identity(xp: Any, node: PeerNode, x: Any) -> Any:
    return x


@rule("Const")
def _const(xp: Any, node: PeerNode) -> Any:
    return node.attrs["value"]


@rule("ZerosLike")
def _zeros_like(xp: Any, node: PeerNode, x: Any) -> Any:
    return xp.zeros_like(x)


@rule("OnesLike")
def _ones_like(xp: Any, node: PeerNode, x: Any) -> Any:
    return xp.ones_like(x)


@rule("Relu")
def _relu(xp: Any, node: PeerNode, x: Any) -> Any:
    return xp.maximum(x, x.dtype.type(0))


@rule("Relu6")
def _relu6(xp: Any, node: PeerNode, x: Any) -> Any:
    return xp.clip(x, x.dtype.type(0), x.dtype.type(6))


@rule("ReluGrad")
def _relu_grad(xp: Any, node: PeerNode, dy: Any, x: Any) -> Any:
    return xp.where(x > 0, dy, dy.dtype.type(0))


@rule("Rsqrt")
def _rsqrt(xp: Any, node: PeerNode, x: Any) -> Any:
    if xp is np:
        return 1 / np.sqrt(x)
    from jax import lax

    return lax.rsqrt(x)


@rule("SquaredDifference")
def _squared_difference(xp: Any, node: PeerNode, a: Any, b: Any) -> Any:
    return xp.square(a - b)


@rule("Cast")
def _cast(xp: Any, node: PeerNode, x: Any) -> Any:
    return x.astype(node.attrs["DstT"])


@rule("Shape")
def _shape(xp: Any, node: PeerNode, x: Any) -> Any:
    return np.array(x.shape, node.attrs.get("out_type", np.int32))


@rule("ShapeN")
def _shape_n(xp: Any, node: PeerNode, *inputs: Any) -> Any:
    return tuple(np.array(x.shape, node.attrs.get("out_type", np.int32)) for x in inputs)


@rule("Size")
def _number(xp: Any, node: PeerNode, x: Any) -> Any:
    return np.array(np.prod(x.shape, dtype=np.int64), node.attrs.get("out_type", np.int32))


@rule("Range")
def _range(xp: Any, node: PeerNode, start: Any, limit: Any, step: Any) -> Any:
    return xp.arange(start, limit, step)


@rule("DynamicStitch")
def _stitch(xp: Any, node: PeerNode, *inputs: Any) -> Any:
    indices, data = inputs[: len(inputs) // 2], inputs[len(inputs) // 2 :]
    first = next(d.shape[np.ndim(i) :] for i, d in zip(indices, data, strict=True))
    merged = np.zeros(
        (max(int(np.max(i)) for i in indices if np.size(i)) + 1, *first), data[0].dtype
    )
    for index, part in zip(indices, data, strict=True):
        merged[index] = part
    return merged


@rule("BroadcastTo")
def _broadcast_to(xp: Any, node: PeerNode, x: Any, shape: Any) -> Any:
    return xp.broadcast_to(x, _ints(shape))


@rule("Reshape")
def _reshape(xp: Any, node: PeerNode, x: Any, shape: Any) -> Any:
    return xp.reshape(x, _ints(shape))


@rule("Transpose")
def _transpose(xp: Any, node: PeerNode, x: Any, order: Any) -> Any:
    return xp.transpose(x, _ints(order))


@rule("Squeeze")
def _squeeze(xp: Any, node: PeerNode, x: Any) -> Any:
    return xp.squeeze(x, tuple(node.attrs["squeeze_dims"]) or None)


@rule("ExpandDims")
def _expand_dims(xp: Any, node: PeerNode, x: Any, axis: Any) -> Any:
    return xp.expand_dims(x, int(axis))


@rule("Fill")
def _fill(xp: Any, node: PeerNode, shape: Any, value: Any) -> Any:
    return xp.full(_ints(shape), value)


@rule("Tile")
def _tile(xp: Any, node: PeerNode, x: Any, multiples: Any) -> Any:
    return xp.tile(x, _ints(multiples))


@rule("Pad")
def _pad(xp: Any, node: PeerNode, x: Any, paddings: Any) -> Any:
    return xp.pad(x, [tuple(int(v) for v in pair) for pair in paddings])


@rule("ConcatV2")
def _concat(xp: Any, node: PeerNode, *inputs: Any) -> Any:
    return xp.concatenate(inputs[:-1], axis=int(inputs[-1]))


@rule("Pack")
def _pack(xp: Any, node: PeerNode, *inputs: Any) -> Any:
    return xp.stack(inputs, axis=node.attrs["axis"])


@rule("Unpack")
def _unpack(xp: Any, node: PeerNode, x: Any) -> Any:
    axis = node.attrs["axis"]
    return tuple(xp.take(x, i, axis=axis) for i in range(x.shape[axis]))


@rule("GatherV2")
def _gather(xp: Any, node: PeerNode, table: Any, indices: Any, axis: Any) -> Any:
    return xp.take(table, indices, axis=int(axis))


@rule("StridedSlice")
def _strided_slice(xp: Any, node: PeerNode, x: Any, begin: Any, end: Any, strides: Any) -> Any:
    return x[slices(node, begin, end, strides)]


def slices(node: PeerNode, begin: Any, end: Any, strides: Any) -> tuple[Any, ...]:
    """Return the index of a StridedSlice."""
    index: list[Any] = []
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
def _matmul(xp: Any, node: PeerNode, a: Any, b: Any) -> Any:
    a = a.T if node.attrs["transpose_a"] else a
    b = b.T if node.attrs["transpose_b"] else b
    return xp.matmul(a, b)


@rule("BatchMatMulV2")
def _batch_matmul(xp: Any, node: PeerNode, a: Any, b: Any) -> Any:
    a = xp.swapaxes(a, -1, -2) if node.attrs["adj_x"] else a
    b = xp.swapaxes(b, -1, -2) if node.attrs["adj_y"] else b
    return xp.matmul(a, b)


@rule("BiasAddGrad")
def _bias_add_grad(xp: Any, node: PeerNode, dy: Any) -> Any:
    return xp.sum(dy, axis=tuple(range(dy.ndim - 1)))


# Ops on shapes and constants, which a translator may compute before the run. Rules of the JAX
# translator for the rest need JAX.
FOLDED = frozenset(RULES)

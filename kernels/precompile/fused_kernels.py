"""List fused nodes of products and convolutions with their usual epilogues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.kernels.ir.fused_group import INPUT, FusedGroup, Member, Ref
from tfjit.kernels.precompile.nodes import node, tensor
from tfjit.kernels.registry import NodeSpec, TensorSpec

_ACTIVATIONS: Final = ("Relu", "Relu6", "Tanh", "Sigmoid", "Elu")

_BY_CHANNEL: Final = ("BiasAdd", "Mul")
_WHOLE: Final = ("AddV2", "ReluGrad")


def fused_nodes() -> Iterator[NodeSpec]:
    """Yield the nodes."""
    for anchor, kind in _anchors():
        chains: list[Sequence[str]] = [("BiasAdd",), ("Relu",), ("ReluGrad",)]
        chains += [("BiasAdd", op) for op in _ACTIVATIONS]
        if kind == "matmul":
            chains.append(("BiasAdd", "AddV2"))
        else:  # a batch normalization by constants
            chains += [("Mul", "BiasAdd", *more) for more in ((), ("Relu",), ("Relu6",))]
        if kind == "conv2d":
            chains += [("BiasAdd", "AddV2"), ("BiasAdd", "AddV2", "Relu")]
            chains += [("Mul", "BiasAdd", "AddV2"), ("Mul", "BiasAdd", "AddV2", "Relu")]
        for chain in chains:
            yield _fused(anchor, kind, chain)


def _anchors() -> Iterator[tuple[NodeSpec, str]]:
    """Yield products and convolutions with the kinds of their groups."""
    attrs = {"T": d.float32, "transpose_a": False, "transpose_b": False}
    for rows in (64, 1):
        a, b, c = (tensor(d.float32, *shape) for shape in ((rows, 40), (40, 100), (rows, 100)))
        yield node("MatMul", [a, b], [c], **attrs), "matmul"
    for channels, size in ((32, 3), (32, 5), (32, 1)):
        x, w, y = (
            tensor(d.float32, *shape)
            for shape in ((2, 14, 14, channels), (size, size, channels, 64), (2, 14, 14, 64))
        )
        yield _windows("Conv2D", x, w, y), "conv2d"
    x, w = tensor(d.float32, 2, 14, 14, 32), tensor(d.float32, 3, 3, 32, 1)
    yield _windows("DepthwiseConv2dNative", x, w, x), "depthwise"


def _windows(op: str, x: TensorSpec, w: TensorSpec, y: TensorSpec) -> NodeSpec:
    return node(
        op,
        [x, w],
        [y],
        T=d.float32,
        strides=(1, 1, 1, 1),
        padding=b"SAME",
        dilations=(1, 1, 1, 1),
        explicit_paddings=(),
        data_format=b"NHWC",
    )


def _fused(anchor: NodeSpec, kind: str, chain: Sequence[str]) -> NodeSpec:
    """Return the anchor and elementwise ops that follow it as one node."""
    (product,) = anchor.outputs
    inputs = list(anchor.inputs)
    members = [Member(anchor, (Ref(INPUT, 0), Ref(INPUT, 1)))]
    for op in chain:
        operands = [product]
        refs = [Ref(len(members) - 1)]
        if op in _BY_CHANNEL or op in _WHOLE:
            channels = tensor(product.dtype, product.shape[-1])
            other = channels if op in _BY_CHANNEL else product
            refs.append(Ref(INPUT, len(inputs)))
            inputs.append(other)
            operands.append(other)
        spec = node(op, operands, [product], T=product.dtype)
        members.append(Member(spec, tuple(refs)))
    group = FusedGroup(kind, tuple(members), tuple(inputs), (Ref(len(members) - 1),))
    return node("_Fused", inputs, [product], group=group)

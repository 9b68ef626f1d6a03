"""Decompose simulated quantization into elementwise operations and sums.

They fuse like others. In a frozen graph the levels are constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import Shape
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import insert_constant, tensor_dtype, tensor_shape

_Tensor = tuple[str, int]
_SCALARS: Final[Shape] = ()


class _Maker:
    """Adds float32 nodes beside a FakeQuant node.

    vector: the shape of its range, () or [channels].
    """

    def __init__(self, graph: DataflowGraph, node: Node, vector: Shape) -> None:
        self.graph, self.node, self.vector = graph, node, vector

    def op(
        self, op: str, *inputs: _Tensor | float, shape: Shape | None = _SCALARS, **attrs: object
    ) -> _Tensor:
        """Add a node; numbers become constants.

        shape: of the result, else `vector`.
        """
        sources = [self.number(i) if isinstance(i, float) else i for i in inputs]
        made = self.graph.add_node_op(
            self.graph.new_name(f"{self.node.name}/{op.lower()}"),
            op,
            sources,
            attrs or {"T": dtypes.float32},
            like=self.node,
            output_shapes=(self.vector if shape == _SCALARS else shape,),
        )
        return made.name, 0

    def number(self, value: float) -> _Tensor:
        """Add a scalar constant."""
        return insert_constant(self.graph, self.node, np.array(value, np.float32), "number")

    def logical(self, op: str, *inputs: _Tensor, shape: Shape | None = _SCALARS) -> _Tensor:
        """Add a LogicalAnd or LogicalNot."""
        made = self.graph.add_node_op(
            self.graph.new_name(f"{self.node.name}/{op.lower()}"),
            op,
            list(inputs),
            {},
            like=self.node,
            output_shapes=(self.vector if shape == _SCALARS else shape,),
        )
        return made.name, 0


@dataclass(frozen=True, slots=True)
class _Range:
    """A range with 0 among its levels.

    low, high: its ends. step: between levels. unset: a bool, both given ends are 0; None where they
    are attributes.
    """

    low: _Tensor
    high: _Tensor
    step: _Tensor
    unset: _Tensor | None


def _check(graph: DataflowGraph, node: Node) -> None:
    """Raise Declined for errors of the run, variables and control inputs."""
    if not 2 <= node.attrs["num_bits"] <= 16:
        raise Declined("num_bits is out of range")
    if any(tensor_dtype(graph, *source).is_ref for source in graph.inputs(node.name)):
        raise Declined("it reads a variable, whose time of reading matters")
    if graph.control_inputs(node.name):
        raise Declined("it waits for other nodes, as would all it became")


def _range_shape(graph: DataflowGraph, node: Node, x: _Tensor) -> Shape:
    """Return the shape of both ends.

    Raises Declined where they may not fit.
    """
    ends = [tensor_shape(graph, *source) for source in graph.inputs(node.name)[-2:]]
    if "PerChannel" not in node.op:
        if ends != [(), ()]:
            raise Declined("the ranks of min and max are not known to be 0")
        return ()
    shape = tensor_shape(graph, *x)
    if not shape or shape[-1] is None or ends != [(shape[-1],)] * 2:
        raise Declined("the channels of x, min and max are not known to be the same")
    return (shape[-1],)


def _range_of(make: _Maker, low: _Tensor | float, high: _Tensor | float) -> _Range:
    """Add the nudged range of [low, high].

    Both ends move by less than a level, so that 0 is one. Half a level rounds up.
    """
    attrs = make.node.attrs
    least, most = float(bool(attrs["narrow_range"])), float((1 << attrs["num_bits"]) - 1)
    unset = None
    if isinstance(low, tuple) and isinstance(high, tuple):
        zeros = (make.op("Equal", end, 0.0, T=dtypes.float32) for end in (low, high))
        unset = make.logical("LogicalAnd", *zeros)
    step = make.op("RealDiv", make.op("Sub", high, low), most - least)
    zero = make.op("Sub", least, make.op("RealDiv", low, step))
    inside = make.op("Minimum", make.op("Maximum", zero, least), most)
    whole = make.op("Floor", inside)
    is_half = make.op("GreaterEqual", make.op("Sub", inside, whole), 0.5)
    level = make.op("SelectV2", is_half, make.op("AddV2", whole, 1.0), whole)
    bottom, top = (make.op("Mul", make.op("Sub", end, level), step) for end in (least, most))
    return _Range(bottom, top, step, unset)


def _ends(graph: DataflowGraph, node: Node) -> tuple[_Tensor | float, _Tensor | float]:
    """Return the ends of the range.

    Raises Declined for attributes that are an error.
    """
    if "MinMaxVars" in node.op:
        low, high = graph.inputs(node.name)[-2:]
        return low, high
    bounds = float(np.float32(node.attrs["min"])), float(np.float32(node.attrs["max"]))
    if not bounds[0] < bounds[1]:
        raise Declined("min is not smaller than max")
    return bounds


def decompose_fake_quant(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite FakeQuantWithMinMax* to elementwise operations.

    Before: FakeQuantWithMinMaxVars(x, min, max)
    After: floor((clip(x, low, high) - low) / step - level of 0 + 1/2) * step

    low, high and step are those of the range [min, max] moved so that 0 is a level. A range from 0
    to 0 gives zeros. Each operation rounds as in TensorFlow's kernel. The last one keeps the node's
    name. Fires where min and max are attributes, scalars, or vectors of x's channels, by shapes
    known while planning. Raises Declined, with the reason, elsewhere.
    """
    _check(graph, node)
    x = graph.inputs(node.name)[0]
    vector = _range_shape(graph, node, x) if "MinMaxVars" in node.op else ()
    shape = node.output_shapes[0]
    make = _Maker(graph, node, vector)
    found = _range_of(make, *_ends(graph, node))
    inverse = make.op("RealDiv", 1.0, found.step)
    from_zero = make.op("Mul", make.op("Neg", found.low), inverse)
    zero = make.op("Floor", make.op("AddV2", from_zero, 0.5))
    clipped = make.op(
        "Minimum", make.op("Maximum", x, found.low, shape=shape), found.high, shape=shape
    )
    scaled = make.op("Mul", make.op("Sub", clipped, found.low, shape=shape), inverse, shape=shape)
    shifted = make.op("AddV2", make.op("Sub", scaled, zero, shape=shape), 0.5, shape=shape)
    level = make.op("Floor", shifted, shape=shape)
    if found.unset is None:
        graph.change_op(node.name, "Mul", [level, found.step], {"T": dtypes.float32})
    else:
        rounded = make.op("Mul", level, found.step, shape=shape)
        inputs = [found.unset, make.number(0.0), rounded]
        graph.change_op(node.name, "SelectV2", inputs, {"T": dtypes.float32})
    node.output_shapes = (shape,)
    return "clipped, scaled and rounded"


def decompose_fake_quant_gradient(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite the gradient of FakeQuantWithMinMax* to choices and sums.

    Before: FakeQuantWithMinMaxVarsGradient(dy, x, min, max)
    After: dy where x is inside the range; the sums of dy below and above it

    A range from 0 to 0 has all of x inside. The choice keeps the node's name. Fires as
    `decompose_fake_quant` does, where x and dy are known to have one shape or rank. Raises
    Declined, with the reason, elsewhere.
    """
    _check(graph, node)
    dy, x = graph.inputs(node.name)[:2]
    shape = tensor_shape(graph, *x)
    if shape is None or None in shape or tensor_shape(graph, *dy) != shape:
        raise Declined("x and the gradient are not known to have one shape")
    has_ends = "MinMaxVars" in node.op
    vector = _range_shape(graph, node, x) if has_ends else ()
    make = _Maker(graph, node, vector)
    found = _range_of(make, *_ends(graph, node))
    zero = make.number(0.0)
    comparisons = (
        make.op("GreaterEqual", x, found.low, shape=shape),
        make.op("LessEqual", x, found.high, shape=shape),
    )
    inside = make.logical("LogicalAnd", *comparisons, shape=shape)
    if found.unset is not None:
        inside = make.logical("LogicalOr", found.unset, inside, shape=shape)
        axes = range(len(shape) - 1 if vector else len(shape))
        given = make.logical("LogicalNot", found.unset)
        order = insert_constant(graph, node, np.array(axes, np.int32), "axes")
        used = {edge.src_output for edge in node.out_edges if not edge.is_control}
        for output, op, end in ((1, "Less", found.low), (2, "Greater", found.high)):
            if output not in used:
                continue
            outside = make.logical(
                "LogicalAnd", given, make.op(op, x, end, shape=shape), shape=shape
            )
            beyond = make.op("SelectV2", outside, dy, zero, shape=shape)
            total = make.op(
                "Sum", beyond, order, T=dtypes.float32, keep_dims=False, Tidx=dtypes.int32
            )
            graph.redirect_output(node.name, output, *total)
    graph.change_op(node.name, "SelectV2", [inside, dy, zero], {"T": dtypes.float32})
    node.output_shapes = (shape,)
    return "gradients inside the range" + (" and sums outside" if has_ends else "")


__all__ = ["decompose_fake_quant", "decompose_fake_quant_gradient"]

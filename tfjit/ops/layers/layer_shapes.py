"""Infer shapes of simulated quantisation, recurrent cells and fused layers."""

from __future__ import annotations

import numpy as np

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.shape_rules import Rule, Shapes, fail, require_scalars, size_input, window_size


def ranged(c: ShapeContext) -> Shapes:
    """Infer the first input's shape; min and max are scalars."""
    c.with_rank(1, 0)
    c.with_rank(2, 0)
    return [c.inputs[0]]


def ranged_gradient(c: ShapeContext) -> Shapes:
    """Infer the gradients' shapes for a scalar range.

    gradients and inputs of one shape, min [], max [] -> that shape, [], [].
    """
    shape = c.merge(c.inputs[0], c.inputs[1])
    c.with_rank(2, 0)
    c.with_rank(3, 0)
    return [shape, (), ()]


def channels(c: ShapeContext) -> Shapes:
    """Infer the shape for a range by channel.

    inputs [..., c], min [c], max [c] -> [..., c].
    """
    shape = c.with_rank_at_least(0, 1)
    size = c.merge_dim(c.with_rank(1, 1)[0], c.with_rank(2, 1)[0])
    c.merge_dim(c.dim(shape, -1), size)
    return [shape]


def channels_gradient(c: ShapeContext) -> Shapes:
    """Infer the gradients' shapes for a range by channel.

    gradients and inputs [..., c], min [c], max [c] -> [..., c], [c], [c].
    """
    shape = c.merge(c.with_rank_at_least(0, 1), c.with_rank_at_least(1, 1))
    size = c.merge_dim(c.with_rank(2, 1)[0], c.with_rank(3, 1)[0])
    size = c.merge_dim(c.dim(shape, -1), size)
    return [None if shape is None else (*shape[:-1], size), (size,), (size,)]


def ranged_outputs(rule: Rule, *scalars: int) -> Rule:
    """Return the rule of a quantised output.

    Two further outputs are the ends of its range. scalars: the inputs that hold ends of ranges.
    """

    def with_range(c: ShapeContext) -> Shapes:
        (shape,) = rule(c)
        require_scalars(c, *scalars)
        return [shape, (), ()]

    return with_range


def by_axis(first: int, ends: int) -> Rule:
    """Return the rule of the shape of input 0.

    The ends of its range, from input `first` on, are scalars, or vectors along `axis`; so are
    `ends` outputs.
    """

    def rule(c: ShapeContext) -> Shapes:
        axis = c.attrs.get("axis", -1)
        if axis < -1:
            raise fail(f"axis should be at least -1, got {axis}")
        rank = 0 if axis == -1 else 1
        low, high = c.with_rank(first, rank), c.with_rank(first + 1, rank)
        end = c.merge(low, high)
        if axis != -1:
            shape = c.with_rank_at_least(0, axis + 1)
            c.merge_dim(c.dim(end, 0), c.dim(shape, axis))
        # a gradient has its first two inputs in one shape
        return [c.merge(c.inputs[0], c.inputs[1]) if first == 2 else c.inputs[0], *[end] * ends]

    return rule


def lstm_cell(c: ShapeContext) -> Shapes:
    """Infer the shapes of an LSTM step.

    x [batch, inputs], cs_prev [batch, cells] -> [batch, cells], seven times.
    """
    x, state = c.with_rank(0, 2), c.with_rank(1, 2)
    return [(x[0], state[1])] * 7


def lstm_cell_grad(c: ShapeContext) -> Shapes:
    """Infer the shapes of an LSTM step's gradients.

    As `lstm_cell` -> [batch, cells], [batch, 4 * cells], [cells] three times.
    """
    x, state = c.with_rank(0, 2), c.with_rank(1, 2)
    batch, cells = x[0], state[1]
    return [(batch, cells), (batch, c.multiply(cells, 4)), *[(cells,)] * 3]


def lstm(c: ShapeContext) -> Shapes:
    """Infer the shapes of an LSTM over a sequence.

    seq_len_max, x [time, batch, inputs], ..., b [4 * cells] -> [time, batch, cells], seven times.
    """
    x, b = c.with_rank(1, 3), c.with_rank(8, 1)
    return [(x[0], x[1], c.divide(b[0], 4))] * 7


def lstm_grad(c: ShapeContext) -> Shapes:
    """Infer the shapes of x, cs_prev, h_prev, w, the peepholes and b."""
    ranks = (3, 2, 2, 2, 1, 1, 1, 1)
    return [c.with_rank(1 + i, rank) for i, rank in enumerate(ranks)]


def gru_cell(c: ShapeContext) -> Shapes:
    """Infer the shapes of a GRU step.

    x [batch, inputs], h_prev [batch, cells] -> [batch, cells], four times.
    """
    x, state = c.with_rank(0, 2), c.with_rank(1, 2)
    return [(x[0], state[1])] * 4


def gru_cell_grad(c: ShapeContext) -> Shapes:
    """Infer the shapes of a GRU step's gradients.

    As `gru_cell` -> the shapes of x, h_prev, [batch, cells], [batch, 2 * cells].
    """
    x, state, w = c.with_rank(0, 2), c.with_rank(1, 2), c.with_rank(2, 2)
    return [x, (x[0], state[1]), (x[0], state[1]), (x[0], w[1])]


def mirrored_conv(c: ShapeContext) -> Shapes:
    """Infer the shape of Conv2D of the padded image.

    input [batch, h, w, c], (size [2],) paddings [4, 2], filter [k_h, k_w, c, out_c].
    """
    resizes = c.op == "FusedResizeAndPadConv2D"
    images, kernel = c.with_rank(0, 4), c.with_rank(3 if resizes else 2, 4)
    sizes = list(size_input(c, 1)) if resizes else [images[1], images[2]]
    at = 2 if resizes else 1
    c.with_rank(at, 2)
    pads = c.constant(at)
    strides = c.attr("strides")
    if len(strides) != 4:
        raise fail(
            f"Operation requires the stride attribute to contain 4 values, but got: {len(strides)}"
        )
    c.merge_dim(images[3], kernel[2])
    batch = None if pads is None or images[0] is None else images[0] + int(np.sum(pads[0]))
    out: list[int | None] = []
    for i, size in enumerate(sizes):
        padded = None if size is None or pads is None else size + int(np.sum(pads[i + 1]))
        out.append(window_size(c, padded, kernel[i], 1, strides[i + 1], c.attr("padding").decode()))
    return [(batch, *out, kernel[3])]

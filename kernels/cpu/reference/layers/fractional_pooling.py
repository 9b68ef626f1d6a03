"""Pool windows of random sizes in NumPy, with TensorFlow's random sequences.

Source: Graham 2014, "Fractional Max-Pooling", https://arxiv.org/abs/1412.6071.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError, UnimplementedError
from tfjit.kernels.cpu.random import philox
from tfjit.kernels.cpu.reference.inputs import invalid
from tfjit.kernels.random_stream import advance
from tfjit.kernels.registry import NodeSpec, initial_state, reference

Arrays = Sequence[Any]
_STREAM: Final = 3  # words of the state that are the stream's position
_PER_BLOCK: Final = 4  # random words of a block


@initial_state("FractionalAvgPool", "FractionalMaxPool")
def _first_position(node: NodeSpec) -> np.ndarray:
    """Return the first position of the node's stream.

    A deterministic node draws the same sequences in each run.
    """
    a = node.attrs
    return philox.seeded(int(a["seed"]), int(a["seed2"]))


def _state(node: NodeSpec) -> np.ndarray:
    if node.state is None:
        raise UnimplementedError(
            None, None, f"{node.op} runs only with its stream's state, which folding does not have"
        )
    state = node.state.view(np.uint64)
    return state.copy() if node.attrs["deterministic"] else state


def _pseudo_random(state: np.ndarray, size: int, count: int) -> np.ndarray:
    """Return `count` window sizes from one random offset."""
    ratio = size / count
    whole = size // count
    limit = min((whole + 2) / ratio - 1, (size + 1 - whole) / ratio - (count - 1))
    words = philox.blocks(state, 0, 1).reshape(-1)
    offset = float(philox._unit64(words[:1], words[1:2])[0]) * limit
    advance(state, 1)
    inner = [math.ceil(ratio * (i + offset)) for i in range(1, count)]
    return np.diff([1, *inner, size + 1])


def _shuffled(state: np.ndarray, size: int, count: int) -> np.ndarray:
    """Return `count` window sizes in random order."""
    whole, larger = divmod(size, count)
    sizes = [whole + 1] * larger + [whole] * (count - larger)
    blocks = -(-count // _PER_BLOCK)
    draws = philox.blocks(state, 0, blocks).reshape(-1).tolist()
    advance(state, blocks)
    for i in range(count - 1):
        j = i + draws[i] % (count - i)
        sizes[i], sizes[j] = sizes[j], sizes[i]
    return np.array(sizes, np.int64)


def _sequence(node: NodeSpec, state: np.ndarray, size: int, count: int) -> np.ndarray:
    """Return the borders of windows along an axis, int64 [count + 1]."""
    draw = _pseudo_random if node.attrs["pseudo_random"] else _shuffled
    return np.concatenate([[0], np.cumsum(draw(state, size, count))]).astype(np.int64)


def _spans(node: NodeSpec, sequence: np.ndarray, size: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each window.

    Neighbours share a border if they overlap.
    """
    shared = 1 if node.attrs["overlapping"] else 0
    for start, end in zip(sequence[:-1].tolist(), sequence[1:].tolist(), strict=True):
        yield start, min(end + shared, size)


def _windows(
    node: NodeSpec, rows: np.ndarray, columns: np.ndarray, height: int, width: int
) -> Iterator[tuple[int, int, slice, slice]]:
    """Yield (row, column, its input rows, its input columns) of each window."""
    for r, (top, bottom) in enumerate(_spans(node, rows, height)):
        for c, (left, right) in enumerate(_spans(node, columns, width)):
            yield r, c, slice(top, bottom), slice(left, right)


def _pool(node: NodeSpec, value: np.ndarray) -> tuple[tuple[int, ...], np.ndarray, np.ndarray]:
    """Return the output's shape and the sequences of rows and columns.

    Raises InvalidArgumentError for a value or ratios that do not fit.
    """
    ratios = [float(r) for r in node.attrs["pooling_ratio"]]
    if len(ratios) != 4:
        invalid("pooling_ratio field must specify 4 dimensions")
    for ratio in ratios:
        if not ratio >= 1:
            invalid(f"pooling_ratio cannot be smaller than 1, got: {ratio:g}")
    if ratios[0] != 1 or ratios[3] != 1:
        raise UnimplementedError(
            None,
            None,
            f"Fractional {'average' if node.op == 'FractionalAvgPool' else 'max'} pooling is not "
            "yet supported on the batch nor channel dimension.",
        )
    deterministic = node.attrs["deterministic"]
    if not deterministic and (node.attrs["seed"] or node.attrs["seed2"]):
        invalid(
            "Both seed and seed2 should be 0 if deterministic is false. Got seed="
            f"{node.attrs['seed']}, seed2={node.attrs['seed2']}"
        )
    if value.ndim != 4:
        invalid("tensor_in must be 4-dimensional")
    shape = tuple(int(np.float32(n) / np.float32(r)) for n, r in zip(value.shape, ratios))
    for i, size in enumerate(value.shape):
        if size < ratios[i]:
            invalid(f"Pooling ratio is higher than input dimension size for dimension {i}.")
    state = _state(node)
    rows = _sequence(node, state, value.shape[1], shape[1])
    columns = _sequence(node, state, value.shape[2], shape[2])
    return shape, rows, columns


@reference("FractionalMaxPool")
def _max_pool(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return the largest value of each window, and the borders."""
    (value,) = inputs
    shape, rows, columns = _pool(node, value)
    out = np.empty(shape, value.dtype)
    for r, c, top, left in _windows(node, rows, columns, value.shape[1], value.shape[2]):
        out[:, r, c] = value[:, top, left].max(axis=(1, 2))
    return out, rows, columns


@reference("FractionalAvgPool")
def _avg_pool(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return the mean of each window, and the borders."""
    (value,) = inputs
    shape, rows, columns = _pool(node, value)
    out = np.empty(shape, value.dtype)
    for r, c, top, left in _windows(node, rows, columns, value.shape[1], value.shape[2]):
        part = value[:, top, left]
        total = part.sum(axis=(1, 2), dtype=value.dtype)
        out[:, r, c] = _divided(total, part.shape[1] * part.shape[2])
    return out, rows, columns


def _divided(total: np.ndarray, count: int) -> np.ndarray:
    """Return total / count, cut towards zero for integers."""
    if total.dtype.kind == "f":
        return np.asarray(total / total.dtype.type(count))
    return np.asarray(np.sign(total) * (np.abs(total) // count))


def _sequences(node: NodeSpec, inputs: Arrays, shape: tuple[int, ...]) -> None:
    """Check borders and gradient against the output's shape."""
    gradient, rows, columns = (np.asarray(v) for v in inputs[-3:])
    if gradient.ndim != 4:
        invalid(f"out_backprop must be 4-dimensional, but got: {gradient.ndim}")
    for axis, what, sequence in ((1, "row", rows), (2, "col", columns)):
        if sequence.ndim != 1 or sequence.size != gradient.shape[axis] + 1:
            raise InvalidArgumentError(
                None,
                None,
                f"Given {what}_pooling_sequence has {sequence.size} elements, and the gradient "
                f"{gradient.shape[axis]} windows along axis {axis}",
            )
        if sequence.size and (sequence.min() < 0 or sequence.max() > shape[axis]):
            invalid(f"{what}_pooling_sequence is out of bounds of {shape[axis]}")


@reference("FractionalMaxPoolGrad")
def _max_pool_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Give each window's gradient to its first largest value."""
    value, result, gradient, rows, columns = (np.asarray(v) for v in inputs)
    _sequences(node, inputs, value.shape)
    out = np.zeros_like(value)
    batch, channel = np.ogrid[: value.shape[0], : value.shape[3]]
    for r, c, top, left in _windows(node, rows, columns, value.shape[1], value.shape[2]):
        part = value[:, top, left]
        width = part.shape[2]
        flat = part.reshape(part.shape[0], -1, part.shape[3])
        place = flat.argmax(axis=1)
        if (flat.max(axis=1) != result[:, r, c]).any():
            invalid("tensor_out_dup is not the same as tensor_out")
        out[batch, top.start + place // width, left.start + place % width, channel] += gradient[
            :, r, c
        ]
    return (out,)


@reference("FractionalAvgPoolGrad")
def _avg_pool_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Spread each window's gradient over its values."""
    sizes, gradient, rows, columns = (np.asarray(v) for v in inputs)
    if sizes.shape != (4,):
        invalid("original input tensor shape must be1-dimensional and 4 elements")
    shape = tuple(int(n) for n in sizes)
    _sequences(node, inputs, shape)
    out = np.zeros(shape)
    for r, c, top, left in _windows(node, rows, columns, shape[1], shape[2]):
        count = (top.stop - top.start) * (left.stop - left.start)
        out[:, top, left] += (gradient[:, r, c].astype(np.float64) / count)[:, None, None]
    return (out.astype(gradient.dtype),)

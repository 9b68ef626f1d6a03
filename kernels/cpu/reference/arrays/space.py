"""Convert space to batch and to depth, and back, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tfjit.kernels.cpu.reference.inputs import Arrays, contiguous, invalid, shape_text
from tfjit.kernels.registry import NodeSpec, reference


def _space_to_batch(
    x: np.ndarray, block: Sequence[int], paddings: Sequence[tuple[int, int]]
) -> np.ndarray:
    if x.ndim < 1 + len(block):
        invalid(f"input rank should be >= {1 + len(block)} instead of {x.ndim}")
    for b in block:
        if b < 1:
            invalid(f"block_shape must be positive, got {b}")
    m = len(block)
    pads = [(0, 0), *paddings, *([(0, 0)] * (x.ndim - 1 - m))]
    for before, after in pads:
        if before < 0 or after < 0:
            invalid(f"paddings cannot be negative, got {min(before, after)}")
    padded = np.pad(x, pads)
    split: list[int] = [padded.shape[0]]
    for i, b in enumerate(block):
        size = padded.shape[1 + i]
        if size % b:
            invalid(f"padded_shape[{i}]={size} is not divisible by block_shape[{i}]={b}")
        split += [size // b, b]
    rest = padded.shape[1 + m :]
    order = (
        [2 * i + 2 for i in range(m)]
        + [0]
        + [2 * i + 1 for i in range(m)]
        + list(range(2 * m + 1, 2 * m + 1 + len(rest)))
    )
    out = padded.reshape(*split, *rest).transpose(order)
    return out.reshape(math.prod(block) * x.shape[0], *(split[2 * i + 1] for i in range(m)), *rest)


def _batch_to_space(
    x: np.ndarray, block: Sequence[int], crops: Sequence[tuple[int, int]]
) -> np.ndarray:
    if x.ndim < 1 + len(block):
        invalid(f"input rank should be >= {1 + len(block)} instead of {x.ndim}")
    for b in block:
        if b < 1:
            invalid(f"block_shape must be positive, got {b}")
    m = len(block)
    factor = math.prod(block)
    if x.shape[0] % factor:
        invalid(
            f"Input batch dimension ({x.shape[0]}) is not divisible by product of block sizes "
            f"({factor})"
        )
    batch = x.shape[0] // factor
    rest = x.shape[1 + m :]
    order = (
        [m]
        + [axis for i in range(m) for axis in (m + 1 + i, i)]
        + list(range(2 * m + 1, 2 * m + 1 + len(rest)))
    )
    out = x.reshape(*block, batch, *x.shape[1:]).transpose(order)
    out = out.reshape(batch, *(x.shape[1 + i] * block[i] for i in range(m)), *rest)
    index: list[slice] = [slice(None)]
    for i, (start, end) in enumerate(crops):
        if start < 0 or end < 0:
            invalid(f"Crops must be non-negative, got {min(start, end)}")
        size = out.shape[1 + i]
        if size - start - end < 0:
            invalid(f"cropped_shape[{i}]={size - start - end} must be non-negative")
        index.append(slice(start, size - end))
    return contiguous(out[tuple(index)])


def _pairs(value: np.ndarray, rows: int, name: str) -> list[tuple[int, int]]:
    if value.shape != (rows, 2):
        invalid(f"{name} should have shape [{rows}, 2] instead of {shape_text(value)}")
    return [(int(a), int(b)) for a, b in value]


@reference("SpaceToBatchND")
def _space_to_batch_nd(node: NodeSpec, inputs: Arrays) -> Arrays:
    if inputs[1].ndim != 1:
        invalid(f"block_shape rank should be 1 instead of {inputs[1].ndim}")
    block = inputs[1].tolist()
    return (_space_to_batch(inputs[0], block, _pairs(inputs[2], len(block), "paddings")),)


@reference("SpaceToBatch")
def _space_to_batch_2d(node: NodeSpec, inputs: Arrays) -> Arrays:
    block = [node.attrs["block_size"]] * 2
    if inputs[0].ndim != 4:
        invalid(f"input rank should be >= 4 instead of {inputs[0].ndim}")
    return (_space_to_batch(inputs[0], block, _pairs(inputs[1], 2, "paddings")),)


@reference("BatchToSpaceND")
def _batch_to_space_nd(node: NodeSpec, inputs: Arrays) -> Arrays:
    if inputs[1].ndim != 1:
        invalid(f"block_shape rank should be 1 instead of {inputs[1].ndim}")
    block = inputs[1].tolist()
    return (_batch_to_space(inputs[0], block, _pairs(inputs[2], len(block), "crops")),)


@reference("BatchToSpace")
def _batch_to_space_2d(node: NodeSpec, inputs: Arrays) -> Arrays:
    block = [node.attrs["block_size"]] * 2
    if inputs[0].ndim != 4:
        invalid(f"input rank should be >= 4 instead of {inputs[0].ndim}")
    return (_batch_to_space(inputs[0], block, _pairs(inputs[1], 2, "crops")),)


def _channels_last(node: NodeSpec, x: np.ndarray) -> tuple[np.ndarray, bool]:
    layout = node.attrs.get("data_format", b"NHWC")
    if layout not in (b"NHWC", b"NCHW"):
        invalid(f"{node.op} of data_format {layout.decode()} runs on GPU only")
    if x.ndim != 4:
        invalid(f"Input rank should be: 4 instead of: {x.ndim}")
    return (np.moveaxis(x, 1, 3), True) if layout == b"NCHW" else (x, False)


@reference("SpaceToDepth")
def _space_to_depth(node: NodeSpec, inputs: Arrays) -> Arrays:
    b = node.attrs["block_size"]
    x, first = _channels_last(node, inputs[0])
    n, h, w, c = x.shape
    if h % b or w % b:
        invalid(f"Image width {w} and height {h} should be divisible by block_size: {b}")
    out = (
        x.reshape(n, h // b, b, w // b, b, c)
        .transpose(0, 1, 3, 2, 4, 5)
        .reshape(n, h // b, w // b, b * b * c)
    )
    return (contiguous(np.moveaxis(out, 3, 1) if first else out),)


@reference("DepthToSpace")
def _depth_to_space(node: NodeSpec, inputs: Arrays) -> Arrays:
    b = node.attrs["block_size"]
    x, first = _channels_last(node, inputs[0])
    n, h, w, c = x.shape
    if c % (b * b):
        invalid(f"Input depth dimension {c} should be divisible by: {b * b}")
    out = (
        x.reshape(n, h, w, b, b, c // (b * b))
        .transpose(0, 1, 3, 2, 4, 5)
        .reshape(n, h * b, w * b, c // (b * b))
    )
    return (contiguous(np.moveaxis(out, 3, 1) if first else out),)

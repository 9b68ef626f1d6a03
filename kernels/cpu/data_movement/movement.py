"""Build ops that move elements and compute nothing.

They are transposes, slices, joins, padding and repetition. All are strided copies. A node's own
errors (a slice outside its input, say) are left to its reference kernel, which reports them as
TensorFlow does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from math import prod

import numpy as np

from tfjit.framework.types import strided_slice
from tfjit.kernels.cpu.data_movement.dynamic_index import index_slice
from tfjit.kernels.cpu.data_movement.dynamic_slice import block_slice
from tfjit.kernels.cpu.data_movement.strided_copy import Layout, View, copy_launch
from tfjit.kernels.cpu.template.iteration_space import c_strides, dense_slice
from tfjit.kernels.registry import (
    Launch,
    NativeCall,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    native,
)


def _known(spec: NodeSpec, k: int) -> np.ndarray:
    """Return the value of an input.

    Raises Unsupported when it is known at run time only.
    """
    if k not in spec.constants:
        raise Unsupported(f"{spec.op} {spec.name}: input {k} is not known while planning")
    return np.asarray(spec.constants[k])


def _whole(tensor: TensorSpec) -> View:
    return View(tensor.shape, c_strides(tensor.shape, tensor.dtype.size))


def _call(launches: Iterable[Launch | None], moved: int) -> NativeCall:
    return NativeCall(tuple(launch for launch in launches if launch is not None), bytes_moved=moved)


def _gathered(spec: NodeSpec, array: np.ndarray, layout: Layout, k: int = 0) -> NativeCall:
    """Copy a view of input k to output 0, in order."""
    out = spec.outputs[0]
    view = layout.view(array)
    if prod(view.shape) != out.size:
        raise Unsupported(
            f"{spec.op} {spec.name}: a view of {list(view.shape)} for a result of {list(out.shape)}"
        )
    target = View(view.shape, c_strides(view.shape, out.dtype.size))
    return _call(
        [copy_launch(out.dtype.size, view, target, Pointer("in", k), Pointer("out", 0))],
        2 * out.nbytes,
    )


def _layout(spec: NodeSpec, k: int = 0) -> Layout:
    return Layout(spec.inputs[k].shape, spec.inputs[k].dtype.size)


@native("Transpose")
def _transpose(spec: NodeSpec) -> NativeCall:
    layout = _layout(spec)
    order = _known(spec, 1).reshape(-1)
    rank = len(spec.inputs[0].shape)
    if sorted(int(k) % max(rank, 1) for k in order) != list(range(rank)):
        raise Unsupported("the order is not a permutation")
    return _gathered(
        spec,
        layout.array.transpose([int(k) % rank for k in order]) if rank else layout.array,
        layout,
    )


def _joined(spec: NodeSpec, axis: int, inputs: Iterable[int], new_axis: bool) -> NativeCall:
    """Join inputs along an axis of the output."""
    out = spec.outputs[0]
    layout = Layout(out.shape, out.dtype.size)
    launches = []
    position = 0
    for k in inputs:
        shape = spec.inputs[k].shape
        shape = (*shape[:axis], 1, *shape[axis:]) if new_axis else shape
        part = layout.array[(slice(None),) * axis + (slice(position, position + shape[axis]),)]
        position += shape[axis]
        if part.shape != shape:
            raise Unsupported(f"{spec.op} {spec.name}: shapes do not fit")
        source = View(shape, c_strides(shape, out.dtype.size))
        launches.append(
            copy_launch(
                out.dtype.size, source, layout.view(part), Pointer("in", k), Pointer("out", 0)
            )
        )
    if position != (out.shape[axis] if out.shape else 0):
        raise Unsupported(f"{spec.op} {spec.name}: shapes do not fit")
    return _call(launches, 2 * out.nbytes)


@native("ConcatV2")
def _concat_v2(spec: NodeSpec) -> NativeCall:
    last = len(spec.inputs) - 1
    rank = len(spec.outputs[0].shape)
    axis = int(_known(spec, last).reshape(-1)[0])
    if not -rank <= axis < rank:
        raise Unsupported("the axis is out of range")
    return _joined(spec, axis % rank, range(last), False)


@native("Concat")
def _concat(spec: NodeSpec) -> NativeCall:
    rank = len(spec.outputs[0].shape)
    axis = int(_known(spec, 0).reshape(-1)[0])
    if not -rank <= axis < rank:
        raise Unsupported("the axis is out of range")
    return _joined(spec, axis % rank, range(1, len(spec.inputs)), False)


@native("Pack")
def _pack(spec: NodeSpec) -> NativeCall:
    return _joined(
        spec,
        int(spec.attrs.get("axis", 0)) % len(spec.outputs[0].shape),
        range(len(spec.inputs)),
        True,
    )


def _parted(spec: NodeSpec, axis: int, k: int, drop: bool) -> NativeCall:
    """Split input k along an axis into the outputs.

    drop: the axis is left out of them.
    """
    layout = _layout(spec, k)
    size = spec.inputs[k].dtype.size
    launches = []
    position = 0
    for number, out in enumerate(spec.outputs):
        shape = (*out.shape[:axis], 1, *out.shape[axis:]) if drop else out.shape
        part = layout.array[(slice(None),) * axis + (slice(position, position + shape[axis]),)]
        position += shape[axis]
        if part.shape != shape:
            raise Unsupported(f"{spec.op} {spec.name}: shapes do not fit")
        target = View(shape, c_strides(shape, size))
        launches.append(
            copy_launch(size, layout.view(part), target, Pointer("in", k), Pointer("out", number))
        )
    return _call(launches, 2 * spec.inputs[k].nbytes)


@native("Unpack")
def _unpack(spec: NodeSpec) -> NativeCall:
    return _parted(
        spec, int(spec.attrs.get("axis", 0)) % max(len(spec.inputs[0].shape), 1), 0, True
    )


@native("Split")
def _split(spec: NodeSpec) -> NativeCall:
    return _parted(
        spec, int(_known(spec, 0).reshape(-1)[0]) % max(len(spec.inputs[1].shape), 1), 1, False
    )


@native("SplitV")
def _split_v(spec: NodeSpec) -> NativeCall:
    return _parted(
        spec, int(_known(spec, 2).reshape(-1)[0]) % max(len(spec.inputs[0].shape), 1), 0, False
    )


@native("Slice")
def _slice(spec: NodeSpec) -> NativeCall:
    if 1 not in spec.constants:
        return block_slice(spec)
    layout = _layout(spec)
    begin, sizes = _known(spec, 1).reshape(-1).tolist(), spec.outputs[0].shape
    shape = spec.inputs[0].shape
    if not len(begin) == len(sizes) == len(shape) or any(
        b < 0 or b + n > size for b, n, size in zip(begin, sizes, shape)
    ):
        raise Unsupported("the slice leaves its input")
    return _gathered(
        spec, layout.array[tuple(slice(b, b + n) for b, n in zip(begin, sizes))], layout
    )


def _dense(spec: NodeSpec, shape: tuple[int, ...]) -> strided_slice.DenseSlice:
    return dense_slice(spec, shape, {k: _known(spec, k) for k in (1, 2, 3)})


@native("StridedSlice")
def _strided_slice(spec: NodeSpec) -> NativeCall:
    if 1 not in spec.constants:
        return index_slice(spec)
    layout = _layout(spec)
    return _gathered(spec, layout.array[_dense(spec, spec.inputs[0].shape).index()], layout)


@native("StridedSliceGrad")
def _strided_slice_grad(spec: NodeSpec) -> NativeCall:
    out, dy = spec.outputs[0], spec.inputs[4]
    if 1 not in spec.constants:
        zeros = _filled(out, Pointer("const", 0))
        placed = index_slice(spec, gradient=True)
        launches = (*(() if zeros is None else (zeros,)), *placed.launches)
        return NativeCall(launches, constants=(_word(out),), bytes_moved=out.nbytes + 2 * dy.nbytes)
    layout = Layout(out.shape, out.dtype.size)
    dense = _dense(spec, out.shape)
    place = layout.view(layout.array[dense.index()])
    if prod(place.shape) != dy.size:
        raise Unsupported("the gradient does not have the slice's shape")
    source = View(place.shape, c_strides(place.shape, dy.dtype.size))
    zeros = _filled(out, Pointer("const", 0))
    launch = copy_launch(out.dtype.size, source, place, Pointer("in", 4), Pointer("out", 0))
    return NativeCall(
        tuple(x for x in (zeros, launch) if x is not None),
        constants=(_word(out),),
        bytes_moved=out.nbytes + 2 * dy.nbytes,
    )


def _word(tensor: TensorSpec, value: float = 0) -> np.ndarray:
    """Return one element of a tensor's dtype."""
    return np.full(1, value, np.dtype(tensor.dtype.as_numpy_dtype))


def _filled(out: TensorSpec, value: Pointer) -> Launch | None:
    """Fill output 0 with the one element at `value`."""
    source = View(out.shape, (0,) * len(out.shape))
    return copy_launch(out.dtype.size, source, _whole(out), value, Pointer("out", 0))


@native("Fill")
def _fill(spec: NodeSpec) -> NativeCall:
    return _call([_filled(spec.outputs[0], Pointer("in", 1))], spec.outputs[0].nbytes)


@native("ZerosLike", "OnesLike")
def _like(spec: NodeSpec) -> NativeCall:
    out = spec.outputs[0]
    launch = _filled(out, Pointer("const", 0))
    return NativeCall(
        (launch,) if launch else (),
        constants=(_word(out, int(spec.op == "OnesLike")),),
        bytes_moved=out.nbytes,
    )


@native("BroadcastTo")
def _broadcast_to(spec: NodeSpec) -> NativeCall:
    layout = _layout(spec)
    return _gathered(spec, layout.spread(spec.outputs[0].shape), layout)


@native("Tile")
def _tile(spec: NodeSpec) -> NativeCall:
    x, out = spec.inputs[0], spec.outputs[0]
    counts = [o // n if n else 1 for o, n in zip(out.shape, x.shape)]
    if len(out.shape) != len(x.shape) or any(
        c * n != o for c, n, o in zip(counts, x.shape, out.shape)
    ):
        raise Unsupported("shapes do not fit")
    pairs = [d for c, n in zip(counts, x.shape) for d in (c, n)]
    target = View(tuple(pairs), c_strides(pairs, out.dtype.size))
    if not out.size:
        return NativeCall(())
    single = Layout([d for n in x.shape for d in (1, n)], x.dtype.size)
    source = single.view(single.spread(pairs))
    return _call(
        [copy_launch(out.dtype.size, source, target, Pointer("in", 0), Pointer("out", 0))],
        x.nbytes + out.nbytes,
    )


@native("ReverseV2", "Reverse")
def _reverse(spec: NodeSpec) -> NativeCall:
    layout = _layout(spec)
    rank = len(spec.inputs[0].shape)
    chosen = _known(spec, 1).reshape(-1)
    axes = (
        {k for k, flag in enumerate(chosen) if flag}
        if spec.op == "Reverse"
        else {int(a) % max(rank, 1) for a in chosen}
    )
    return _gathered(
        spec,
        layout.array[tuple(slice(None, None, -1 if k in axes else None) for k in range(rank))],
        layout,
    )


@native("Pad", "PadV2")
def _pad(spec: NodeSpec) -> NativeCall:
    x, out = spec.inputs[0], spec.outputs[0]
    pairs = _known(spec, 1).reshape(-1, 2).tolist()
    if any(
        n + a + b != o or min(a, b) < 0 for n, (a, b), o in zip(x.shape, pairs, out.shape)
    ) or len(pairs) != len(x.shape):
        raise Unsupported("paddings do not fit")
    layout = Layout(out.shape, out.dtype.size)
    inside = layout.array[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, pairs))]
    launches = [
        copy_launch(
            out.dtype.size, _whole(x), layout.view(inside), Pointer("in", 0), Pointer("out", 0)
        )
    ]
    where = Pointer("in", 2) if spec.op == "PadV2" else Pointer("const", 0)
    rest = layout.array
    # the slabs before and after each axis, within the range that is left
    for k, (n, (a, b)) in enumerate(zip(x.shape, pairs)):
        for start, stop in ((0, a), (a + n, a + n + b)):
            if stop > start:
                slab = layout.view(rest[(slice(None),) * k + (slice(start, stop),)])
                launches.append(
                    copy_launch(
                        out.dtype.size,
                        View(slab.shape, (0,) * len(slab.shape)),
                        slab,
                        where,
                        Pointer("out", 0),
                    )
                )
        rest = rest[(slice(None),) * k + (slice(a, a + n),)]
    constants = () if spec.op == "PadV2" else (_word(out),)
    kept = tuple(launch for launch in launches if launch is not None)
    return NativeCall(kept, constants=constants, bytes_moved=x.nbytes + out.nbytes)


@native("MirrorPad")
def _mirror_pad(spec: NodeSpec) -> NativeCall:
    x, out = spec.inputs[0], spec.outputs[0]
    pairs = _known(spec, 1).reshape(-1, 2).tolist()
    edge = 1 if spec.attrs["mode"] in (b"REFLECT", "REFLECT") else 0
    if any(
        n + a + b != o or max(a, b) > n - edge for n, (a, b), o in zip(x.shape, pairs, out.shape)
    ) or len(pairs) != len(x.shape):
        raise Unsupported("paddings do not fit")
    source, target = _layout(spec), Layout(out.shape, out.dtype.size)
    ways = []  # along each axis: (place in the output, part of the input, whether backwards)
    for n, (a, b) in zip(x.shape, pairs):
        way = [(slice(a, a + n), slice(None))]
        if a:
            way.append((slice(0, a), slice(a + edge - 1, edge - 1 if edge else None, -1)))
        if b:
            last = n - 1 - edge
            stop = last - b
            way.append((slice(a + n, a + n + b), slice(last, stop if stop >= 0 else None, -1)))
        ways.append(way)
    launches = []
    for choice in itertools.product(*ways):
        to = target.view(target.array[tuple(t for t, _ in choice)])
        of = source.view(source.array[tuple(f for _, f in choice)])
        launches.append(copy_launch(out.dtype.size, of, to, Pointer("in", 0), Pointer("out", 0)))
    return _call(launches, x.nbytes + out.nbytes)


@native("SpaceToDepth", "DepthToSpace")
def _depth_and_space(spec: NodeSpec) -> NativeCall:
    if spec.attrs.get("data_format", b"NHWC") not in (b"NHWC", "NHWC"):
        raise Unsupported("only NHWC")
    layout = _layout(spec)
    block = int(spec.attrs["block_size"])
    b, h, w, c = spec.inputs[0].shape
    if spec.op == "SpaceToDepth":
        moved = layout.array.reshape(b, h // block, block, w // block, block, c).transpose(
            0, 1, 3, 2, 4, 5
        )
    else:
        moved = layout.array.reshape(b, h, w, block, block, c // block**2).transpose(
            0, 1, 3, 2, 4, 5
        )
    return _gathered(spec, moved, layout)


@native(
    "Identity",
    "StopGradient",
    "PreventGradient",
    "Snapshot",
    "DeepCopy",
    "Reshape",
    "ExpandDims",
    "Squeeze",
    "EnsureShape",
)
def _copy(spec: NodeSpec) -> NativeCall:
    """Copy the input where the result may not be its buffer."""
    if spec.op == "Reshape":
        _known(spec, 1)  # The reference checks a shape that is known at run time only.
    out = spec.outputs[0]
    flat = View((out.size,), (out.dtype.size,))
    return _call(
        [copy_launch(out.dtype.size, flat, flat, Pointer("in", 0), Pointer("out", 0))],
        2 * out.nbytes,
    )


@native("Bitcast")
def _bitcast(spec: NodeSpec) -> NativeCall:
    size = spec.outputs[0].nbytes
    flat = View((size,), (1,))
    return _call([copy_launch(1, flat, flat, Pointer("in", 0), Pointer("out", 0))], 2 * size)


@native("ParallelConcat")
def _parallel_concat(spec: NodeSpec) -> NativeCall:
    return _joined(spec, 0, range(len(spec.inputs)), False)


@native("Roll")
def _roll(spec: NodeSpec) -> NativeCall:
    layout, target = _layout(spec), Layout(spec.outputs[0].shape, spec.outputs[0].dtype.size)
    shape = spec.inputs[0].shape
    shifts, axes = _known(spec, 1).reshape(-1).tolist(), _known(spec, 2).reshape(-1).tolist()
    if (
        len(shifts) != len(axes)
        or any(not -len(shape) <= a < len(shape) for a in axes)
        or not spec.outputs[0].size
    ):
        raise Unsupported("shifts and axes do not fit")
    total = [0] * len(shape)
    for shift, axis in zip(shifts, axes):
        total[axis % len(shape)] += shift
    ways = []  # along each axis: (place in the output, place in the input)
    for n, shift in zip(shape, total):
        cut = shift % n
        ways.append(
            [(slice(cut, n), slice(0, n - cut))]
            + ([(slice(0, cut), slice(n - cut, n))] if cut else [])
        )
    launches = []
    for choice in itertools.product(*ways):
        to, of = (
            target.array[tuple(t for t, _ in choice)],
            layout.array[tuple(f for _, f in choice)],
        )
        launches.append(
            copy_launch(
                spec.inputs[0].dtype.size,
                layout.view(of),
                target.view(to),
                Pointer("in", 0),
                Pointer("out", 0),
            )
        )
    return _call(launches, 2 * spec.outputs[0].nbytes)


def _in_blocks(spec: NodeSpec, to_batch: bool) -> tuple[list[int], list[list[int]]]:
    """Return block sizes and padding or cropping pairs of a block op.

    These are the four ops that move blocks of space into the batch or back.
    """
    pairs = _known(spec, len(spec.inputs) - 1).reshape(-1, 2).tolist()
    sizes = (
        _known(spec, 1).reshape(-1).tolist()
        if len(spec.inputs) == 3
        else [int(spec.attrs["block_size"])] * 2
    )
    space, batch = (
        (spec.inputs[0], spec.outputs[0]) if to_batch else (spec.outputs[0], spec.inputs[0])
    )
    fits = (
        len(pairs) == len(sizes) < len(space.shape)
        and min(sizes, default=1) >= 1
        and all(min(pair) >= 0 for pair in pairs)
    )
    if not fits or batch.shape[0] != space.shape[0] * prod(sizes):
        raise Unsupported("blocks do not fit")
    for k, (size, (before, after)) in enumerate(zip(sizes, pairs)):
        if space.shape[k + 1] + before + after != batch.shape[k + 1] * size:
            raise Unsupported("blocks do not fit")
    return sizes, pairs


@native("SpaceToBatchND", "SpaceToBatch", "BatchToSpaceND", "BatchToSpace")
def _space_and_batch(spec: NodeSpec) -> NativeCall:
    to_batch = spec.op.startswith("Space")
    sizes, pairs = _in_blocks(spec, to_batch)
    space, batch = (
        (spec.inputs[0], spec.outputs[0]) if to_batch else (spec.outputs[0], spec.inputs[0])
    )
    item = space.dtype.size
    in_space, in_batch = Layout(space.shape, item), Layout(batch.shape, item)
    launches: list[Launch | None] = []
    padded = to_batch and any(any(pair) for pair in pairs)
    if padded:
        launches.append(_filled(batch, Pointer("const", 0)))
    images = space.shape[0]
    for number, offsets in enumerate(itertools.product(*(range(size) for size in sizes))):
        first, last = [slice(None)], [slice(number * images, (number + 1) * images)]
        for k, (offset, size, (before, _)) in enumerate(zip(offsets, sizes, pairs)):
            low = max(-((offset - before) // size), 0)  # the first step with a place inside
            high = max(
                min((space.shape[k + 1] - 1 + before - offset) // size + 1, batch.shape[k + 1]), low
            )
            place = offset + low * size - before
            first.append(slice(place, place + (high - low) * size if high > low else place, size))
            last.append(slice(low, high))
        part, block = (
            in_space.view(in_space.array[tuple(first)]),
            in_batch.view(in_batch.array[tuple(last)]),
        )
        source, target = (part, block) if to_batch else (block, part)
        if source.shape != target.shape:
            raise Unsupported("blocks do not fit")
        launches.append(copy_launch(item, source, target, Pointer("in", 0), Pointer("out", 0)))
    kept = tuple(launch for launch in launches if launch is not None)
    return NativeCall(
        kept, constants=(_word(batch),) if padded else (), bytes_moved=space.nbytes + batch.nbytes
    )

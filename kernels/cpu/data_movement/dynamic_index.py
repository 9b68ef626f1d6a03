"""Build slices x[i], x[:, i] and x[i, j] by run-time scalars.

Their gradients are built, too. A kernel copies one block of elements for each row of the dims
before the index.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported
from tfjit.kernels.source import KernelSource, Source

_BITS = 32  # bits of a detail word for the index; the dimension is above them


_FORWARD = (Pointer("in", 0), Pointer("in", 1), Pointer("out", 0))


class _OutOfBounds(str):
    """TensorFlow's message, which names the index and the dimension.

    Both are packed in one detail word.
    """

    def format(self, *args: object, **kwargs: object) -> str:
        """Return the message for `detail`."""
        detail = int(kwargs["detail"])  # type: ignore[call-overload]
        index = (detail & ((1 << _BITS) - 1)) - (1 << (_BITS - 1))
        return f"slice index {index} of dimension {detail >> _BITS} out of bounds."


def _source(index_name: str, count: int, gradient: bool) -> KernelSource:
    """Write the kernel.

    Words: rows before, bytes of a block, bytes from one row to the next, the array, begin, the
    slice; then for each index its place in begin, the dimension, its size and the bytes from one
    element to the next.
    """
    s = Source()
    s.line(f"# {'gradient of a ' if gradient else ''}slice by {count} indices {index_name}")
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    s.line()
    s.line()
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(("outer", "inner", "pitch", "source", "begin", "out")):
            s.line(f"{name} = word(args, {2 + k})")
        s.line(f"indices = ptr_{index_name}(begin)")
        s.line("at = 0")
        for k in range(count):
            place = 8 + 4 * k
            s.line(f"i{k} = int(ld(indices, word(args, {place})))")
            s.line(f"n{k} = word(args, {place + 2})")
            s.line(f"k{k} = i{k} + n{k} if i{k} < 0 else i{k}")
            with s.block(f"if k{k} < 0 or k{k} >= n{k}:"):
                limit = 1 << (_BITS - 1)
                s.line(
                    f"fail(args, 1, word(args, {place + 1}) * {1 << _BITS} + min(max(i{k}, "
                    f"{-limit}), {limit - 1}) + {limit})"
                )
                s.line("return")
            s.line(f"at += k{k} * word(args, {place + 3})")
        with s.block("for row in range(outer):"):
            ends = ("out + row * inner", "source + row * pitch + at")
            s.line(f"copy_bytes({', '.join(reversed(ends) if gradient else ends)}, inner)")
    return KernelSource(s.text(), title="slice by index", module=__name__)


def index_slice(spec: NodeSpec, gradient: bool = False) -> NativeCall:
    """Return the call of a StridedSlice with an unknown begin.

    Raises Unsupported for all but full dimensions around scalar indices. gradient: of a
    StridedSliceGrad: writes the slice back into an array that exists already.
    """
    ends = (spec.outputs[0], spec.inputs[4]) if gradient else (spec.inputs[0], spec.outputs[0])
    x, begin, out = ends[0], spec.inputs[1], ends[1]
    masks = {
        name: int(spec.attrs.get(f"{name}_mask", 0))
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    steps = spec.constants.get(3)
    count = prod(begin.shape)
    if (
        masks["ellipsis"]
        or masks["new_axis"]
        or steps is None
        or not np.all(steps == 1)
        or count > len(x.shape)
    ):
        raise Unsupported("begin is not known while planning")
    taken = [d for d in range(count) if masks["shrink_axis"] >> d & 1]
    full = [
        d
        for d in range(count)
        if masks["begin"] >> d & 1 and masks["end"] >> d & 1 and d not in taken
    ]
    if (
        not taken
        or len(taken) + len(full) != count
        or taken != list(range(taken[0], taken[-1] + 1))
    ):
        raise Unsupported(
            "begin is not known while planning, and other than scalar indices side by side"
        )
    if (
        begin.dtype.name not in ("int32", "int64")
        or not x.dtype.is_numpy_compatible
        or x.dtype.name == "string"
        or not out.size
    ):
        raise Unsupported("its elements are no plain words, or there are none")
    size = x.dtype.size
    strides = [size * prod(x.shape[d + 1 :]) for d in range(len(x.shape))]
    inner, outer = strides[taken[-1]], prod(x.shape[: taken[0]])
    words: list[int] = []
    for d in taken:
        words += [d, d, x.shape[d], strides[d]]
    pitch = strides[taken[0] - 1] if taken[0] else 0
    cost = cost_model.FIXED_NS + cost_model.traffic_ns(2 * out.nbytes) + 4.0 * outer
    launch = Launch(
        _source("i32" if begin.dtype.size == 4 else "i64", len(taken), gradient),
        (
            outer,
            inner,
            pitch,
            *((Pointer("out", 0), Pointer("in", 1), Pointer("in", 4)) if gradient else _FORWARD),
            *words,
        ),
        cost_ns=cost,
        errors={
            1: ("InvalidArgumentError", _OutOfBounds("a slice index is out of bounds ({detail})"))
        },
    )
    return NativeCall((launch,), bytes_moved=2 * out.nbytes)

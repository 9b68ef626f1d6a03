"""Serve NCHW by the kernels for NHWC.

Images are transposed on the way in and on the way out.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tfjit.kernels.cpu.conv.window import attr_text
from tfjit.kernels.cpu.data_movement.strided_copy import Layout, View, copy_launch
from tfjit.kernels.cpu.template.iteration_space import c_strides
from tfjit.kernels.registry import Builder, Launch, NativeCall, NodeSpec, Pointer, TensorSpec, Word

_TO_LAST: Final = (0, 2, 3, 1)
_TO_FIRST: Final = (0, 3, 1, 2)


def either_layout(builder: Builder) -> Builder:
    """Return a builder for both layouts from a builder for NHWC.

    The first input and the only output of its op are images. Other inputs have the same form in
    both layouts, but for the window sizes and strides that MaxPoolV2 takes as inputs.
    """

    @functools.wraps(builder)
    def build(node: NodeSpec) -> NativeCall:
        if attr_text(node.attrs, "data_format", "NHWC") != "NCHW" or len(node.inputs[0].shape) != 4:
            return builder(node)
        return channels_last_call(node, builder)

    return build


def _moved(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(spec.dtype, tuple(spec.shape[axis] for axis in _TO_LAST))


def _attrs(attrs: Mapping[str, Any]) -> dict[str, Any]:
    found = {**attrs, "data_format": b"NHWC"}
    for name in ("strides", "dilations", "ksize"):
        if len(attrs.get(name, ())) == 4:
            found[name] = tuple(attrs[name][axis] for axis in _TO_LAST)
    pads = attrs.get("explicit_paddings", ())
    if len(pads) == 8:
        found["explicit_paddings"] = tuple(
            pads[2 * axis + side] for axis in _TO_LAST for side in (0, 1)
        )
    return found


def _transpose_launches(
    spec: TensorSpec, order: tuple[int, ...], source: Pointer, target: Pointer
) -> list[Launch]:
    """Return the launch that copies an array with permuted axes."""
    layout = Layout(spec.shape, spec.dtype.size)
    view = layout.view(layout.array.transpose(order))
    launch = copy_launch(
        spec.dtype.size,
        view,
        View(view.shape, c_strides(view.shape, spec.dtype.size)),
        source,
        target,
    )
    return [] if launch is None else [launch]


def channels_last_call(
    node: NodeSpec, builder: Builder, images: Sequence[int] = (0,), makes_images: bool = True
) -> NativeCall:
    """Return the launches for NHWC, with transposes around them.

    images: the inputs that are images. makes_images: whether the output is. Raises Unsupported
    where the builder does.
    """
    given = {k: _moved(node.inputs[k]) for k in images}
    y = _moved(node.outputs[0]) if makes_images else node.outputs[0]
    sizes = {
        k: np.asarray(v)[list(_TO_LAST)] if k and np.shape(v) == (4,) else v
        for k, v in node.constants.items()
    }
    inner = builder(
        replace(
            node,
            attrs=_attrs(node.attrs),
            inputs=tuple(given.get(k, spec) for k, spec in enumerate(node.inputs)),
            outputs=(y,),
            constants=sizes,
        )
    )
    ends = [("in", k) for k in images] + ([("out", 0)] if makes_images else [])
    moved_specs = [*given.values(), *([y] if makes_images else [])]
    places = {end: Pointer("temp", len(inner.temp_bytes) + k) for k, end in enumerate(ends)}

    def moved(word: Word) -> Word:
        place = places.get((word.kind, word.index)) if isinstance(word, Pointer) else None
        return (
            word
            if place is None or not isinstance(word, Pointer)
            else replace(place, offset=word.offset)
        )

    launches: list[Launch] = []
    for k in images:
        launches += _transpose_launches(node.inputs[k], _TO_LAST, Pointer("in", k), places["in", k])
    launches += [
        replace(launch, words=tuple(moved(word) for word in launch.words))
        for launch in inner.launches
    ]
    if makes_images:
        launches += _transpose_launches(y, _TO_FIRST, places["out", 0], Pointer("out", 0))
    return replace(
        inner,
        launches=tuple(launches),
        in_place=(),
        temp_bytes=(*inner.temp_bytes, *(max(64, spec.nbytes) for spec in moved_specs)),
        bytes_moved=inner.bytes_moved + 2 * sum(spec.nbytes for spec in moved_specs),
    )

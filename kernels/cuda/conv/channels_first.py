"""Build gradients of convolutions in NCHW by way of NHWC.

The images are transposed before and behind: it is for machines without cuDNN, which has both
layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tfjit.kernels.cuda.conv.launch_chain import LaunchChain
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, TensorSpec

_LAST: Final = (0, 2, 3, 1)


def by_channels_last(
    node: NodeSpec,
    build: Callable[[NodeSpec], NativeCall],
    images: Sequence[int],
    gives_images: bool,
) -> NativeCall:
    """Return the call of a node in NCHW.

    build: gives that of the node in NHWC. images: the inputs that are images. gives_images: so is
    output 0. Raises Unsupported as `build` does.
    """
    inputs = [_moved(s) if k in images else s for k, s in enumerate(node.inputs)]
    (result,) = node.outputs
    inner = replace(
        node,
        attrs=_attrs_of_last(node),
        inputs=tuple(inputs),
        outputs=(_moved(result) if gives_images else result,),
        constants={},
    )
    call = build(inner)
    if not call.launches:
        return call
    chain = LaunchChain()
    ins = [
        chain.in_order(spec, _LAST, Pointer("in", k), None) if k in images else Pointer("in", k)
        for k, spec in enumerate(node.inputs)
    ]
    out = chain.temp(result.nbytes) if gives_images else Pointer("out", 0)
    chain.call(call, ins, [out])
    if gives_images:
        chain.from_order(result, _LAST, out, Pointer("out", 0))
    return chain.native_call(call.bytes_moved, call.flops)


def _moved(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(spec.dtype, tuple(spec.shape[axis] for axis in _LAST))


def _attrs_of_last(node: NodeSpec) -> Mapping[str, object]:
    """Return the attrs in the order of NHWC."""
    attrs = {**node.attrs, "data_format": b"NHWC"}
    for name in ("strides", "dilations"):
        if attrs.get(name):
            attrs[name] = tuple(attrs[name][axis] for axis in _LAST)
    pads = attrs.get("explicit_paddings")
    if pads:
        attrs["explicit_paddings"] = tuple(pads[2 * axis + end] for axis in _LAST for end in (0, 1))
    return attrs


__all__ = ["by_channels_last"]

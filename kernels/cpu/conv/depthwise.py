"""Build depthwise convolutions with fused epilogues, NHWC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tfjit.kernels.cpu.conv.channelwise import add_channelwise, forward_map
from tfjit.kernels.cpu.conv.conv import conv2d_call, native_layout
from tfjit.kernels.cpu.conv.nchw import either_layout
from tfjit.kernels.cpu.conv.window import Layout
from tfjit.kernels.cpu.gemm.matmul import traffic
from tfjit.kernels.cpu.gemm.micro_kernels import tile_of
from tfjit.kernels.cpu.gemm.operands import operand_pointers
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.cpu.template.epilogue import Epilogue, epilogue_text
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, TensorSpec, Unsupported, native


def depthwise_call(
    inputs: Sequence[TensorSpec],
    *,
    strides: tuple[int, int] = (1, 1),
    padding: str = "SAME",
    explicit: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0)),
    dilations: tuple[int, int] = (1, 1),
    epilogue: Epilogue | None = None,
    constants: Mapping[int, np.ndarray] | None = None,
) -> NativeCall:
    """Return a depthwise convolution with an epilogue.

    x [b, h, w, c], filter [k_h, k_w, c, multiplier], operands... -> [b, out_h, out_w, c *
    multiplier]. Arguments as for `conv2d_call`. Raises Unsupported for dtypes without tiles,
    ValueError for sizes that do not fit.
    """
    x, w = inputs[:2]
    tile = tile_of(x.dtype)
    if w.dtype is not x.dtype:
        raise Unsupported(f"convolution of {x.dtype.name} and {w.dtype.name}")
    batch, height, width, channels = x.shape
    k_h, k_w, in_c, multiplier = w.shape
    if in_c != channels:
        raise ValueError(f"filter {w.shape} does not fit input {x.shape}")
    if multiplier != 1:
        # every channel is a separate group with `multiplier` results
        shape = (k_h, k_w, 1, channels * multiplier)
        known = {i: v.reshape(shape) if i == 1 else v for i, v in (constants or {}).items()}
        return conv2d_call(
            (x, TensorSpec(w.dtype, shape), *inputs[2:]),
            strides=strides,
            padding=padding,
            explicit=explicit,
            dilations=dilations,
            epilogue=epilogue,
            constants=known,
        )
    text = epilogue_text(epilogue, x.dtype)
    rows, cols = Layout(True, strides, dilations, padding, explicit).windows(
        height, width, (k_h, k_w)
    )
    call = CallBuilder(constants)
    products = batch * rows.out * cols.out * channels
    if products == 0:
        return call.finish()
    maps = forward_map(rows), forward_map(cols)
    add_channelwise(call, tile, "fma", text, maps, batch, (height, width), channels, Pointer("in", 0), Pointer("in", 1), k_w,
                    operand_pointers(inputs))  # fmt: skip
    return call.finish(traffic(inputs, text, products), 2 * products * k_h * k_w)


@native("DepthwiseConv2dNative")
@either_layout
def _depthwise(node: NodeSpec) -> NativeCall:
    layout = native_layout(node)
    return depthwise_call(
        node.inputs[:2],
        strides=layout.strides,
        padding=layout.padding,
        explicit=layout.explicit,
        dilations=layout.dilations,
        constants=node.constants,
    )

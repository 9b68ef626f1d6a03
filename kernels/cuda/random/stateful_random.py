"""Build random ops with a stream of their own for GPUs.

The launches read the stream's position; the runtime moves it on.
"""

from __future__ import annotations

from tfjit.kernels.cpu.random.draws import draw_of
from tfjit.kernels.cuda.random.draw_text import draw_launch
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.random_stream import BLOCKS_PER_OUTPUT
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer


@device_native("RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt")
def _random(node: NodeSpec) -> NativeCall:
    out = node.outputs[0]
    draw, bounds = draw_of(node)
    if out.size == 0:
        return NativeCall(())
    launch = draw_launch(
        f"{node.op} {draw.kind}",
        draw,
        bounds,
        out.size,
        "position_at(ptr_u64(stream0), ptr_u64(stream1))",
        (Pointer("state"), Pointer("state", 0, 16)),
        __name__,
    )
    return NativeCall((launch,), bytes_moved=out.nbytes, stream_blocks=out.size * BLOCKS_PER_OUTPUT)

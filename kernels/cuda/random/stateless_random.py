"""Build random ops with a stream as input for GPUs.

The input is a seed, which each thread scrambles, or a key and a counter.
"""

from __future__ import annotations

from tfjit.kernels.cpu.random.draws import draw_of, require_key, seed_kind
from tfjit.kernels.cuda.random.draw_text import draw_launch, text_of
from tfjit.kernels.cuda.template.launches import CudaLaunch, source
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer


@device_native(
    *("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"),
    *("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2"),
    *("StatelessRandomUniformFullInt", "StatelessRandomUniformFullIntV2"),
    *("StatelessRandomUniformInt", "StatelessRandomUniformIntV2"),
)
def _stateless(node: NodeSpec) -> NativeCall:
    out = node.outputs[0]
    draw, bounds = draw_of(node)
    if out.size == 0:
        return NativeCall(())
    stream: tuple[Pointer, ...]
    if node.op.endswith("V2"):
        require_key(node)
        position = "position_at(ptr_u64(stream0), ptr_u64(stream1))"
        stream = (Pointer("in", 2), Pointer("in", 1))
    else:
        position = f"seeded_position(ptr_{seed_kind(node, 1)}(stream0))"
        stream = (Pointer("in", 1),)
    launch = draw_launch(
        f"{node.op} {draw.kind}", draw, bounds, out.size, position, stream, __name__
    )
    return NativeCall((launch,), bytes_moved=out.nbytes)


@device_native("StatelessRandomGetKeyCounter")
def _key_counter(node: NodeSpec) -> NativeCall:
    kind = seed_kind(node, 0)
    s = text_of(f"stream of a seed {kind}")
    with s.block("def kernel(seed, key_at, counter_at):"):
        s.line(f"low, high, own = seeded_position(ptr_{kind}(seed))")
        s.line("key, counter = ptr_u64(key_at), ptr_u64(counter_at)")
        s.line("st(key, 0, own)")
        s.line("st(counter, 0, low)")
        s.line("st(counter, 1, high)")
    launch = CudaLaunch(
        source(s.text(), 3, "stream of a seed", __name__),
        (Pointer("in", 0), Pointer("out", 0), Pointer("out", 1)),
        block=(1, 1, 1),
    )
    return NativeCall((launch,))

"""Build compiled random ops with a stream as input.

The input is a seed that is scrambled first, or a key and a counter.
"""

from __future__ import annotations

from typing import Final

from tfjit.kernels.cpu.random.draws import draw_of, require_key, seed_kind
from tfjit.kernels.cpu.random.stateful_random import FUNCTIONS, draw_launch
from tfjit.kernels.cpu.template.cost_model import FIXED_NS
from tfjit.kernels.random_stream import POSITION_BYTES
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource, Source


def _scramble(seed: str) -> KernelSource:
    """Write the scrambling of a seed.

    Words: the seed, the address of the counter's two words, that of the key.
    """
    s = Source()
    s.line(f"# position of a stream from a seed of {seed}")
    for line in FUNCTIONS.splitlines():
        s.line(line)
    s.line(f"from tfjit.kernels.codegen.intrinsics import ld, ptr_{seed}, store_word, word")
    s.line()
    s.line()
    with s.block("def kernel(args, chunk, nchunks):"):
        s.line(f"seeds = ptr_{seed}(word(args, 2))")
        s.line("counter, key = word(args, 3), word(args, 4)")
        s.line("low, high, own = stream_of_seeds(uint64(ld(seeds, 0)), uint64(ld(seeds, 1)))")
        s.line("store_word(counter, low)")
        s.line("store_word(counter + 8, high)")
        s.line("store_word(key, own)")
    return KernelSource(s.text(), title="stream of a seed", module=__name__)


_JOIN: Final = """\
from tfjit.kernels.codegen.intrinsics import load_word, store_word, word


def kernel(args, chunk, nchunks):
    key, counter, position = word(args, 2), word(args, 3), word(args, 4)
    store_word(position, load_word(counter))
    store_word(position + 8, load_word(counter + 8))
    store_word(position + 16, load_word(key))
"""


def _scrambled(node: NodeSpec, index: int, counter: Pointer, key: Pointer) -> Launch:
    source = _scramble(seed_kind(node, index))
    return Launch(source, (Pointer("in", index), counter, key), cost_ns=FIXED_NS)


def _joined(node: NodeSpec) -> Launch:
    require_key(node)
    return Launch(
        KernelSource(_JOIN, title="stream of a key", module=__name__),
        (Pointer("in", 1), Pointer("in", 2), Pointer("temp", 0)),
        cost_ns=FIXED_NS,
    )


@native(
    *("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"),
    *("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2"),
    *("StatelessRandomUniformFullInt", "StatelessRandomUniformFullIntV2"),
    *("StatelessRandomUniformInt", "StatelessRandomUniformIntV2"),
)
def _stateless(node: NodeSpec) -> NativeCall:
    """Put the stream's position into a temporary, and draw from there."""
    out, position = node.outputs[0], Pointer("temp", 0)
    draw, bounds = draw_of(node)
    if not out.size:
        raise Unsupported("the output has no elements")
    if node.op.endswith("V2"):
        begin = _joined(node)
    else:
        begin = _scrambled(node, 1, position, Pointer("temp", 0, 16))
    launches = (begin, draw_launch(node, draw, bounds, position, __name__))
    return NativeCall(launches, temp_bytes=(POSITION_BYTES,), bytes_moved=out.nbytes)


@native("StatelessRandomGetKeyCounter")
def _key_counter(node: NodeSpec) -> NativeCall:
    return NativeCall((_scrambled(node, 0, Pointer("out", 1), Pointer("out", 0)),))

"""Build compiled random ops with a stream as input.

The input is a seed that is scrambled first, or a key and a counter.
"""

from __future__ import annotations

from typing import Final

from tfjit.kernels.cpu.random.stateful_random import (
    BOUNDS,
    FOUR,
    FUNCTIONS,
    INTEGERS,
    KERNELS,
    TWO,
    bound_words,
    kernel_text,
)
from tfjit.kernels.cpu.template.cost_model import FIXED_NS, chunks_for
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource, Source

_POSITION_BYTES: Final = 24
_SCRAMBLER: Final = 0x02461E293EC8F720  # key of the stream that scrambles seeds
_PHILOX, _AUTO = 1, 3

_FULL: Final = {
    4: ("c0, c1, c2, c3 = philox(position, g)\ny0, y1, y2, y3 = c0, c1, c2, c3", FOUR),
    8: ("c0, c1, c2, c3 = philox(position, g)\ny0, y1 = c0 | (c1 << HALF), c2 | (c3 << HALF)", TWO),
}


def _scramble(seed: str) -> KernelSource:
    """Write the scrambling of a seed.

    Words: the seed, the address of the counter's two words, that of the key, three scratch words.
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
        s.line("counter, key, start = word(args, 3), word(args, 4), word(args, 5)")
        s.line("store_word(start, uint64(ld(seeds, 0)))")
        s.line("store_word(start + 8, uint64(ld(seeds, 1)))")
        s.line(f"store_word(start + 16, uint64({_SCRAMBLER}))")
        s.line("c0, c1, c2, c3 = philox(start, 0)")
        s.line("store_word(counter, uint64(0))")
        s.line("store_word(counter + 8, c2 | (c3 << HALF))")
        s.line("store_word(key, c0 | (c1 << HALF))")
    return KernelSource(s.text(), title="stream of a seed", module=__name__)


_JOIN: Final = """\
from tfjit.kernels.codegen.intrinsics import load_word, store_word, word


def kernel(args, chunk, nchunks):
    key, counter, position = word(args, 2), word(args, 3), word(args, 4)
    store_word(position, load_word(counter))
    store_word(position + 8, load_word(counter + 8))
    store_word(position + 16, load_word(key))
"""


def _scrambled(node: NodeSpec, index: int, counter: Pointer, key: Pointer, work: Pointer) -> Launch:
    seed = node.inputs[index]
    if seed.shape != (2,) or seed.dtype.name not in ("int32", "int64"):
        raise Unsupported("its seed is not a pair of integers")
    return Launch(
        _scramble("i32" if seed.dtype.size == 4 else "i64"),
        (Pointer("in", index), counter, key, work),
        cost_ns=FIXED_NS,
    )


def _joined(node: NodeSpec) -> Launch:
    key, counter = node.inputs[1], node.inputs[2]
    if key.shape != (1,) or len(counter.shape) != 1 or counter.shape[0] < 2:
        raise Unsupported("its key and counter are no vectors of one and two")
    if 3 not in node.constants or int(node.constants[3]) not in (_PHILOX, _AUTO):
        raise Unsupported("its algorithm is not known to be Philox")
    return Launch(
        KernelSource(_JOIN, title="stream of a key", module=__name__),
        (Pointer("in", 1), Pointer("in", 2), Pointer("temp", 0)),
        cost_ns=FIXED_NS,
    )


def _drawn(
    node: NodeSpec, text: str, per: int, ns: float, extra: tuple[Word, ...] = ()
) -> NativeCall:
    """Put the stream's position into a temporary, and draw from there."""
    out, position = node.outputs[0], Pointer("temp", 0)
    if not out.size:
        raise Unsupported("the output has no elements")
    if node.op.endswith("V2"):
        begin = _joined(node)
    else:
        begin = _scrambled(
            node, 1, position, Pointer("temp", 0, 16), Pointer("temp", 0, _POSITION_BYTES)
        )
    source = KernelSource(
        text, ("kernel", "advance"), title=f"{node.op} {out.dtype.name}", module=__name__
    )
    cost = FIXED_NS + ns * out.size
    words: tuple[Word, ...] = (out.size, position, Pointer("out"), *extra)
    chunks = chunks_for(cost, max(1, out.size // (64 * per)))
    launches = (begin, Launch(source, words, chunks=chunks, cost_ns=cost))
    return NativeCall(launches, temp_bytes=(2 * _POSITION_BYTES,), bytes_moved=out.nbytes)


_LIKE: Final = {
    "Uniform": "RandomUniform",
    "Normal": "RandomStandardNormal",
    "TruncatedNormal": "TruncatedNormal",
}


@native(
    *("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"),
    *("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2"),
)
def _stateless(node: NodeSpec) -> NativeCall:
    name = node.outputs[0].dtype.name
    found = KERNELS.get(
        (_LIKE[node.op.removeprefix("Stateless").removeprefix("Random").removesuffix("V2")], name)
    )
    if found is None:
        raise Unsupported(f"{node.op} of {name} has no compiled form")
    kind, per, body, names, ns = found
    return _drawn(node, kernel_text(kind, per, body, names), per, ns)


@native("StatelessRandomUniformFullInt", "StatelessRandomUniformFullIntV2")
def _full_range(node: NodeSpec) -> NativeCall:
    dtype = node.outputs[0].dtype
    body, names = _FULL[dtype.size]
    kind = f"{'u' if dtype.name.startswith('u') else 'i'}{8 * dtype.size}"
    return _drawn(node, kernel_text(kind, len(names), body, names), len(names), 2.0)


@native("StatelessRandomUniformInt", "StatelessRandomUniformIntV2")
def _integers(node: NodeSpec) -> NativeCall:
    found = INTEGERS.get(node.outputs[0].dtype.name)
    if found is None:
        raise Unsupported(f"{node.op} of {node.outputs[0].dtype.name} has no compiled form")
    first = 4 if node.op.endswith("V2") else 2
    if first not in node.constants or first + 1 not in node.constants:
        raise Unsupported("its bounds are not known while planning")
    low, high = int(node.constants[first]), int(node.constants[first + 1])
    if low >= high:
        raise Unsupported(f"Need minval < maxval, got {low} >= {high}: the reference raises it")
    kind, per, body, names = found
    return _drawn(
        node, kernel_text(kind, per, body, names, BOUNDS), per, 3.0, bound_words(low, high)
    )


@native("StatelessRandomGetKeyCounter")
def _key_counter(node: NodeSpec) -> NativeCall:
    launch = _scrambled(node, 0, Pointer("out", 1), Pointer("out", 0), Pointer("temp", 0))
    return NativeCall((launch,), temp_bytes=(_POSITION_BYTES,))

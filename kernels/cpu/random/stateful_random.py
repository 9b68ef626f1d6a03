"""Build compiled random ops on TensorFlow's Philox streams.

They give TensorFlow's values exactly (see `philox` for the stream and its position's layout).
"""

from __future__ import annotations

from typing import Final

from tfjit.kernels.cpu.template.cost_model import FIXED_NS, chunks_for
from tfjit.kernels.random_stream import BLOCKS_PER_OUTPUT
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource

# `philox` returns one block: four uint32 draws, held in uint64. `position` is the address of the
# stream's three words.
FUNCTIONS: Final = """\
import math

from numba import float32, float64, njit, uint64

from tfjit.kernels.codegen.intrinsics import bits_f32, bits_f64, load_word

M0, M1 = uint64(0xD2511F53), uint64(0xCD9E8D57)
W0, W1 = uint64(0x9E3779B9), uint64(0xBB67AE85)
LOW, HALF = uint64(0xFFFFFFFF), uint64(32)


@njit(error_model="numpy", forceinline=True)
def philox(position, offset):
    first = uint64(load_word(position))
    low = first + uint64(offset)
    high = uint64(load_word(position + 8)) + (uint64(1) if low < first else uint64(0))
    key = uint64(load_word(position + 16))
    c0, c1, c2, c3 = low & LOW, low >> HALF, high & LOW, high >> HALF
    k0, k1 = key & LOW, key >> HALF
    for _ in range(10):
        p0 = c0 * M0
        p1 = c2 * M1
        c0, c1, c2, c3 = (p1 >> HALF) ^ c1 ^ k0, p1 & LOW, (p0 >> HALF) ^ c3 ^ k1, p0 & LOW
        k0, k1 = (k0 + W0) & LOW, (k1 + W1) & LOW
    return c0, c1, c2, c3


@njit(error_model="numpy", forceinline=True)
def unit_f32(x):
    return bits_f32((x & uint64(0x7FFFFF)) | uint64(0x3F800000)) - float32(1)


@njit(error_model="numpy", forceinline=True)
def unit_f64(high, low):
    return bits_f64(((high & uint64(0xFFFFF)) << HALF) | low | uint64(0x3FF0000000000000)) - float64(1)


@njit(error_model="numpy", forceinline=True)
def normal_f32(x0, x1):
    u = unit_f32(x0)
    u = float32(1.0e-7) if u < float32(1.0e-7) else u
    angle = float32(6.283185307179586 * float64(unit_f32(x1)))
    radius = math.sqrt(float32(-2) * math.log(u))
    return math.sin(angle) * radius, math.cos(angle) * radius


@njit(error_model="numpy", forceinline=True)
def normal_f64(x0, x1, x2, x3):
    u = unit_f64(x0, x1)
    u = 1.0e-7 if u < 1.0e-7 else u
    angle = 6.283185307179586 * unit_f64(x2, x3)
    radius = math.sqrt(-2.0 * math.log(u))
    return math.sin(angle) * radius, math.cos(angle) * radius


"""

_ENTRIES: Final = """\
from tfjit.kernels.codegen.intrinsics import load_word, ptr_{kind}, st, store_word, word


def advance(args, chunk, nchunks):
    position = word(args, 3)
    first = uint64(load_word(position))
    low = first + uint64(word(args, 2)) * uint64({reserve})
    store_word(position, low)
    if low < first:
        store_word(position + 8, uint64(load_word(position + 8)) + uint64(1))


def kernel(args, chunk, nchunks):
    n = word(args, 2)
    position = word(args, 3)
    out = ptr_{kind}(word(args, 4))
    groups = (n + {per} - 1) // {per}
    lo = groups * chunk // nchunks
    hi = groups * (chunk + 1) // nchunks
{setup}    for j in range(hi - lo):
        g = lo + j
{body}        i = {per} * g
        if i + {per} <= n:
{stores}
        else:
{tail}
"""


def kernel_text(kind: str, per: int, body: str, names: tuple[str, ...], setup: str = "") -> str:
    """Write the entries `kernel` and `advance`.

    Words: outputs, address of the stream's position, output, the words of `setup`. kind: of output
    elements; per: outputs a group, whose values `body` computes under `names`.
    """
    stores = "\n".join(f"            st(out, i + {k}, {name})" for k, name in enumerate(names))
    tail = "\n".join(
        f"            if i + {k} < n:\n                st(out, i + {k}, {name})"
        for k, name in enumerate(names)
    )

    def indent(text: str, depth: int) -> str:
        return "".join(" " * depth + line + "\n" for line in text.splitlines())

    return FUNCTIONS + _ENTRIES.format(
        kind=kind,
        per=per,
        body=indent(body, 8),
        stores=stores,
        tail=tail,
        setup=indent(setup, 4),
        reserve=BLOCKS_PER_OUTPUT,
    )


FOUR: Final = ("y0", "y1", "y2", "y3")
TWO: Final = ("y0", "y1")
_TRUNCATED_F32: Final = f"""\
y0 = y1 = y2 = y3 = float32(0)
have = 0
block = {BLOCKS_PER_OUTPUT} * g
while have < 4:
    c0, c1, c2, c3 = philox(position, block)
    block += 1
    for half in range(2):
        a, b = normal_f32(c0, c1) if half == 0 else normal_f32(c2, c3)
        for f in (a, b):
            if abs(f) < float32(2) and have < 4:
                y0 = f if have == 0 else y0
                y1 = f if have == 1 else y1
                y2 = f if have == 2 else y2
                y3 = f if have == 3 else y3
                have += 1"""

# (op, dtype) -> (kind, outputs a group, body, names of the group's values, ns an output)
KERNELS: Final = {
    ("RandomUniform", "float32"): (
        "f32",
        4,
        "c0, c1, c2, c3 = philox(position, g)\ny0, y1, y2, y3 = unit_f32(c0), unit_f32(c1), "
        "unit_f32(c2), unit_f32(c3)",
        FOUR,
        1.5,
    ),
    ("RandomUniform", "float64"): (
        "f64",
        2,
        "c0, c1, c2, c3 = philox(position, g)\ny0, y1 = unit_f64(c0, c1), unit_f64(c2, c3)",
        TWO,
        3.0,
    ),
    ("RandomStandardNormal", "float32"): (
        "f32",
        4,
        "c0, c1, c2, c3 = philox(position, g)\ny0, y1 = normal_f32(c0, c1)\ny2, y3 = "
        "normal_f32(c2, c3)",
        FOUR,
        12.0,
    ),
    ("RandomStandardNormal", "float64"): (
        "f64",
        2,
        "c0, c1, c2, c3 = philox(position, g)\ny0, y1 = normal_f64(c0, c1, c2, c3)",
        TWO,
        20.0,
    ),
    ("TruncatedNormal", "float32"): ("f32", 4, _TRUNCATED_F32, FOUR, 14.0),
}
BOUNDS: Final = "low = uint64(word(args, 5))\nspan = uint64(word(args, 6))"
INTEGERS: Final = {
    "int32": (
        "i32",
        4,
        "c0, c1, c2, c3 = philox(position, g)\ny0, y1, y2, y3 = low + c0 % span, low + c1 % span, "
        "low + c2 % span, low + c3 % span",
        FOUR,
    ),
    "int64": (
        "i64",
        2,
        "c0, c1, c2, c3 = philox(position, g)\ny0, y1 = low + (c0 | (c1 << HALF)) % span, low + "
        "(c2 | (c3 << HALF)) % span",
        TWO,
    ),
}


def bound_words(low: int, high: int) -> tuple[Word, Word]:
    """Return the words that BOUNDS reads."""
    span = high - low
    return low, span if span < 1 << 63 else span - (1 << 64)


def _call(
    node: NodeSpec, source: KernelSource, per: int, ns: float, extra: tuple[Word, ...] = ()
) -> NativeCall:
    out = node.outputs[0]
    cost = FIXED_NS + ns * out.size
    words: tuple[Word, ...] = (out.size, Pointer("state"), Pointer("out"), *extra)
    return NativeCall(
        (
            Launch(
                source, words, chunks=chunks_for(cost, max(1, out.size // (64 * per))), cost_ns=cost
            ),
            Launch(source, words, entry="advance", cost_ns=FIXED_NS),
        ),
        bytes_moved=out.nbytes,
    )


@native("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
def _random(node: NodeSpec) -> NativeCall:
    found = KERNELS.get((node.op, node.outputs[0].dtype.name))
    if found is None:
        raise Unsupported(f"{node.op} of {node.outputs[0].dtype.name} has no compiled form")
    kind, per, body, names, ns = found
    source = KernelSource(
        kernel_text(kind, per, body, names),
        ("kernel", "advance"),
        title=f"{node.op} {kind}",
        module=__name__,
    )
    return _call(node, source, per, ns)


@native("RandomUniformInt")
def _random_integers(node: NodeSpec) -> NativeCall:
    found = INTEGERS.get(node.outputs[0].dtype.name)
    if found is None:
        raise Unsupported(f"{node.op} of {node.outputs[0].dtype.name} has no compiled form")
    if 1 not in node.constants or 2 not in node.constants:
        raise Unsupported("the bounds of RandomUniformInt are not known while planning")
    low, high = int(node.constants[1]), int(node.constants[2])
    if low >= high:
        raise Unsupported(f"Need minval < maxval, got {low} >= {high}: the reference raises it")
    kind, per, body, names = found
    source = KernelSource(
        kernel_text(kind, per, body, names, BOUNDS),
        ("kernel", "advance"),
        title=f"{node.op} {kind}",
        module=__name__,
    )
    return _call(node, source, per, 3.0, bound_words(low, high))

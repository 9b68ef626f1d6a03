"""Write draws from Philox streams as text, for kernels of any target.

A draw computes a group of neighbouring outputs from blocks of a stream. `philox(position, offset)`,
which each target defines, returns one block: four uint32 draws, held in uint64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tfjit.kernels.random_stream import BLOCKS_PER_OUTPUT
from tfjit.kernels.registry import NodeSpec, Unsupported, Word

_DEFINITIONS: Final = """\
import math

M0, M1 = uint64(0xD2511F53), uint64(0xCD9E8D57)
W0, W1 = uint64(0x9E3779B9), uint64(0xBB67AE85)
LOW, HALF = uint64(0xFFFFFFFF), uint64(32)
SCRAMBLER = uint64(0x02461E293EC8F720)  # key of the stream that scrambles seeds


@
def philox_block(first, second, key, offset):
    low = first + uint64(offset)
    high = second + (uint64(1) if low < first else uint64(0))
    c0, c1, c2, c3 = low & LOW, low >> HALF, high & LOW, high >> HALF
    k0, k1 = key & LOW, key >> HALF
    for _ in range(10):
        p0 = c0 * M0
        p1 = c2 * M1
        c0, c1, c2, c3 = (p1 >> HALF) ^ c1 ^ k0, p1 & LOW, (p0 >> HALF) ^ c3 ^ k1, p0 & LOW
        k0, k1 = (k0 + W0) & LOW, (k1 + W1) & LOW
    return c0, c1, c2, c3


@
def stream_of_seeds(first, second):
    c0, c1, c2, c3 = philox_block(first, second, SCRAMBLER, 0)
    return uint64(0), c2 | (c3 << HALF), c0 | (c1 << HALF)


@
def unit_f32(x):
    return bits_f32((x & uint64(0x7FFFFF)) | uint64(0x3F800000)) - float32(1)


@
def unit_f64(high, low):
    mantissa = ((high & uint64(0xFFFFF)) << HALF) | low
    return bits_f64(mantissa | uint64(0x3FF0000000000000)) - float64(1)


@
def normal_f32(x0, x1):
    u = unit_f32(x0)
    u = float32(1.0e-7) if u < float32(1.0e-7) else u
    angle = float32(6.283185307179586 * float64(unit_f32(x1)))
    radius = math.sqrt(float32(-2) * math.log(u))
    return math.sin(angle) * radius, math.cos(angle) * radius


@
def normal_f64(x0, x1, x2, x3):
    u = unit_f64(x0, x1)
    u = 1.0e-7 if u < 1.0e-7 else u
    angle = 6.283185307179586 * unit_f64(x2, x3)
    radius = math.sqrt(-2.0 * math.log(u))
    return math.sin(angle) * radius, math.cos(angle) * radius


"""


def definitions(decorator: str) -> str:
    """Return the functions of all draws.

    A text imports numbers, `bits_f32` and `bits_f64` before. decorator: lets kernels call a
    function.
    """
    return _DEFINITIONS.replace("\n@\n", f"\n{decorator}\n")


@dataclass(frozen=True, slots=True)
class Draw:
    """The text of a group of outputs.

    kind: of pointers to outputs. names: of the group's values, which `body` computes from
    `position` and the group's number `g`. ns: time of an output on the host.
    """

    kind: str
    names: tuple[str, ...]
    body: str
    ns: float

    @property
    def per(self) -> int:
        """Return the outputs of a group."""
        return len(self.names)


_FOUR: Final = ("y0", "y1", "y2", "y3")
_TWO: Final = ("y0", "y1")
_BLOCK: Final = "c0, c1, c2, c3 = philox(position, g)\n"
_TRUNCATED_F32: Final = f"""\
y0 = y1 = y2 = y3 = float32(0)
have = 0
number = {BLOCKS_PER_OUTPUT} * g
while have < 4:
    c0, c1, c2, c3 = philox(position, number)
    number += 1
    for half in range(2):
        a, b = normal_f32(c0, c1) if half == 0 else normal_f32(c2, c3)
        for f in (a, b):
            if abs(f) < float32(2) and have < 4:
                y0 = f if have == 0 else y0
                y1 = f if have == 1 else y1
                y2 = f if have == 2 else y2
                y3 = f if have == 3 else y3
                have += 1"""

DRAWS: Final = {
    ("RandomUniform", "float32"): Draw(
        "f32",
        _FOUR,
        f"{_BLOCK}y0, y1, y2, y3 = unit_f32(c0), unit_f32(c1), unit_f32(c2), unit_f32(c3)",
        1.5,
    ),
    ("RandomUniform", "float64"): Draw(
        "f64", _TWO, f"{_BLOCK}y0, y1 = unit_f64(c0, c1), unit_f64(c2, c3)", 3.0
    ),
    ("RandomStandardNormal", "float32"): Draw(
        "f32", _FOUR, f"{_BLOCK}y0, y1 = normal_f32(c0, c1)\ny2, y3 = normal_f32(c2, c3)", 12.0
    ),
    ("RandomStandardNormal", "float64"): Draw(
        "f64", _TWO, f"{_BLOCK}y0, y1 = normal_f64(c0, c1, c2, c3)", 20.0
    ),
    ("TruncatedNormal", "float32"): Draw("f32", _FOUR, _TRUNCATED_F32, 14.0),
}
"""Map op and dtype to draws of floats."""
_BOUNDED: Final = {
    "int32": Draw(
        "i32",
        _FOUR,
        f"{_BLOCK}y0, y1 = low + remainder(c0, span), low + remainder(c1, span)\n"
        "y2, y3 = low + remainder(c2, span), low + remainder(c3, span)",
        3.0,
    ),
    "int64": Draw(
        "i64",
        _TWO,
        f"{_BLOCK}y0 = low + remainder(c0 | (c1 << HALF), span)\n"
        "y1 = low + remainder(c2 | (c3 << HALF), span)",
        3.0,
    ),
}
_FULL: Final = {
    4: (_FOUR, f"{_BLOCK}y0, y1, y2, y3 = c0, c1, c2, c3"),
    8: (_TWO, f"{_BLOCK}y0, y1 = c0 | (c1 << HALF), c2 | (c3 << HALF)"),
}
_STATELESS: Final = {
    "StatelessRandomUniform": "RandomUniform",
    "StatelessRandomNormal": "RandomStandardNormal",
    "StatelessTruncatedNormal": "TruncatedNormal",
}
DRAWN: Final = frozenset(
    {
        *("RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt"),
        *_STATELESS,
        *("StatelessRandomUniformInt", "StatelessRandomUniformFullInt"),
    }
)
"""Ops that `draw_of` serves, without the suffix of second versions."""
_PHILOX, _AUTO = 1, 3


def has_draw(op: str, dtype: str) -> bool:
    """Return whether there is a text for outputs of a dtype.

    op: a random op, stateless or not.
    """
    name = op.removesuffix("V2")
    if name.endswith("FullInt"):
        return True
    return dtype in _BOUNDED if name.endswith("Int") else (_like(op), dtype) in DRAWS


def _like(op: str) -> str:
    name = op.removesuffix("V2")
    return _STATELESS.get(name, name)


def draw_of(node: NodeSpec) -> tuple[Draw, tuple[Word, ...]]:
    """Return the draw of a random op, and its bounds.

    These are the words (lowest, size of the range), or none. Raises Unsupported.
    """
    dtype, name = node.outputs[0].dtype, node.op.removesuffix("V2")
    if not has_draw(node.op, dtype.name):
        raise Unsupported(f"{node.op} of {dtype.name} has no compiled form")
    if name.endswith("FullInt"):
        names, body = _FULL[dtype.size]
        kind = f"{'u' if dtype.name.startswith('u') else 'i'}{8 * dtype.size}"
        return Draw(kind, names, body, 2.0), ()
    if not name.endswith("Int"):
        return DRAWS[_like(node.op), dtype.name], ()
    first = 4 if node.op.endswith("V2") else 2 if name.startswith("Stateless") else 1
    if first not in node.constants or first + 1 not in node.constants:
        raise Unsupported(f"the bounds of {node.op} are not known while planning")
    low, high = int(node.constants[first]), int(node.constants[first + 1])
    if low >= high:
        raise Unsupported(f"Need minval < maxval, got {low} >= {high}: the reference raises it")
    span = high - low
    return _BOUNDED[dtype.name], (low, span if span < 1 << 63 else span - (1 << 64))


def seed_kind(node: NodeSpec, index: int) -> str:
    """Return the kind of pointers to a node's seed. Raises Unsupported."""
    seed = node.inputs[index]
    if seed.shape != (2,) or seed.dtype.name not in ("int32", "int64"):
        raise Unsupported("its seed is not a pair of integers")
    return "i32" if seed.dtype.size == 4 else "i64"


def require_key(node: NodeSpec) -> None:
    """Raise Unsupported unless a node's inputs name a stream of Philox."""
    key, counter = node.inputs[1], node.inputs[2]
    if key.shape != (1,) or len(counter.shape) != 1 or counter.shape[0] < 2:
        raise Unsupported("its key and counter are no vectors of one and two")
    if 3 not in node.constants or int(node.constants[3]) not in (_PHILOX, _AUTO):
        raise Unsupported("its algorithm is not known to be Philox")


__all__ = [
    "DRAWN",
    "DRAWS",
    "Draw",
    "definitions",
    "draw_of",
    "has_draw",
    "require_key",
    "seed_kind",
]

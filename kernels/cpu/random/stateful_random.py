"""Build compiled random ops on TensorFlow's Philox streams.

They give TensorFlow's values exactly (see `philox` for the stream and its position's layout).
"""

from __future__ import annotations

from typing import Final

from tfjit.kernels.cpu.random.draws import Draw, definitions, draw_of
from tfjit.kernels.cpu.template.cost_model import FIXED_NS, chunks_for
from tfjit.kernels.random_stream import BLOCKS_PER_OUTPUT
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Word, native
from tfjit.kernels.source import KernelSource

FUNCTIONS: Final = f"""\
from numba import float32, float64, njit, uint64

from tfjit.kernels.codegen.intrinsics import bits_f32, bits_f64, load_word

{definitions('@njit(error_model="numpy", forceinline=True)')}\
@njit(error_model="numpy", forceinline=True)
def philox(position, offset):
    first, second = uint64(load_word(position)), uint64(load_word(position + 8))
    return philox_block(first, second, uint64(load_word(position + 16)), offset)


@njit(error_model="numpy", forceinline=True)
def remainder(draw, span):
    return draw % span


"""
"""Functions of the draws; `position` is the address of three words."""

_ADVANCE: Final = """\


def advance(args, chunk, nchunks):
    rows = word(args, 2)
    position = word(args, 3)
    first = uint64(load_word(position))
    low = first + uint64({count})
    store_word(position, low)
    if low < first:
        store_word(position + 8, uint64(load_word(position + 8)) + uint64(1))
"""


def advance_text(count: str = f"rows * {BLOCKS_PER_OUTPUT}") -> str:
    """Return the entry that moves a stream on.

    count: an expression of the number of blocks, in which `rows` is argument word 2. Word 3 is the
    address of the stream's position.
    """
    return _ADVANCE.format(count=count)


_ENTRY: Final = """\
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


_BOUNDS: Final = "low = uint64(word(args, 5))\nspan = uint64(word(args, 6))"


def kernel_text(draw: Draw, bounded: bool) -> str:
    """Write the entries `kernel` and `advance`.

    Words: outputs, address of the stream's position, output, and bounds where `bounded`.
    """
    stores = "\n".join(f"            st(out, i + {k}, {name})" for k, name in enumerate(draw.names))
    tail = "\n".join(
        f"            if i + {k} < n:\n                st(out, i + {k}, {name})"
        for k, name in enumerate(draw.names)
    )

    def indent(text: str, depth: int) -> str:
        return "".join(" " * depth + line + "\n" for line in text.splitlines())

    imports = (
        f"from tfjit.kernels.codegen.intrinsics import ptr_{draw.kind}, st, store_word, word\n\n\n"
    )
    return (
        FUNCTIONS
        + imports
        + _ENTRY.format(
            kind=draw.kind,
            per=draw.per,
            body=indent(draw.body, 8),
            stores=stores,
            tail=tail,
            setup=indent(_BOUNDS, 4) if bounded else "",
        )
        + advance_text()
    )


def draw_launch(
    node: NodeSpec, draw: Draw, bounds: tuple[Word, ...], position: Pointer, module: str
) -> Launch:
    """Return the launch that draws from the stream at `position`."""
    out = node.outputs[0]
    source = KernelSource(
        kernel_text(draw, bool(bounds)),
        ("kernel", "advance"),
        title=f"{node.op} {draw.kind}",
        module=module,
    )
    cost = FIXED_NS + draw.ns * out.size
    chunks = chunks_for(cost, max(1, out.size // (64 * draw.per)))
    words = (out.size, position, Pointer("out"), *bounds)
    return Launch(source, words, chunks=chunks, cost_ns=cost)


@native("RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt")
def _random(node: NodeSpec) -> NativeCall:
    launch = draw_launch(node, *draw_of(node), Pointer("state"), __name__)
    advance = Launch(launch.source, launch.words, entry="advance", cost_ns=FIXED_NS)
    return NativeCall((launch, advance), bytes_moved=node.outputs[0].nbytes)

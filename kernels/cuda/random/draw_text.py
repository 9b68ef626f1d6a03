"""Write the kernels that draw from a stream.

A thread computes groups of neighbouring outputs, in steps of the size of the grid.
"""

from __future__ import annotations

from tfjit.kernels.cpu.random.draws import Draw, definitions
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import grid_stride
from tfjit.kernels.cuda.template.launches import CudaLaunch, grid_for, source
from tfjit.kernels.registry import Pointer, Word
from tfjit.kernels.source import Source

_FUNCTIONS = f"""\
{definitions("@device_function")}\
@device_function
def philox(position, offset):
    return philox_block(position[0], position[1], position[2], offset)


@device_function
def remainder(draw, span):
    return uint64(rem_u64(draw, span))


@device_function
def position_at(counter, key):
    return ld(counter, 0), ld(counter, 1), ld(key, 0)


@device_function
def seeded_position(seed):
    return stream_of_seeds(uint64(ld(seed, 0)), uint64(ld(seed, 1)))


"""
"""Functions of the draws; `position` is three words."""


def text_of(comment: str) -> Source:
    """Return a text with the functions of the draws."""
    s = Source()
    s.line(f"# {comment}")
    for line in (*element_kinds.HEADER, *_FUNCTIONS.splitlines()):
        s.line(line)
    return s


def draw_launch(
    title: str, draw: Draw, bounds: tuple[Word, ...], count: int, position: str,
    stream: tuple[Pointer, ...], module: str,
) -> CudaLaunch:  # fmt: skip
    """Return the launch that draws `count` outputs.

    position: an expression over the addresses `stream0`, `stream1`, which `stream` gives.
    """
    per = draw.per
    names = (
        *("n", "out_at"),
        *(f"stream{k}" for k in range(len(stream))),
        *("lowest", "width")[: len(bounds)],
    )
    s = text_of(title)
    with s.block(f"def kernel({', '.join(names)}):"):
        s.line(f"out = ptr_{draw.kind}(out_at)")
        s.line(f"position = {position}")
        if bounds:
            s.line("low, span = uint64(lowest), uint64(width)")
        s.line(f"groups = (n + {per - 1}) >> {per.bit_length() - 1}")
        with grid_stride(s, "g", "groups"):
            for line in draw.body.splitlines():
                s.line(line)
            s.line(f"i = {per} * g")
            with s.block(f"if i + {per} <= n:"):
                s.line(f"st_vec{per}(out, i, {', '.join(draw.names)})")
            with s.block("else:"):
                for k, name in enumerate(draw.names):
                    with s.block(f"if i + {k} < n:"):
                        s.line(f"st(out, i + {k}, {name})")
    words: tuple[Word, ...] = (count, Pointer("out"), *stream, *bounds)
    return CudaLaunch(
        source(s.text(), len(names), title, module), words, grid=grid_for(-(-count // per))
    )


__all__ = ["draw_launch", "text_of"]

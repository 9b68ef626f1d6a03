"""Transform the filter of Winograd's form at run time.

The filter of a training step changes in every run.
"""

from __future__ import annotations

import functools
from typing import Final

from tfjit.kernels.cpu.gemm.macro_kernel import write_words
from tfjit.kernels.cpu.gemm.micro_kernels import Tile
from tfjit.kernels.cpu.gemm.packing import PANEL_WORDS, PanelPlan
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.cpu.template.chunking import chunk_count
from tfjit.kernels.registry import Launch, Pointer
from tfjit.kernels.source import KernelSource, Source

FILTER_MATRIX: Final = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))
_ELEMENT_NS: Final = 2.5
_TAPS: Final = 3
_POSITIONS: Final = 16
_WORDS: Final = (
    "channels",
    "out_channels",
    "panels",
    "panel_table",
    "filter",
    "target",
    "matrix_bytes",
)


def filter_ns(channels: int, out_channels: int) -> float:
    """Return the predicted time of a transform."""
    return cost_model.FIXED_NS + _ELEMENT_NS * channels * out_channels


def _combined(names: list[str]) -> list[str]:
    """Return the terms of FILTER_MATRIX times a column of three values.

    Sums are halved, not their terms, which rounds no worse.
    """
    a, b, c = names
    return [a, f"half * ({a} + {b} + {c})", f"half * ({a} - {b} + {c})", c]


@functools.cache
def filter_source(tile: Tile) -> KernelSource:
    """Write the transform of a filter to 16 packed matrices.

    The filter is [3, 3, channels, out_channels], a matrix [channels, out_channels] of G g G.T. A
    unit of work is a channel. Words: those of _WORDS.
    """
    cast = {"f32": "float32", "f64": "float64"}[tile.kind]
    s = Source()
    s.line(f"# winograd filter transform {tile.kind}, {tile.columns} columns")
    s.line("from tfjit.kernels import vmath as vm")
    s.line(
        f"from tfjit.kernels.codegen.intrinsics import fill_bytes, ld, ptr_{tile.kind}, st_out, "
        "word"
    )
    with s.block("def kernel(args, chunk, nchunks):"):
        write_words(s, *_WORDS)
        s.line(f"half = vm.{cast}(0.5)")
        s.line("first = channels * chunk // nchunks")
        s.line(f"row = out_channels * {tile.size}")
        with s.block("for number in range(channels * (chunk + 1) // nchunks - first):"):
            s.line("channel = first + number")
            with s.block("for panel in range(panels):"):
                s.line(f"entry = panel_table + panel * {8 * PANEL_WORDS}")
                s.line("row_bytes = word(entry, 5)")
                s.line("columns = word(entry, 4)")
                s.line("out = target + word(entry, 1) + channel * row_bytes")
                with (
                    s.block(f"if columns * {tile.size} != row_bytes:"),
                    s.block(f"for position in range({_POSITIONS}):"),
                ):
                    s.line("fill_bytes(out + position * matrix_bytes, 0, row_bytes)")
                s.line("g = filter + channel * row + word(entry, 2)")
                for tap in range(_TAPS**2):
                    s.line(f"g{tap} = ptr_{tile.kind}(g + {tap} * channels * row)")
                for position in range(_POSITIONS):
                    s.line(f"u{position} = ptr_{tile.kind}(out + {position} * matrix_bytes)")
                with s.block("for j in range(columns):"):
                    for tap in range(_TAPS**2):
                        s.line(f"x{tap} = ld(g{tap}, j)")
                    for column in range(_TAPS):
                        for i, term in enumerate(
                            _combined([f"x{_TAPS * k + column}" for k in range(_TAPS)])
                        ):
                            s.line(f"h{i}_{column} = {term}")
                    for i in range(4):
                        for k, term in enumerate(
                            _combined([f"h{i}_{column}" for column in range(_TAPS)])
                        ):
                            s.line(f"st_out(u{4 * i + k}, j, {term}, 0)")
    return KernelSource(s.text(), title=f"winograd filter transform {tile.kind}", module=__name__)


def transform_at_run_time(
    call: CallBuilder, plan: PanelPlan, table: Pointer, weights: Pointer
) -> Pointer:
    """Add the launch that transforms the filter at `weights`.

    Returns the address of the packed matrices, which are plan.nbytes apart.
    """
    channels, out_channels = plan.depth, sum(panel.columns for panel in plan.panels)
    target = call.temp(_POSITIONS * plan.nbytes)
    cost = filter_ns(channels, out_channels)
    words = (channels, out_channels, len(plan.panels), table, weights, target, plan.nbytes)
    call.launch(
        Launch(filter_source(plan.tile), words, chunks=chunk_count(cost, channels), cost_ns=cost)
    )
    return target

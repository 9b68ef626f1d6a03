"""Build launches over windows, for each channel on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cpu.conv.window import Window
from tfjit.kernels.cuda.conv.window_text import Op, window_source
from tfjit.kernels.cuda.gemm.finish_text import Finish, finish_of, finish_words
from tfjit.kernels.cuda.gemm.slabs import MOST_ELEMENTS
from tfjit.kernels.cuda.gemm.tiles import VECTOR_BYTES, accumulator
from tfjit.kernels.cuda.template.launches import THREADS, CudaLaunch, grid_for
from tfjit.kernels.registry import NativeCall, Pointer, TensorSpec, Word

if TYPE_CHECKING:
    from tfjit.kernels.cpu.template.epilogue import Epilogue


@dataclass(frozen=True, slots=True)
class Images:
    """The sizes of a result.

    Channels come last or first.
    """

    batch: int
    height: int
    width: int
    channels: int
    channels_last: bool = True

    @property
    def matrix(self) -> tuple[int, int]:
        """Return the result's rows and columns: the columns are the contiguous axes."""
        if self.channels_last:
            return self.batch * self.height * self.width, self.channels
        return self.batch * self.channels, self.height * self.width


def windows_call(
    op: Op,
    dtype: DType,
    result: Images,
    others: tuple[int, int],
    windows: tuple[Window, Window],
    sources: Sequence[Pointer],
    multiplier: int = 1,
    epilogue: Epilogue | None = None,
    operands: Sequence[tuple[Pointer, TensorSpec]] = (),
    bytes_moved: int = 0,
) -> NativeCall:
    """Return the launch over the elements of `result`.

    others: height and width of the other images: the input, or out_backprop of a gradient. sources:
    the kernel's inputs. Raises Unsupported for dtypes without sums.
    """
    accumulator(dtype)
    rows, columns = result.matrix
    if rows * columns == 0:
        return NativeCall(())
    vector = min(MOST_ELEMENTS, VECTOR_BYTES // dtype.size)
    wide = result.channels_last and multiplier == 1 and columns % vector == 0
    made = finish_of(dtype, epilogue, columns)
    finish = Finish(dtype, epilogue, vector if wide else 1, wide and made.vector)
    narrow = max(rows * columns, result.batch * result.channels * others[0] * others[1]) < 2**32
    down, across = windows
    words: tuple[Word, ...] = (
        *(rows, columns, result.channels, multiplier, result.height, result.width),
        *others,
        *(down.size, across.size, down.stride, across.stride),
        *(down.dilation, across.dilation, down.before, across.before),
        *sources,
        *finish_words(finish, operands, rows, columns),
    )
    launch = CudaLaunch(
        window_source(op, finish.run, result.channels_last, narrow, finish),
        words,
        grid=grid_for(rows * -(-columns // finish.run)),
        block=(THREADS, 1, 1),
    )
    taps = down.size * across.size
    return NativeCall((launch,), bytes_moved=bytes_moved, flops=2 * rows * columns * taps)


__all__ = ["Images", "windows_call"]

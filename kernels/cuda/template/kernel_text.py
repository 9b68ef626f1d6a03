"""Collect a CUDA kernel's lines and the argument words that they name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tfjit.kernels.cuda.template import element_kinds, launches
from tfjit.kernels.cuda.template.launches import CudaLaunch
from tfjit.kernels.registry import Word
from tfjit.kernels.source import KernelSource, Source


class KernelText(Source):
    """The body of a kernel under construction, and its arguments.

    narrow: whether indices stay below 2^31, so that they are divided in 32 bits.
    """

    def __init__(self, narrow: bool = True) -> None:
        super().__init__()
        self.narrow = narrow
        self.names: list[str] = []
        self.words: list[Word] = []
        self._depth = 1

    def argument(self, name: str, word: Word) -> str:
        """Add an argument; return its name."""
        self.names.append(name)
        self.words.append(word)
        return name

    def split(self, whole: str, quotient: str, remainder: str, size: str) -> None:
        """Append lines that divide an index by a size.

        quotient: may be the index itself.
        """
        bits = 32 if self.narrow else 64
        self.line(f"{remainder} = rem_u{bits}({whole}, {size})")
        self.line(f"{quotient} = div_u{bits}({whole}, {size})")

    def source(self, comment: str, title: str, module: str, threads: int = 0) -> KernelSource:
        """Return the finished kernel.

        threads: of a block, for which the compiler has to leave registers; 0 for no limit.
        """
        lines = (f"# {comment}", *element_kinds.HEADER, f"def kernel({', '.join(self.names)}):")
        text = "\n".join(lines) + "\n" + self.text()
        if threads:
            text += f"\n\nkernel.launch_bounds = ({threads}, 1)\n"
        return launches.source(text, len(self.names), title, module)

    def launch(
        self, comment: str, title: str, module: str, grid: launches.Extent,
        block: launches.Extent = (launches.THREADS, 1, 1),
    ) -> CudaLaunch:  # fmt: skip
        """Return the launch of the finished kernel."""
        # 256 threads may have 255 registers each, all that a thread can name
        threads = block[0] if block[0] > launches.THREADS else 0
        source = self.source(comment, title, module, threads)
        return CudaLaunch(source, tuple(self.words), grid=grid, block=block)


@contextmanager
def grid_stride(text: Source, unit: str, count: str) -> Iterator[None]:
    """Append a loop in which the grid's threads take units in turn.

    unit: the variable of the unit's number. count: the number of units.
    """
    text.line(f"{unit} = unit()")
    text.line("grid_step = units()")
    with text.block(f"while {unit} < {count}:"):
        yield
        text.line(f"{unit} = advance({unit}, grid_step)")


def fits_32_bits(sizes: Sequence[int]) -> bool:
    """Return whether numbers of elements allow indices of 32 bits."""
    return all(size < 2**31 for size in sizes)

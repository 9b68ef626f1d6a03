"""Write the way of an operand's slabs from global to shared memory.

A product is a^T b of slabs: `depth` terms by `extent` lines, a line being a row of the result for
the left operand, a column for the right one. In shared memory the lines of a term lie side by side.
In global memory either the terms of a line lie side by side (`along` "depth") or the lines of a
term ("extent"). Threads share the vectors of a slab so that a warp reads contiguous memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cuda.gemm.tiles import VECTOR_BYTES, TileShape
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.source import Source

Along = Literal["depth", "extent"]
MOST_ELEMENTS: Final = 4  # of one load; elements of 16 bits travel as 8 bytes


@dataclass(frozen=True, slots=True)
class Slab:
    """The part of a tile that holds one operand.

    Its loads are shared by the threads of a block. side: "a" or "b", the prefix of all names in the
    text. lines: of the tile. vector: elements of one load. size: bytes of an element in shared
    memory.
    """

    side: str
    lines: int
    depth: int
    threads: int
    along: Along
    vector: int
    size: int

    @property
    def pitch(self) -> int:
        """Return the elements from one term to the next in shared memory.

        One vector of padding moves the terms that a warp stores at once to other banks.
        """
        return self.lines + VECTOR_BYTES // self.size

    @property
    def elements(self) -> int:
        """Return the elements of one buffer in shared memory."""
        return self.depth * self.pitch

    @property
    def lanes(self) -> int:
        """Return the vectors along the contiguous axis."""
        return (self.depth if self.along == "depth" else self.lines) // self.vector

    @property
    def step(self) -> int:
        """Return the distance between a thread's vectors across the contiguous axis."""
        return self.threads // self.lanes

    @property
    def loads(self) -> int:
        """Return the vectors of a thread."""
        return (self.lines if self.along == "depth" else self.depth) // self.step

    def name(self, text: str) -> str:
        """Return a name of the text that is this operand's."""
        return f"{self.side}_{text}"


def widest(tile: TileShape, lines: int, dtype: DType, *multiples: int) -> int:
    """Return the elements of a load.

    multiples: numbers of elements that a load has to divide: the length of the contiguous axis, and
    distances between loads.
    """
    vector = min(MOST_ELEMENTS, VECTOR_BYTES // dtype.size)
    fits = lines * tile.depth // vector >= tile.threads
    return vector if fits and all(number % vector == 0 for number in multiples) else 1


class Operand(ABC):
    """An operand of a product: it writes its loads.

    dtype: in global memory. along, vector: see `Slab`.
    """

    dtype: DType
    along: Along
    vector: int

    @property
    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """Return the names of the operand's words, without the prefix."""

    @property
    def title(self) -> str:
        """Return the form, for the opening comment."""
        return f"{type(self).__name__} along {self.along} by {self.vector}"

    @abstractmethod
    def write_setup(self, s: Source, slab: Slab) -> None:
        """Write the thread's part before the loop.

        Defined before: `matrix`, `{side}_first` (the tile's first line), `{side}_lines` (of the
        whole operand), `depth_first`, `depth_last`; `{side}_lane`, the first element of the
        thread's vectors along the contiguous axis, and `{side}_across`, the first vector across it.
        """

    @abstractmethod
    def write_load(self, s: Source, slab: Slab, number: int) -> tuple[str, str]:
        """Return load `number` of the slab that begins at `depth_at`.

        It is a function of `tile_intrinsics`, without its number of elements, and its arguments
        behind the pointer. Lines may be written before.
        """

    def write_slab_start(self, s: Source, slab: Slab) -> None:
        """Write the part that the loads of one slab share."""
        return

    def write_slab_end(self, s: Source, slab: Slab) -> None:
        """Write the step to the next slab; none by default."""
        return

    def slab(self, side: str, tile: TileShape, size: int) -> Slab:
        """Return the share of a tile."""
        lines = tile.rows if side == "a" else tile.columns
        return Slab(side, lines, tile.depth, tile.threads, self.along, self.vector, size)


def write_begin(s: Source, operand: Operand, slab: Slab) -> None:
    """Write pointer and place of the thread, and the operand's own setup."""
    name = slab.name
    s.line(f"{name('p')} = {element_kinds.pointer(operand.dtype, name('address'))}")
    s.line(f"{name('across')} = div_u32(t, {slab.lanes})")
    s.line(f"{name('lane')} = (t - {name('across')} * {slab.lanes}) * {slab.vector}")
    operand.write_setup(s, slab)


def write_fetch(s: Source, operand: Operand, slab: Slab) -> None:
    """Load the thread's vectors of the slab at `depth_at` into registers."""
    operand.write_slab_start(s, slab)
    for number in range(slab.loads):
        function, place = operand.write_load(s, slab, number)
        names = _registers(slab, number)
        suffix = "" if slab.vector == 1 else str(slab.vector)
        s.line(f"{', '.join(names)} = {function}{suffix}({slab.name('p')}, {place})")
    operand.write_slab_end(s, slab)


def write_store(s: Source, operand: Operand, slab: Slab, buffer: str) -> None:
    """Store the registers into the shared buffer that begins at element `buffer`."""
    for number in range(slab.loads):
        values = [expressions.loaded(operand.dtype, v) for v in _registers(slab, number)]
        across = f"{slab.name('across')} + {number * slab.step}"
        if slab.along == "depth":
            for k, value in enumerate(values):
                s.line(
                    f"st_shared({slab.name('shared')}, {buffer} + ({slab.name('lane')} + {k}) * "
                    f"{slab.pitch} + {across}, {value})"
                )
        else:
            suffix = "" if slab.vector == 1 else str(slab.vector)
            s.line(
                f"st_shared{suffix}({slab.name('shared')}, {buffer} + ({across}) * {slab.pitch} + "
                f"{slab.name('lane')}, {', '.join(values)})"
            )


def _registers(slab: Slab, number: int) -> Sequence[str]:
    return [f"{slab.name('v')}{number}_{k}" for k in range(slab.vector)]


@dataclass(frozen=True, slots=True)
class MatrixOperand(Operand):
    """A matrix of a batch, with contiguous terms or lines.

    table: its matrices begin at elements that a table lists, else a fixed distance apart.
    """

    dtype: DType
    along: Along
    vector: int
    table: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """Return address, elements across the contiguous axis, elements between matrices."""
        return ("address", "stride", "matrix")

    @property
    def title(self) -> str:
        """Return the form, for the opening comment."""
        return f"{self.along} by {self.vector}{' of a table' if self.table else ''}"

    def write_setup(self, s: Source, slab: Slab) -> None:
        """Write index and limit of each load."""
        name = slab.name
        start = (
            f"ld_ro(ptr_i64({name('matrix')}), matrix)"
            if self.table
            else f"matrix * {name('matrix')}"
        )
        s.line(f"{name('start')} = {start}")
        if self.along == "depth":
            for number in range(slab.loads):
                s.line(f"line = {name('first')} + {name('across')} + {number * slab.step}")
                s.line(f"{name('i')}{number} = {name('start')} + line * {name('stride')}")
                s.line(f"{name('limit')}{number} = depth_last if line < {name('lines')} else 0")
        else:
            s.line(f"line = {name('first')} + {name('lane')}")
            s.line(f"{name('i')} = {name('start')} + line")
            s.line(f"{name('limit')} = depth_last if line < {name('lines')} else 0")

    def write_load(self, s: Source, slab: Slab, number: int) -> tuple[str, str]:
        """Return one load."""
        name = slab.name
        if self.along == "depth":
            at = f"depth_at + {name('lane')}"
            return "ld_below", f"{name('i')}{number} + {at}, {at}, {name('limit')}{number}"
        at = f"depth_at + {name('across')} + {number * slab.step}"
        return "ld_below", f"{name('i')} + ({at}) * {name('stride')}, {at}, {name('limit')}"


__all__ = [
    "Along",
    "MatrixOperand",
    "Operand",
    "Slab",
    "widest",
    "write_begin",
    "write_fetch",
    "write_store",
]

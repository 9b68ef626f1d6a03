"""Visit the rows that indices name, updates of a row in order.

The index vectors are sorted by row, equal rows in the order of the indices. Then one thread applies
all updates of an element, one after the other: the result is that of a loop over the indices, and
the same in each run. So a row that comes very often takes long. An index out of range is skipped,
as is the padding of indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, Protocol

from tfjit.kernels.cpu.template.indexed_rows import index_kind
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import CudaLaunch, grid_for
from tfjit.kernels.cuda.template.sort import PLACE, Sorted, sort_rows
from tfjit.kernels.registry import NodeSpec, Pointer, Unsupported

_MAX_ROWS: Final = (1 << 31) - 1
_UNROLLED: Final = 4
"""Updates of an element whose loads are under way together."""


class RowUpdate(Protocol):
    """Write the update of one element of a row.

    The element is at index `at` of the target; an update has it at index `from_at`. replaces: only
    the last update of an element counts.
    """

    @property
    def replaces(self) -> bool: ...

    def write_head(self, text: KernelText) -> None:
        """Append the lines before all loops: arguments, pointers, scalars."""

    def write_load(self, text: KernelText) -> None:
        """Append the load of the element."""

    def write_update(self, text: KernelText) -> None:
        """Append one update."""

    def write_store(self, text: KernelText) -> None:
        """Append the store of the element."""


@dataclass(frozen=True, slots=True)
class RowIndex:
    """Index vectors in an input, one for each row of updates.

    limits: the target's leading dims, one for each number of a vector. count: of the vectors.
    """

    kind: str
    at: Pointer
    limits: tuple[int, ...]
    count: int

    @property
    def rows(self) -> int:
        """Return the number of the target's rows."""
        return prod(self.limits)

    def write_head(self, text: KernelText) -> None:
        """Append the pointer to the indices, and the limits."""
        text.line(f"index_p = ptr_{self.kind}({text.argument('indices', self.at)})")
        for k, limit in enumerate(self.limits):
            text.argument(f"limit{k}", limit)
        text.argument("rows", self.rows)

    def write_row(self, text: KernelText, number: str) -> None:
        """Append the lines that set `target_row` from a vector's number.

        It is `rows` for a vector out of range.
        """
        depth = len(self.limits)
        for k in range(depth):
            place = number if depth == 1 else f"{number} * {depth} + {k}"
            text.line(f"k{k} = int64(ld_ro(index_p, {place}))")
        inside = " & ".join(f"(k{k} >= 0) & (k{k} < limit{k})" for k in range(depth))
        row = "k0"
        for k in range(1, depth):
            row = f"({row}) * limit{k} + k{k}"
        text.line(f"target_row = select({inside}, {row}, rows)")

    def write_element(self, text: KernelText) -> None:
        """Append the key of a sort by rows."""
        self.write_row(text, "place")
        text.line("key = target_row")


def row_index(spec: NodeSpec, number: int, shape: Sequence[int], depth: int = 1) -> RowIndex:
    """Return the vectors in input `number` that index into a shape.

    depth: of the vectors. Raises Unsupported for other types and for vectors that are too long.
    """
    indices = spec.inputs[number]
    if not 0 < depth <= len(shape):
        raise Unsupported(f"index vectors of {depth} for an array of rank {len(shape)}")
    kind = index_kind(indices)
    return RowIndex(kind, Pointer("in", number), tuple(shape[:depth]), indices.size // depth)


def ordered_updates(
    index: RowIndex, inner: int, update: RowUpdate, what: str, module: str
) -> tuple[tuple[CudaLaunch, ...], tuple[int, ...]]:
    """Return the launches that update rows, and the bytes of temporaries.

    inner: elements of a row. what: the update, for comment and title. Raises
    Unsupported for too many rows.
    """
    if index.rows > _MAX_ROWS:
        raise Unsupported(f"{index.rows} rows")
    by = f"rows by vectors of {len(index.limits)} {index.kind}"
    order = sort_rows(1, index.count, index.count, index, None, by, module)
    launch = _updates_launch(order, index, inner, update, what, module)
    return (*order.launches, launch), order.temp_bytes


def _updates_launch(
    order: Sorted, index: RowIndex, inner: int, update: RowUpdate, what: str, module: str
) -> CudaLaunch:
    """Return the launch that applies sorted updates.

    The thread of the first update of a row's element applies all of them, or that of the last one
    its own.
    """
    units = index.count * inner
    text = KernelText(fits_32_bits([units]))
    text.argument("units_in_all", units)
    text.argument("count", index.count)
    text.argument("inner", inner)
    text.argument("rows", index.rows)
    text.line(f"order_p = ptr_i64({text.argument('order', order.records)})")
    update.write_head(text)
    with grid_stride(text, "u", "units_in_all"):
        text.split("u", "number", "column", "inner")
        text.line("record = ld(order_p, number)")
        text.line("row = record >> 32")
        near, end = ("+ 1", "count - 1") if update.replaces else ("- 1", "0")
        text.line(f"is_end = number == {end}")
        text.line(f"near = ld(order_p, select(is_end, number, number {near})) >> 32")
        with text.block("if row < rows and (is_end or near != row):"):
            text.line("at = row * inner + column")
            update.write_load(text)
            if update.replaces:
                _write_update(text, update, "record")
            else:
                _write_updates(text, update)
            update.write_store(text)
    return text.launch(what, what, module, grid_for(units))


def _write_updates(text: KernelText, update: RowUpdate) -> None:
    """Append all updates of a row's element from `number` on.

    Records are sorted: if a later one is of the row, so are those before it.
    """
    last = _UNROLLED - 1
    text.line("left = count - number")
    with text.block(f"while left > {last} and ld(order_p, number + {last}) >> 32 == row:"):
        for k in range(_UNROLLED):
            text.line(f"record{k} = ld(order_p, number + {k})")
        for k in range(_UNROLLED):
            _write_update(text, update, f"record{k}")
        text.line(f"number += {_UNROLLED}")
        text.line("left = count - number")
    with text.block("while number < count and ld(order_p, number) >> 32 == row:"):
        _write_update(text, update, "ld(order_p, number)")
        text.line("number += 1")


def _write_update(text: KernelText, update: RowUpdate, record: str) -> None:
    text.line(f"from_at = ({record} & {PLACE}) * inner + column")
    update.write_update(text)


__all__ = ["RowIndex", "RowUpdate", "ordered_updates", "row_index"]

"""Write loops over the rows of arrays that an index tensor names.

A kernel checks all indices before it touches a row, so each of its chunks sees the same first index
out of range. All sizes are argument words: one text serves any number of indices and any rows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Final

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.registry import Launch, NativeCall, Pointer, TensorSpec, Unsupported, Word
from tfjit.kernels.source import KernelSource, Source

INDEX: Final = {"int32": "i32", "int64": "i64"}
"""Kinds of index tensors, by dtype."""
_MAX_DEPTH: Final = 8
_HEAD: Final = ("total", "inner", "rows", "by_column", "report", "indices")
_COLUMN_BYTES: Final = 512
"""Least bytes of a row of which each thread gets some columns."""
_ROW_BYTES: Final = 64
"""Least bytes of rows that threads share by ranges.

Each thread reads all indices, and the branch on their rows is hard to predict: shorter rows are not
worth that.
"""
_MAX_CHUNKS: Final = 8
_INDEX_NS: Final = 2.0


class IndexMessage(str):
    """The message for an index out of range.

    Its text may hold {place}, the index's place in its tensor, {at}, the same in brackets, and
    {value}. The detail is the address of [flat place, values of the index vector, address of the
    argument block]. dims: number of the argument word with the first dim of the index tensor.
    """

    depth: int
    rank: int
    dims: int

    def __new__(cls, text: str, depth: int, rank: int, dims: int) -> IndexMessage:
        made = super().__new__(cls, text)
        made.depth, made.rank, made.dims = depth, rank, dims
        return made

    def format(self, *args: object, **kwargs: object) -> str:
        """Return the message for `detail`."""
        flat, *values, block = _words(int(str(kwargs["detail"])), self.depth + 2)
        place = place_text(flat, _words(block + 8 * self.dims, self.rank))
        return super().format(
            place=place, at=f"[{place}]" if place else "", value=", ".join(map(str, values))
        )


def place_text(flat: int, shape: Sequence[int]) -> str:
    """Return the place of an element, as in "1,2".

    It is empty for a scalar. The first dim is not asked for: in a generic variant it may be that of
    another size.
    """
    place: list[int] = []
    for dim in reversed(shape[1:]):
        flat, at = divmod(flat, int(dim))
        place.insert(0, at)
    return ",".join(map(str, [flat, *place] if shape else []))


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(address))


def padding(index: str) -> str:
    """Return the padding of indices of a kind as text."""
    return "-2147483648" if index == "i32" else "(-9223372036854775807 - 1)"


def write_head(s: Source, index: str, depth: int, arrays: Sequence[str]) -> None:
    """Name the argument words and check the indices.

    `stop` is the place of the first index out of range, or else `total`, the number of index
    vectors in front of the padding. Words: index vectors,
    elements of a row, rows, whether chunks share columns, report memory, indices, the `depth`
    limits, for single indices whether there is padding, and the arrays: the address of array `x` is
    `x_at`.
    """
    limits = [f"limit{k}" for k in range(depth)]
    padded = ["padded"] if depth == 1 else []
    for k, name in enumerate((*_HEAD, *limits, *padded, *(f"{name}_at" for name in arrays))):
        s.line(f"{name} = word(args, {2 + k})")
    s.line(f"index_p = ptr_{index}(indices)")
    if padded:
        at_end = f"int(ld(index_p, total - 1)) == {padding(index)}"
        with s.block("if padded != 0:"), s.block(f"while total > 0 and {at_end}:"):
            s.line("total = total - 1")
    outside = [f"k{k} < 0 or k{k} >= limit{k}" for k in range(depth)]
    s.line("bad = 0")
    with s.block("for u in range(total):"):
        _write_index(s, depth)
        for k in range(depth):
            s.line(f"bad |= int(k{k} < 0) | int(k{k} >= limit{k})")
    s.line("stop = total")
    with s.block("if bad != 0:"), s.block("for u in range(total):"):
        _write_index(s, depth)
        with s.block(f"if {' or '.join(outside)}:"):
            s.line("stop = u")
            s.line("store_word(report, u)")
            for k in range(depth):
                s.line(f"store_word(report + {8 * (k + 1)}, k{k})")
            s.line(f"store_word(report + {8 * (depth + 1)}, args)")
            s.line("break")


def _write_index(s: Source, depth: int) -> None:
    for k in range(depth):
        place = "u" if depth == 1 else f"u * {depth} + {k}"
        s.line(f"k{k} = int(ld(index_p, {place}))")


def write_share(s: Source) -> None:
    """Name the rows and columns of the chunk.

    They are the rows [`lo`, `hi`), and `width` columns from `first` on.
    """
    for name, value in (("lo", "0"), ("hi", "rows"), ("first", "0"), ("width", "inner")):
        s.line(f"{name} = {value}")
    with s.block("if by_column != 0:"):
        s.line("first = inner * chunk // nchunks")
        s.line("width = inner * (chunk + 1) // nchunks - first")
    with s.block("else:"):
        s.line("lo = rows * chunk // nchunks")
        s.line("hi = rows * (chunk + 1) // nchunks")


@contextmanager
def each_row(
    s: Source,
    depth: int,
    at_row: Sequence[tuple[str, DType]],
    at_index: Sequence[tuple[str, DType]],
    single: bool,
) -> Iterator[None]:
    """Write the loops over the indices and over the elements of rows.

    The indices are those before `stop`, the elements are `i`. at_row: arrays with a row for each
    value of an index; at_index: with a row for each index. The pointer to a row of array `x` is
    `x_p`. single: a row is one element.
    """
    with s.block("for u in range(stop):"):
        _write_index(s, depth)
        row = "k0"
        for k in range(1, depth):
            row = f"({row}) * limit{k} + k{k}"
        s.line(f"row = {row}")
        with s.block("if row >= lo and row < hi:"):
            for place, arrays in (("row", at_row), ("u", at_index)):
                for name, dtype in arrays:
                    address = f"{name}_at + ({place} * inner + first) * {dtype.size}"
                    s.line(f"{name}_p = {typed_pointers.pointer(dtype, address)}")
            if single:
                # A loop over one element would test each time whether vectors are worth it.
                s.line("i = 0")
                yield
            else:
                with s.block("for i in range(width):"):
                    yield


def write_imports(s: Source, title: str) -> None:
    """Write the comment and the imports that open a kernel's text."""
    s.line(f"# {title}")
    for line in (*expressions.IMPORTS, "from tfjit.kernels.codegen.intrinsics import *", "", ""):
        s.line(line)


Writer = Callable[[str, bool], KernelSource]


def index_kind(indices: TensorSpec) -> str:
    """Return the kind of an index tensor. Raises Unsupported."""
    if indices.dtype.name not in INDEX:
        raise Unsupported(f"indices of {indices.dtype.name}")
    return INDEX[indices.dtype.name]


def rows_call(
    write: Writer,
    target: TensorSpec,
    indices: TensorSpec,
    index_input: int,
    arrays: Sequence[Pointer],
    text: str,
    *,
    vectors: bool = False,
    padded: bool = False,
    traffic: int = 3,
    element_ns: float = 0.0,
    more: Sequence[tuple[int, str]] = (),
) -> NativeCall:
    """Return the call of a kernel that updates rows of a target.

    write: returns the source for an index kind and whether a row is one element. arrays: pointers
    behind the limits. text: the `IndexMessage`. vectors: the last axis of the indices holds index
    vectors. padded: the indices have padding. traffic: arrays of the rows' size that are read or
    written. more: codes and messages of further errors. Raises Unsupported.
    """
    kind = index_kind(indices)
    depth = indices.shape[-1] if vectors else 1
    places = indices.shape[:-1] if vectors else indices.shape
    if not 0 < depth <= min(len(target.shape), _MAX_DEPTH):
        raise Unsupported(f"index vectors of {depth} for an array of rank {len(target.shape)}")
    limits = target.shape[:depth]
    rows, inner, total = prod(limits), prod(target.shape[depth:]), prod(places)
    row_bytes = inner * target.dtype.size
    moved = traffic * total * row_bytes + indices.nbytes
    cost = (
        cost_model.FIXED_NS
        + cost_model.traffic_ns(moved)
        + _INDEX_NS * total
        + element_ns * (total * inner)
    )
    by_column = row_bytes >= _COLUMN_BYTES
    if by_column:
        limit = inner // (_COLUMN_BYTES // 2 // target.dtype.size)
    else:
        limit = rows if row_bytes >= _ROW_BYTES else 1
    chunks = cost_model.chunks_for(cost, limit if limit < _MAX_CHUNKS else _MAX_CHUNKS)
    words: tuple[Word, ...] = (
        total, inner, rows, int(by_column), Pointer("temp", 0), Pointer("in", index_input), *limits,
        *([int(padded)] if depth == 1 else []), *arrays,
    )  # fmt: skip
    message = IndexMessage(text, depth, len(places), 2 + len(words))
    errors = {code: ("InvalidArgumentError", found) for code, found in ((1, message), *more)}
    launch = Launch(
        write(kind, inner == 1), (*words, *places), chunks=chunks, cost_ns=cost, errors=errors
    )
    return NativeCall((launch,), temp_bytes=(8 * (depth + 2),), bytes_moved=moved)

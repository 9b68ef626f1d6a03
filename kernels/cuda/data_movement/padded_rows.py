"""Build a search for distinct indices, with padding behind them.

The values are sorted with their places, so that each finds the first place of its value. The
distinct values keep the order of their first places: counts of first places in front of each, by
tiles and then over the tiles, are their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tfjit.kernels.cpu.template.indexed_rows import index_kind, padding
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import CudaLaunch, grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.cuda.template.sort import PLACE, Sorted, sort_rows
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, TensorSpec, Unsupported

_TILE: Final = 256
"""Places that a block counts at a time, one a thread."""
_FIRST: Final = Pointer("temp", 2)
"""The first place of each place's value."""
_COUNT: Final = Pointer("temp", 3)
"""First places in front of each place of its tile."""
_TILES: Final = Pointer("temp", 4)
"""First places in each tile, later in front of it.

The last number is that of all.
"""


@dataclass(frozen=True, slots=True)
class _Values:
    """Read values as the keys of a sort."""

    kind: str

    def write_head(self, text: KernelText) -> None:
        text.line(f"x_p = ptr_{self.kind}({text.argument('x', Pointer('in', 0))})")

    def write_element(self, text: KernelText) -> None:
        text.line("key = int64(ld_ro(x_p, place))")
        # a value is no padding; neither of the two is a valid row
        text.line(f"key = max(key, {padding(self.kind)} + 1)")


@device_native("_PaddedUnique")
def _padded_unique(spec: NodeSpec) -> NativeCall:
    (x,), (rows, idx) = spec.inputs, spec.outputs
    if len(x.shape) != 1:
        raise Unsupported("values are no vector")
    if not x.size:
        return NativeCall(())
    kind, count = index_kind(x), x.size
    wide = x.dtype.size == 8
    what = f"distinct {kind}"
    order = sort_rows(1, count, count, _Values(kind), None, what, __name__, wide)
    tiles = -(-count // _TILE)
    launches = (
        *order.launches,
        _first_places(order, count, wide, what),
        _counts(count, tiles),
        _sums(tiles),
        _numbers(x, rows, idx, tiles),
    )
    sizes = (*order.temp_bytes, 4 * count, 4 * count, 4 * (tiles + 1))
    moved = x.nbytes + rows.nbytes + idx.nbytes
    return NativeCall(launches, temp_bytes=sizes, bytes_moved=moved)


def _first_places(order: Sorted, count: int, wide: bool, what: str) -> CudaLaunch:
    """Return the launch that finds the first place of each place's value."""
    text = KernelText(fits_32_bits([count]))
    text.argument("count", count)
    text.line(f"word_p = ptr_i64({text.argument('words', order.records)})")
    if wide:
        places = Pointer(order.records.kind, order.records.index, 8 * count)
        text.line(f"place_p = ptr_i32({text.argument('places', places)})")
    text.line(f"first_p = ptr_i32({text.argument('first', _FIRST)})")
    shift = "" if wide else " >> 32"

    def place(at: str) -> str:
        return f"ld(place_p, {at})" if wide else f"int32(ld(word_p, {at}) & {PLACE})"

    with grid_stride(text, "u", "count"):
        text.line(f"key = ld(word_p, u){shift}")
        text.line("lo = int64(0)")
        text.line("hi = u")
        with text.block("while lo < hi:"):
            text.line("middle = (lo + hi) >> 1")
            text.line(f"before = ld(word_p, middle){shift} < key")
            text.line("lo = select(before, middle + 1, lo)")
            text.line("hi = select(before, hi, middle)")
        text.line(f"st(first_p, {place('u')}, {place('lo')})")
    title = f"first places of {what}"
    return text.launch(title, title, __name__, grid_for(count))


def _write_scan(text: KernelText) -> None:
    """Add the totals of a block's earlier threads to each `total`."""
    distance = 1
    text.line("st_shared(totals, lane, total)")
    while distance < _TILE:
        text.line("sync_threads()")
        near = f"select(lane >= {distance}, lane - {distance}, lane)"
        text.line(f"near = ld_shared(totals, {near})")
        text.line("sync_threads()")
        with text.block(f"if lane >= {distance}:"):
            text.line("total += near")
            text.line("st_shared(totals, lane, total)")
        distance *= 2
    text.line("sync_threads()")


def _counts(count: int, tiles: int) -> CudaLaunch:
    """Return the launch that counts first places within tiles."""
    text = KernelText()
    text.argument("count", count)
    text.argument("tiles", tiles)
    for name, place in (("first", _FIRST), ("count", _COUNT), ("tile", _TILES)):
        text.line(f"{name}_p = ptr_i32({text.argument(f'{name}_at', place)})")
    text.line(f"totals = shared_i64({_TILE})")
    text.line("lane = thread()")
    text.line("tile = block()")
    with text.block("while tile < tiles:"):
        text.line(f"place = tile * {_TILE} + lane")
        text.line("own = int64(0)")
        with text.block("if place < count:"):
            text.line("own = select(int64(ld(first_p, place)) == place, int64(1), int64(0))")
        text.line("total = own")
        _write_scan(text)
        with text.block("if place < count:"):
            text.line("st(count_p, place, int32(total - own))")
        with text.block(f"if lane == {_TILE - 1}:"):
            text.line("st(tile_p, tile, int32(total))")
        text.line("sync_threads()")
        text.line("tile += blocks()")
    title = "counts of first places in tiles"
    return text.launch(title, title, __name__, grid_for(tiles, 1), (_TILE, 1, 1))


def _sums(tiles: int) -> CudaLaunch:
    """Return the launch of one block that adds up tiles' counts."""
    text = KernelText()
    text.argument("tiles", tiles)
    text.line(f"tile_p = ptr_i32({text.argument('tile_at', _TILES)})")
    text.line(f"totals = shared_i64({_TILE})")
    text.line("lane = thread()")
    text.line("carry = int64(0)")
    text.line("start = int64(0)")
    with text.block("while start < tiles:"):
        text.line("own = int64(0)")
        with text.block("if start + lane < tiles:"):
            text.line("own = int64(ld(tile_p, start + lane))")
        text.line("total = own")
        _write_scan(text)
        with text.block("if start + lane < tiles:"):
            text.line("st(tile_p, start + lane, int32(carry + total - own))")
        text.line(f"carry += ld_shared(totals, {_TILE - 1})")
        text.line("sync_threads()")
        text.line(f"start += {_TILE}")
    with text.block("if lane == 0:"):
        text.line("st(tile_p, tiles, int32(carry))")
    title = "counts of first places in front of tiles"
    return text.launch(title, title, __name__, (1, 1, 1), (_TILE, 1, 1))


def _numbers(x: TensorSpec, rows: TensorSpec, idx: TensorSpec, tiles: int) -> CudaLaunch:
    """Return the launch that writes distinct values and their numbers."""
    kind, place = index_kind(x), index_kind(idx)
    text = KernelText(fits_32_bits([x.size]))
    text.argument("count", x.size)
    text.argument("limit", rows.shape[0])
    text.argument("tiles", tiles)
    values = _Values(kind)
    values.write_head(text)
    text.line(f"row_p = ptr_{kind}({text.argument('rows', Pointer('out', 0))})")
    text.line(f"idx_p = ptr_{place}({text.argument('idx', Pointer('out', 1))})")
    for name, at in (("first", _FIRST), ("count", _COUNT), ("tile", _TILES)):
        text.line(f"{name}_p = ptr_i32({text.argument(f'{name}_at', at)})")
    width = 8 * x.dtype.size
    text.line("distinct = int64(ld(tile_p, tiles))")
    with grid_stride(text, "place", "count"):
        text.line("first = int64(ld(first_p, place))")
        tile = f"first >> {_TILE.bit_length() - 1}"
        text.line(f"number = int64(ld(count_p, first)) + int64(ld(tile_p, {tile}))")
        number = "select(number < limit, number, int64(0))"
        text.line(f"st(idx_p, place, int{8 * idx.dtype.size}({number}))")
        with text.block("if first == place and number < limit:"):
            values.write_element(text)
            text.line(f"st(row_p, number, int{width}(key))")
        with text.block("if place >= distinct and place < limit:"):
            text.line(f"st(row_p, place, int{width}({padding(kind)}))")
    title = f"distinct {kind} with padding, and places by {place}"
    return text.launch(title, title, __name__, grid_for(x.size))

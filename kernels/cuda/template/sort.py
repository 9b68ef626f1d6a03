"""Sort the elements of rows by integer keys on a GPU.

Equal keys keep their order: a key is compared together with its place in the row. A block sorts a
tile of a row in shared memory by a bitonic network (K. E. Batcher, Sorting networks and their
applications, 1968). Of a longer row, the first elements of each tile are sorted again where few are
wanted. Otherwise pairs of sorted runs are merged until one is left: each element finds its rank in
the other run by binary search (N. Satish, M. Harris, M. Garland, Designing efficient sorting
algorithms for manycore GPUs, 2009).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import MAX_BLOCKS, THREADS, CudaLaunch, grid_for
from tfjit.kernels.registry import Pointer, Unsupported

TILE: Final = 2048
"""Elements of a row that a block sorts at a time."""
_LEAST_THREADS: Final = 32
_MAX_THREADS: Final = 1024
_MAX_LENGTH: Final = 1 << 31
PLACE: Final = 0xFFFFFFFF
"""The bits of a narrow record that hold the place.

Those above hold the key.
"""
_LAST: Final = (1 << 63) - 1


class Ends(Protocol):
    """Write one end of a sort: loads of keys, uses of results."""

    def write_head(self, text: KernelText) -> None:
        """Append the lines before all loops: arguments and pointers."""

    def write_element(self, text: KernelText) -> None:
        """Append the lines for one element.

        At the start they set `key`, an integer, from `row` and `place`; smaller keys come first. At
        the end they use `row`, `rank` and `place`.
        """


@dataclass(frozen=True, slots=True)
class Sorted:
    """The launches of a sort.

    temp_bytes: of their buffers. records: where the results are if no end uses them: one int64 an
    element, with the key above its place (`PLACE`).
    """

    launches: tuple[CudaLaunch, ...]
    temp_bytes: tuple[int, ...]
    records: Pointer


@dataclass(frozen=True, slots=True)
class _Keys:
    """Read keys, and make records of them."""

    start: Ends
    wide: bool

    def write_head(self, text: KernelText) -> None:
        self.start.write_head(text)

    def write_element(self, text: KernelText) -> None:
        self.start.write_element(text)
        if self.wide:
            text.line("w = int64(key)")
            text.line("o = place")
        else:
            text.line("w = (int64(key) << 32) | place")


@dataclass(frozen=True, slots=True)
class _Results:
    """Use results: the places of records."""

    end: Ends
    wide: bool

    def write_head(self, text: KernelText) -> None:
        self.end.write_head(text)

    def write_element(self, text: KernelText) -> None:
        text.line(f"place = {'o' if self.wide else f'w & {PLACE}'}")
        self.end.write_element(text)


@dataclass(frozen=True, slots=True)
class _Buffer:
    """Keep the records of rows of `length` elements in temporary memory."""

    temp: int
    rows: int
    length: int
    wide: bool

    @property
    def nbytes(self) -> int:
        return self.rows * self.length * (12 if self.wide else 8)

    def write_pointers(self, text: KernelText, name: str) -> None:
        words = text.argument(f"{name}_at", Pointer("temp", self.temp))
        text.line(f"{name}_p = ptr_i64({words})")
        if self.wide:
            places = Pointer("temp", self.temp, 8 * self.rows * self.length)
            text.line(f"{name}_o = ptr_i32({text.argument(f'{name}_places_at', places)})")

    def write_load(self, text: KernelText, name: str, at: str) -> None:
        text.line(f"w = ld({name}_p, {at})")
        if self.wide:
            text.line(f"o = int64(ld({name}_o, {at}))")


@dataclass(frozen=True, slots=True)
class _Stored(_Buffer):
    """Keep records at an end that is not the last."""

    def write_head(self, text: KernelText) -> None:
        self.write_pointers(text, "to")
        text.argument("to_length", self.length)

    def write_element(self, text: KernelText) -> None:
        text.line("to = row * to_length + rank")
        text.line("st(to_p, to, w)")
        if self.wide:
            text.line("st(to_o, to, int32(o))")


@dataclass(frozen=True, slots=True)
class _Loaded(_Buffer):
    """Read the records that another launch has kept."""

    def write_head(self, text: KernelText) -> None:
        self.write_pointers(text, "from")

    def write_element(self, text: KernelText) -> None:
        self.write_load(text, "from", "row * length + place")


def sort_rows(
    rows: int, length: int, keep: int, start: Ends, end: Ends | None, what: str, module: str,
    wide: bool = False,
) -> Sorted:  # fmt: skip
    """Return the launches that sort rows of keys.

    keep: the first elements of each sorted row that are wanted, at least one. end: None keeps
    records, all of them. what: the keys, for comments. wide: keys have 64 bits, else 32. Raises
    Unsupported for rows whose places do not fit 31 bits.
    """
    if length >= _MAX_LENGTH:
        raise Unsupported(f"rows of {length} elements")
    launches: list[CudaLaunch] = []
    sizes = [0, 0]
    source: Ends = _Keys(start, wide)

    def next_stage(count: int, is_last: bool) -> Ends:
        """Return the end of the next launch, `count` elements a row."""
        if is_last and end is not None:
            return _Results(end, wide)
        stored = _Stored(len(launches) % 2, rows, count, wide)
        sizes[stored.temp] = max(sizes[stored.temp], stored.nbytes)
        return stored

    while True:
        tile = min(TILE, max(2, 1 << (length - 1).bit_length()))
        parts = -(-length // tile)
        kept = keep if 2 * keep <= tile or parts == 1 else tile
        count = (parts - 1) * kept + min(kept, length - (parts - 1) * tile)
        target = next_stage(count, parts == 1)
        launches.append(_tiles_launch(rows, length, kept, tile, source, target, wide, what, module))
        length = count
        if parts == 1 or kept == tile:
            break
        source = _loaded(len(launches), rows, length, wide)
    run = tile
    while run < length:
        is_last = 2 * run >= length
        loaded = _loaded(len(launches), rows, length, wide)
        target = next_stage(length, is_last)
        kept = keep if is_last else length
        launches.append(_merge_launch(loaded, run, kept, target, what, module))
        run *= 2
    return Sorted(tuple(launches), tuple(sizes), Pointer("temp", (len(launches) - 1) % 2))


def _loaded(launches: int, rows: int, length: int, wide: bool) -> _Loaded:
    """Return the records that the last of some launches has kept."""
    return _Loaded((launches - 1) % 2, rows, length, wide)


def _title(wide: bool, what: str) -> str:
    return f"{'64' if wide else '32'}-bit keys: {what}"


def _tiles_launch(
    rows: int, length: int, keep: int, tile: int, start: Ends, end: Ends, wide: bool, what: str,
    module: str,
) -> CudaLaunch:  # fmt: skip
    """Return the launch that sorts tiles and uses their first elements."""
    threads = min(_MAX_THREADS, max(_LEAST_THREADS, tile // 2))
    parts = -(-length // tile)
    text = KernelText(fits_32_bits([rows * parts]))
    text.argument("tiles", rows * parts)
    text.argument("parts", parts)
    text.argument("length", length)
    text.argument("keep", keep)
    start.write_head(text)
    end.write_head(text)
    text.line(f"words = shared_i64({tile})")
    if wide:
        text.line(f"places = shared_i32({tile})")
    text.line("lane = thread()")
    text.line("t = block()")
    with text.block("while t < tiles:"):
        text.split("t", "row", "part", "parts")
        text.line(f"first = part * {tile}")
        text.line("i = lane")
        with text.block(f"while i < {tile}:"):
            text.line(f"w = int64({_LAST})")
            if wide:
                text.line(f"o = int64({_MAX_LENGTH - 1})")
            text.line("place = first + i")
            with text.block("if place < length:"):
                start.write_element(text)
            text.line("st_shared(words, i, w)")
            if wide:
                text.line("st_shared(places, i, int32(o))")
            text.line(f"i += {threads}")
        text.line("sync_threads()")
        _write_network(text, tile, threads, wide)
        text.line("left = length - first")
        text.line("count = select(left < keep, left, keep)")
        text.line("i = lane")
        with text.block("while i < count:"):
            text.line("w = ld_shared(words, i)")
            if wide:
                text.line("o = int64(ld_shared(places, i))")
            text.line("rank = part * keep + i")
            end.write_element(text)
            text.line(f"i += {threads}")
        text.line("sync_threads()")
        text.line("t += blocks()")
    # small blocks fill a processor in larger numbers
    grid = grid_for(rows * parts, 1, MAX_BLOCKS * max(1, THREADS // threads))
    title = _title(wide, what)
    return text.launch(f"sort tiles, {title}", f"sort, {title}", module, grid, (threads, 1, 1))


def _write_network(text: KernelText, tile: int, threads: int, wide: bool) -> None:
    """Append the steps that sort the tile.

    Sorted blocks of `size` are made of two halves: the first step compares them with one another
    from both ends, which leaves two bitonic halves; the next ones halve the distance.
    """
    half, single = tile // 2, threads >= tile // 2
    text.line("size = int64(2)")
    with text.block(f"while size <= {tile}:"):
        text.line("apart = size >> 1")
        text.line("mirrored = True")
        with text.block("while apart > 0:"):
            text.line("p = lane")
            with text.block(f"{'if' if single else 'while'} p < {half}:"):
                text.line("low = p & (apart - 1)")
                text.line("i = ((p - low) << 1) + low")
                text.line("j = select(mirrored, i + size - 1 - low - low, i + apart)")
                text.line("a = ld_shared(words, i)")
                text.line("b = ld_shared(words, j)")
                if wide:
                    text.line("c = ld_shared(places, i)")
                    text.line("d = ld_shared(places, j)")
                    text.line("out_of_order = b < a or (b == a and d < c)")
                else:
                    text.line("out_of_order = b < a")
                with text.block("if out_of_order:"):
                    text.line("st_shared(words, i, b)")
                    text.line("st_shared(words, j, a)")
                    if wide:
                        text.line("st_shared(places, i, d)")
                        text.line("st_shared(places, j, c)")
                if not single:
                    text.line(f"p += {threads}")
            text.line("sync_threads()")
            text.line("mirrored = False")
            text.line("apart = apart >> 1")
        text.line("size = size << 1")


def _merge_launch(
    buffer: _Loaded, run: int, keep: int, end: Ends, what: str, module: str
) -> CudaLaunch:
    """Return the launch that merges each pair of sorted runs.

    run: their elements, a power of two. keep: the elements of a row that are wanted.
    """
    total, wide = buffer.rows * buffer.length, buffer.wide
    text = KernelText(fits_32_bits([total]))
    text.argument("total", total)
    text.argument("length", buffer.length)
    text.argument("shift", run.bit_length() - 1)
    text.argument("keep", keep)
    buffer.write_head(text)
    end.write_head(text)
    with grid_stride(text, "u", "total"):
        text.split("u", "row", "i", "length")
        buffer.write_load(text, "from", "u")
        text.line("run = i >> shift")
        text.line("other = (run ^ 1) << shift")
        text.line("behind = other + (int64(1) << shift)")
        text.line("lo = select(other < length, other, length)")
        text.line("hi = select(behind < length, behind, length)")
        text.line("first = lo")
        with text.block("while lo < hi:"):
            text.line("middle = (lo + hi) >> 1")
            text.line("v = ld(from_p, row * length + middle)")
            if wide:
                text.line("there = int64(ld(from_o, row * length + middle))")
                text.line("before = v < w or (v == w and there < o)")
            else:
                text.line("before = v < w")
            text.line("lo = select(before, middle + 1, lo)")
            text.line("hi = select(before, hi, middle)")
        text.line("pair = (run >> 1) << (shift + 1)")
        text.line("rank = pair + i - (run << shift) + lo - first")
        with text.block("if rank < keep:"):
            end.write_element(text)
    title = _title(wide, what)
    return text.launch(f"merge runs, {title}", f"merge, {title}", module, grid_for(total))


__all__ = ["PLACE", "Ends", "Sorted", "sort_rows"]

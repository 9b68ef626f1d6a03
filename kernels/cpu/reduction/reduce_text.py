"""Write reductions: partial results of parts of the range, combined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.elementwise.loop import MAX_OUTPUTS
from tfjit.kernels.cpu.elementwise.loop_text import HOISTED, STRIDED
from tfjit.kernels.cpu.reduction import reducers
from tfjit.kernels.cpu.reduction.reduce_plan import Head, ReducePlan
from tfjit.kernels.cpu.template import typed_pointers
from tfjit.kernels.cpu.template.iteration_space import IterationSpace
from tfjit.kernels.source import KernelSource, Source

BLOCK: Final = 4096
"""Elements of an inner axis that are reduced in one block."""
COMBINED: Final = 1024
"""Columns of partial results that are combined side by side."""
SCRATCH: Final = 16 * COMBINED
"""Bytes of scratch for each array of partial results."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Loop dims of a reduction.

    kept: for each loop dim, whether it is one of the result's. patterns: of the inputs and full
    results along the inner dim.
    """

    kept: tuple[bool, ...]
    patterns: tuple[str, ...]

    @property
    def inner_kept(self) -> bool:
        """Return whether the inner dim is one of the result's."""
        return self.kept[-1]

    @property
    def outer_kept(self) -> list[int]:
        """Return the other dims of the result."""
        return [k for k, kept in enumerate(self.kept[:-1]) if kept]

    @property
    def outer_reduced(self) -> list[int]:
        """Return the other reduced dims."""
        return [k for k, kept in enumerate(self.kept[:-1]) if not kept]


def partial_arrays(heads: Sequence[Head]) -> list[tuple[str, DType]]:
    """Return name and dtype of each array of partial results.

    A head has a total; a central one also the mean, and the mean's rounding error.
    """
    return [
        (f"{letter}{k}", head.accumulator)
        for k, head in enumerate(heads)
        for letter in ("tcr" if head.central else "t")
    ]


def output_dtypes(space: IterationSpace) -> list[DType]:
    """Return the dtypes of a space's outputs."""
    dtypes = [*space.program.inputs, *(op.dtype for op in space.program.ops)]
    return [dtypes[v] for v in space.program.outputs]


def _wide(head: Head) -> str:
    return "float64" if head.central else reducers.wide_type(head.kind, head.dtype)


class _PartialWriter:
    """Writer of the entry `partial`.

    Words: sizes of the dims, parts, cuts of the inner dim, addresses of the partial results, then
    operands and full results: address, outer strides, inner stride if strided.
    """

    def __init__(self, s: Source, plan: ReducePlan, layout: Layout) -> None:
        self.s = s
        self.plan = plan
        self.layout = layout
        self.inner = len(layout.kept) - 1
        self.inputs = len(plan.before.program.inputs)
        self.names = [f"x{k}" for k in range(self.inputs)] + [
            f"y{k}" for k in range(len(plan.sides))
        ]
        self.dtypes = [*plan.before.program.inputs, *output_dtypes(plan.before)[len(plan.heads) :]]
        self.direct = [(k, head) for k, head in enumerate(plan.heads) if not head.central]
        self.central = [(k, head) for k, head in enumerate(plan.heads) if head.central]
        arrays = partial_arrays(plan.heads)
        self.scope = {name: MAX_OUTPUTS - j for j, (name, _) in enumerate(arrays)}
        self.arrays = dict(arrays)

    def write(self) -> None:
        s, layout, inner = self.s, self.layout, self.inner
        rank = inner + 1
        with s.block("def partial(args, chunk, nchunks):"):
            for k in range(rank):
                s.line(f"n{k} = word(args, {2 + k})")
            s.line(f"parts = word(args, {2 + rank})")
            s.line(f"cuts = word(args, {3 + rank})")
            at = 4 + rank
            for name in self.arrays:
                s.line(f"{name}_at = word(args, {at})")
                at += 1
            for name, pattern in zip(self.names, layout.patterns):
                s.line(f"{name}_at = word(args, {at})")
                for k in range(inner):
                    s.line(f"{name}_s{k} = word(args, {at + 1 + k})")
                at += rank
                if pattern == STRIDED:
                    s.line(f"{name}_step = word(args, {at})")
                    at += 1
            kept, reduced = layout.outer_kept, layout.outer_reduced
            s.line(f"rows = {' * '.join(f'n{k}' for k in reduced) or '1'}")
            s.line(f"units = {' * '.join([*(f'n{k}' for k in kept), 'parts', 'cuts'])}")
            s.line("first = units * chunk // nchunks")
            s.line("count = units * (chunk + 1) // nchunks - first")
            with s.block("for u in range(count):"):
                s.line("unit = first + u")
                s.line("left = unit // cuts")
                s.line("cut = unit - left * cuts")
                s.line("group = left")
                s.line("part = left % parts")
                s.line("left = left // parts")
                for k in reversed(kept):
                    s.line(f"i{k} = left % n{k}")
                    s.line(f"left = left // n{k}")
                s.line("row_first = rows * part // parts" if reduced else "row_first = 0")
                s.line(
                    "row_count = rows * (part + 1) // parts - row_first"
                    if reduced
                    else "row_count = 1"
                )
                if layout.inner_kept:
                    self._columns()
                else:
                    self._scalars()

    def _rows(self, body: Callable[[], None]) -> None:
        """Loop over the part's rows."""
        s, reduced = self.s, self.layout.outer_reduced
        s.line("left = row_first")
        for k in reversed(reduced):
            s.line(f"i{k} = left % n{k}")
            s.line(f"left = left // n{k}")
        with s.block("for r in range(row_count):"):
            body()
            self._advance(reduced)

    def _advance(self, dims: Sequence[int]) -> None:
        s = self.s
        if not dims:
            return
        s.line(f"i{dims[-1]} += 1")
        if len(dims) > 1:
            with s.block(f"if i{dims[-1]} == n{dims[-1]}:"):
                s.line(f"i{dims[-1]} = 0")
                self._advance(dims[:-1])

    def _bases(self) -> None:
        """Define the addresses at the row's begin and the row's constants."""
        for name, pattern, dtype in zip(self.names, self.layout.patterns, self.dtypes):
            base = " + ".join([f"{name}_at", *(f"i{k} * {name}_s{k}" for k in range(self.inner))])
            if pattern == HOISTED:
                self.s.line(
                    f"{name} = "
                    f"{expressions.loaded(dtype, f'ld({typed_pointers.pointer(dtype, base)}, 0)')}"
                )
            else:
                self.s.line(f"{name}_row = {base}")

    def _pointers(self) -> None:
        for name, pattern, dtype in zip(self.names, self.layout.patterns, self.dtypes):
            if pattern != HOISTED:
                step = f"{name}_step" if pattern == STRIDED else str(dtype.size)
                self.s.line(
                    f"{name}_p = {typed_pointers.pointer(dtype, f'{name}_row + start * {step}')}"
                )

    def _values(self, sides: bool) -> list[str]:
        """Append the heads' values at inner index `i`.

        sides: store the full results too.
        """
        s, heads = self.s, len(self.plan.heads)
        for name, pattern, dtype in zip(
            self.names[: self.inputs], self.layout.patterns, self.dtypes
        ):
            if pattern != HOISTED:
                element = (
                    f"ld_at({name}_p, i * {name}_step)"
                    if pattern == STRIDED
                    else f"ld({name}_p, i)"
                )
                s.line(f"{name} = {expressions.loaded(dtype, element)}")
        found = expressions.emit_program(s, self.plan.before.program, self.names[: self.inputs])
        rest = zip(
            self.names[self.inputs :],
            self.layout.patterns[self.inputs :],
            self.dtypes[self.inputs :],
            found[heads:],
        )
        for k, (name, pattern, dtype, side) in enumerate(rest if sides else ()):
            stored = expressions.stored(dtype, side)
            s.line(
                f"st_out_at({name}_p, i * {name}_step, {stored}, {k})"
                if pattern == STRIDED
                else f"st_out({name}_p, i, {stored}, {k})"
            )
        return found[:heads]

    def _load(self, name: str) -> str:
        return expressions.loaded(self.arrays[name], f"ld_out({name}_p, i, {self.scope[name]})")

    def _store(self, name: str, value: str, index: str = "i") -> None:
        self.s.line(
            f"st_out({name}_p, {index}, {expressions.stored(self.arrays[name], value)}, "
            f"{self.scope[name]})"
        )

    def _columns(self) -> None:
        """Accumulate rows one after the other, over the kept inner dim."""
        s, inner = self.s, self.inner
        s.line(f"lo = n{inner} * cut // cuts")
        s.line(f"m = n{inner} * (cut + 1) // cuts - lo")
        s.line("start = lo")
        for name, dtype in self.arrays.items():
            s.line(
                f"{name}_p = {typed_pointers.pointer(dtype, f'{name}_at + (group * n{inner} + lo) * {dtype.size}')}"
            )
        if self.direct:
            with s.block("for i in range(m):"):
                for k, head in self.direct:
                    self._store(f"t{k}", reducers.start(head.kind, head.dtype))

        def once() -> None:
            self._bases()
            self._pointers()
            if self.central:
                # sums of distances from the first row lose no precision
                with s.block("if r == 0:"), s.block("for i in range(m):"):
                    values = self._values(sides=False)
                    for k, head in self.central:
                        self._store(f"c{k}", values[k])
                        self._store(f"t{k}", expressions.literal(0, head.dtype))
            with s.block("for i in range(m):"):
                values = self._values(sides=True)
                for k, head in self.direct:
                    s.line(f"so_far{k} = {self._load(f't{k}')}")
                    self._store(
                        f"t{k}",
                        reducers.step(
                            head.kind, head.dtype, f"so_far{k}", values[k], in_order=True
                        ),
                    )
                for k, _ in self.central:
                    self._store(
                        f"t{k}", f"{self._load(f't{k}')} + ({values[k]} - {self._load(f'c{k}')})"
                    )

        self._rows(once)
        if not self.central:
            return
        with s.block("for i in range(m):"):
            for k, head in self.central:
                number = expressions.register_type(head.dtype)
                s.line(f"one{k} = {self._load(f'c{k}')}")
                s.line(f"more{k} = {self._load(f't{k}')} / {number}(row_count)")
                s.line(f"mean{k} = one{k} + more{k}")
                s.line(f"lost{k} = (one{k} - mean{k}) + more{k}")
                self._store(f"c{k}", f"mean{k}")
                self._store(f"r{k}", f"lost{k}")
                # the squares are computed from the rounded mean
                self._store(f"t{k}", f"-{number}(row_count) * (lost{k} * lost{k})")

        def again() -> None:
            self._bases()
            self._pointers()
            with s.block("for i in range(m):"):
                values = self._values(sides=False)
                for k, _ in self.central:
                    s.line(f"away{k} = {values[k]} - {self._load(f'c{k}')}")
                    self._store(f"t{k}", f"{self._load(f't{k}')} + away{k} * away{k}")

        self._rows(again)

    def _scalars(self) -> None:
        """Reduce rows along the inner dim, in blocks."""
        s, inner = self.s, self.inner
        if self.layout.outer_reduced:
            s.line("lo = 0")
            s.line(f"m_all = n{inner}")
        else:
            s.line(f"lo = n{inner} * part // parts")
            s.line(f"m_all = n{inner} * (part + 1) // parts - lo")
        for k, head in self.direct:
            s.line(f"total{k} = {_wide(head)}({reducers.start(head.kind, head.dtype)})")
        for k, _ in self.central:
            s.line(f"total{k} = 0.0")
            s.line(f"mean{k} = 0.0")
        if self.central:
            s.line("seen = 0.0")

        def row() -> None:
            self._bases()
            with s.block(f"for block in range((m_all + {BLOCK - 1}) // {BLOCK}):"):
                s.line(f"start = lo + block * {BLOCK}")
                s.line(f"m = min(m_all - block * {BLOCK}, {BLOCK})")
                self._pointers()
                self._block()

        self._rows(row)
        for name, dtype in self.arrays.items():
            s.line(
                f"{name}_p = {typed_pointers.pointer(dtype, f'{name}_at + group * {dtype.size}')}"
            )
        for k, head in enumerate(self.plan.heads):
            number = expressions.register_type(head.accumulator)
            self._store(
                f"t{k}", f"{number}(total{k})" if head.dtype.is_floating else f"total{k}", "0"
            )
            if head.central:
                self._store(f"c{k}", f"{number}(mean{k})", "0")
                self._store(f"r{k}", f"{number}(mean{k} - float64({number}(mean{k})))", "0")

    def _block(self) -> None:
        s = self.s
        if self.central:
            s.line("i = 0")
            values = self._values(sides=False)
            for k, head in self.central:
                s.line(f"c{k} = {values[k]}")
                s.line(f"here{k} = {expressions.literal(0, head.dtype)}")
        for k, head in self.direct:
            s.line(f"here{k} = {reducers.start(head.kind, head.dtype)}")
        with s.block("for i in range(m):"):
            values = self._values(sides=True)
            for k, head in self.direct:
                s.line(f"here{k} = {reducers.step(head.kind, head.dtype, f'here{k}', values[k])}")
            for k, _ in self.central:
                s.line(f"here{k} = add_any_order(here{k}, {values[k]} - c{k})")
        for k, head in self.direct:
            taken = (
                f"float64(here{k})"
                if _wide(head) == "float64" and head.dtype.is_floating
                else f"here{k}"
            )
            s.line(
                f"total{k} = "
                f"{reducers.step(head.kind, head.dtype, f'total{k}', taken, in_order=True)}"
            )
        if not self.central:
            return
        for k, head in self.central:
            s.line(f"about{k} = float64(c{k}) + float64(here{k}) / float64(m)")
            s.line(f"c{k} = {expressions.register_type(head.dtype)}(about{k})")
            s.line(f"here{k} = {expressions.literal(0, head.dtype)}")
        with s.block("for i in range(m):"):
            values = self._values(sides=False)
            for k, _ in self.central:
                s.line(f"away{k} = {values[k]} - c{k}")
                s.line(f"here{k} = add_any_order(here{k}, away{k} * away{k})")
        s.line("size = float64(m)")
        for k, _ in self.central:
            s.line(f"apart = about{k} - mean{k}")
            s.line(f"mean{k} += apart * (size / (seen + size))")
            s.line(f"lost = about{k} - float64(c{k})")
            s.line(
                f"total{k} += float64(here{k}) - size * (lost * lost) + apart * apart * (seen * "
                "size / (seen + size))"
            )
        s.line("seen += size")


def _combine_text(s: Source, plan: ReducePlan, patterns: Sequence[str]) -> None:
    """Write the entry `combine`.

    Words: kept outer rows, inner kept size, parts, number of elements reduced, rows in one (each
    part's results lie side by side that often), elements along the dim that is cut into parts,
    elements of one of them, address and bytes a chunk of scratch, addresses of the partial results,
    operands, results.
    """
    heads, program = plan.heads, plan.after.program
    arrays = partial_arrays(heads)
    count = len(heads)
    with s.block("def combine(args, chunk, nchunks):"):
        for k, name in enumerate(("rows", "width", "parts", "reduced", "folded", "span", "each")):
            s.line(f"{name} = word(args, {2 + k})")
        s.line("scratch = word(args, 9) + chunk * word(args, 10)")
        at = 11
        for name, dtype in arrays:
            s.line(f"{name}_p = {typed_pointers.pointer(dtype, f'word(args, {at})')}")
            at += 1
        for k, pattern in enumerate(patterns):
            dtype = program.inputs[count + k]
            s.line(f"x{k}_p = {typed_pointers.pointer(dtype, f'word(args, {at})')}")
            at += 1
            if pattern == HOISTED:
                s.line(f"x{k} = {expressions.loaded(dtype, f'ld(x{k}_p, 0)')}")
        for k, dtype in enumerate(output_dtypes(plan.after)):
            s.line(f"y{k}_p = {typed_pointers.pointer(dtype, f'word(args, {at})')}")
            at += 1

        def finish(index: str) -> None:
            for k, head in enumerate(heads):
                _finish_text(s, head, f"total{k}", f"value{k}")
            for k, pattern in enumerate(patterns):
                if pattern != HOISTED:
                    s.line(
                        f"x{k} = "
                        f"{expressions.loaded(program.inputs[count + k], f'ld(x{k}_p, {index})')}"
                    )
            names = [*(f"value{k}" for k in range(count)), *(f"x{k}" for k in range(len(patterns)))]
            results = expressions.emit_program(s, program, names)
            for k, (dtype, result) in enumerate(zip(output_dtypes(plan.after), results)):
                s.line(f"st_out(y{k}_p, {index}, {expressions.stored(dtype, result)}, {k})")

        with s.block("if parts == 1 and folded == 1:"):
            s.line("first = rows * width * chunk // nchunks")
            s.line("count = rows * width * (chunk + 1) // nchunks - first")
            with s.block("for u in range(count):"):
                for k, head in enumerate(heads):
                    part = expressions.loaded(head.accumulator, f"ld(t{k}_p, first + u)")
                    s.line(f"total{k} = {f'float64({part})' if _wide(head) == 'float64' else part}")
                finish("first + u")
            s.line("return")
        s.line("whole = width * folded")
        s.line(f"blocks = (whole + {COMBINED - 1}) // {COMBINED} if folded == 1 else 1")
        s.line("first = rows * blocks * chunk // nchunks")
        s.line("count = rows * blocks * (chunk + 1) // nchunks - first")
        for j, (name, _) in enumerate(arrays):
            if name[0] == "r":
                continue
            s.line(
                f"{name}_w = {typed_pointers.register_pointer(_wide(heads[int(name[1:])]), f'scratch + {SCRATCH * j}')}"
            )
        with s.block("for u in range(count):"):
            s.line("row = (first + u) // blocks")
            s.line(f"lo = ((first + u) - row * blocks) * {COMBINED}")
            s.line(f"m = min(whole - lo, {COMBINED}) if folded == 1 else whole")
            s.line("at = row * parts * whole + lo")
            s.line("n = m if folded == 1 else width")
            for k, head in enumerate(heads):
                _total_text(s, head, k, MAX_OUTPUTS - [name for name, _ in arrays].index(f"t{k}"))
            with s.block("for i in range(n):"):
                for k in range(count):
                    s.line(
                        f"total{k} = ld_out(t{k}_w, i, "
                        f"{MAX_OUTPUTS - [name for name, _ in arrays].index(f't{k}')})"
                    )
                finish("row * width + lo + i")


def _total_text(s: Source, head: Head, k: int, scope: int) -> None:
    """Combine the parts' results of one head in its scratch.

    It has one result a column. Columns that were folded are combined last.
    """
    total, partial = f"ld_out(t{k}_w, i, {scope})", f"ld(t{k}_p, at + part * whole + i)"
    part = expressions.loaded(head.accumulator, partial)
    wide = _wide(head)
    if head.central:
        mean = f"ld_out(c{k}_w, i, {scope - 1})"
        own = (
            f"(float64(ld(c{k}_p, at + part * whole + i)) + float64(ld(r{k}_p, at + part * "
            "whole "
            "+ i)))"
        )
        with s.block("for i in range(m):"):
            s.line(f"st_out(t{k}_w, i, 0.0, {scope})")
            s.line(f"st_out(c{k}_w, i, 0.0, {scope - 1})")
        with s.block("for part in range(parts):"):
            s.line("size = float64((span * (part + 1) // parts - span * part // parts) * each)")
            s.line("share = size / float64(reduced)")
            with s.block("for i in range(m):"):
                s.line(f"st_out(c{k}_w, i, {mean} + share * {own}, {scope - 1})")
        with s.block("if folded > 1:"):
            _fold_text(s, f"c{k}_w", scope - 1, lambda a, b: f"{a} + {b}")
            with s.block("for f in range(folded - 1):"), s.block("for i in range(width):"):
                s.line(f"st_out(c{k}_w, (f + 1) * width + i, {mean}, {scope - 1})")
        with s.block("for part in range(parts):"):
            s.line("size = float64((span * (part + 1) // parts - span * part // parts) * each)")
            with s.block("for i in range(m):"):
                s.line(f"apart = {own} - {mean}")
                s.line(
                    f"st_out(t{k}_w, i, {total} + (float64({partial}) + size * apart * apart), "
                    f"{scope})"
                )
        with s.block("if folded > 1:"):
            _fold_text(s, f"t{k}_w", scope, lambda a, b: f"{a} + {b}")
        return

    def step(a: str, b: str) -> str:
        return reducers.step(head.kind, head.dtype, a, b, in_order=True)

    with s.block("for i in range(m):"):
        s.line(f"st_out(t{k}_w, i, {wide}({reducers.start(head.kind, head.dtype)}), {scope})")
    with s.block("for part in range(parts):"), s.block("for i in range(m):"):
        s.line(f"so_far = {total}")
        s.line(f"taken = {f'float64({part})' if wide == 'float64' else part}")
        s.line(f"st_out(t{k}_w, i, {step('so_far', 'taken')}, {scope})")
    with s.block("if folded > 1:"):
        _fold_text(s, f"t{k}_w", scope, step)


def _fold_text(s: Source, pointer: str, scope: int, step: Callable[[str, str], str]) -> None:
    with s.block("for f in range(folded - 1):"), s.block("for i in range(width):"):
        s.line(f"so_far = ld_out({pointer}, i, {scope})")
        s.line(f"taken = ld_out({pointer}, (f + 1) * width + i, {scope})")
        s.line(f"st_out({pointer}, i, {step('so_far', 'taken')}, {scope})")


def _finish_text(s: Source, head: Head, total: str, name: str) -> None:
    """Assign a head's result in registers from its combined total."""
    what, dtype = head.what, head.dtype
    if what.mean and dtype.is_integer:
        s.line(f"size = {expressions.register_type(dtype)}(reduced)")
        s.line(
            f"{name} = {expressions.register_type(head.result)}(idiv({total}, size) if reduced > 0 "
            f"else {expressions.literal(0, dtype)})"
        )
        return
    value = total
    if what.mean and dtype.is_floating:
        value = f"{total} / float64(reduced)"
    elif what.mean:  # that of no complex element is zero, as in TensorFlow
        suffix = "c64" if dtype is d.complex64 else "c128"
        value = f"vm.div_{suffix}({total}, {expressions.register_type(dtype)}(max(reduced, 1)))"
    if what.root:
        value = (
            f"sqrt({value})"
            if dtype.is_floating
            else f"vm.sqrt_{'c64' if dtype is d.complex64 else 'c128'}({value})"
        )
    if what.half:
        value = f"{value} * float64(0.5)"
    s.line(f"{name} = {reducers.narrowed(dtype, f'({value})')}")


def reduce_source(
    plan: ReducePlan, layout: Layout, after_patterns: Sequence[str], title: str
) -> KernelSource:
    """Write both entries of a reduction."""
    s = Source()
    order = "".join("k" if kept else "r" for kept in layout.kept)
    kinds = "+".join(
        f"{head.kind}{' of squared distances' if head.central else ''}" for head in plan.heads
    )
    s.line(
        f"# {kinds} over {order}: "
        f"{' '.join(op.op for op in (*plan.before.program.ops, *plan.after.program.ops))}"
    )
    for line in reducers.IMPORTS:
        s.line(line)
    _PartialWriter(s, plan, layout).write()
    s.line()
    s.line()
    _combine_text(s, plan, after_patterns)
    return KernelSource(s.text(), entries=("partial", "combine"), title=title, module=__name__)

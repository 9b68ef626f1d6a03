"""Reductions over any axes, with the elementwise nodes before and after them in the same kernel.

Two launches: the first reduces parts of the range side by side into partial results, the second puts the parts together (in float64
for sums of floats) and applies what follows. Inner axes are reduced in vector registers, outer ones row upon row over the kept
inner dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from tfjit.framework import dtypes as d
from tfjit.framework.dtypes import DType
from tfjit.kernels import expressions
from tfjit.kernels.cpu import access, costs, reducers
from tfjit.kernels.cpu.loop import MAX_OUTPUTS
from tfjit.kernels.cpu.loop_text import CONTIGUOUS, HOISTED, STRIDED, inner_pattern
from tfjit.kernels.cpu.reducers import Reduction, is_row_reduction, reduced_axes
from tfjit.kernels.cpu.region import Operand, Region, RegionBuilder, c_strides, collapse, identity_map, single
from tfjit.kernels.cpu.rows import rows_call
from tfjit.kernels.group import FusedGroup, Ref
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource, Source

BLOCK: Final = 4096
"""Elements of an inner axis that are reduced in one go."""
ROWS_OF_PART: Final = 64
"""Rows that are summed up one upon the other; more make a further part, so that rounding errors stay small."""
FOLD_WIDTH: Final = 1024
"""Rows shorter than half of this are taken several at a time where they lie one after the other."""
_PARTIAL: Final = MAX_OUTPUTS  # number of the partial results among the kernel's buffers


@dataclass(frozen=True, slots=True)
class ReducePlan:
    """what: the reduction of `dtype`. before: what is computed per element of the input's shape: first the value to reduce, then the
    full results beside it (`sides`: output numbers). axes: reduced dims. after: per element of the result, operand 0 the reduction;
    `finals`: output numbers of its outputs.
    """

    what: Reduction
    dtype: DType
    before: Region
    sides: tuple[int, ...]
    axes: tuple[int, ...]
    after: Region
    finals: tuple[int, ...]


def reduce_plan(group: FusedGroup) -> ReducePlan:
    """How a reduce group is computed. Raises Unsupported where its members do not fit: one reduction, elementwise nodes over its
    input's shape before it and over its result's shape after it.
    """
    heads = [k for k, m in enumerate(group.members) if m.spec.op in reducers.OPS]
    if len(heads) != 1:
        raise Unsupported(f"{len(heads)} reductions")
    head = group.members[heads[0]]
    result = Ref(heads[0])
    what = reducers.OPS[head.spec.op]
    space = group.tensor(head.inputs[0]).shape
    axes = reduced_axes(group, head)
    before = RegionBuilder(group, space)
    value = before.value(head.inputs[0], identity_map(len(space)))
    dtype = head.spec.outputs[0].dtype
    if what.squares:
        value = before._emit("Square", (value,), dtype, ())
    after_shape = group.tensor(result).shape
    after = RegionBuilder(group, after_shape, is_leaf=lambda ref: ref == result)
    finals: list[tuple[int, tuple[bool, int]]] = [(-1, after.value(result, identity_map(len(after_shape))))]
    sides: list[tuple[int, tuple[bool, int]]] = []
    late = _members_after(group, heads[0])
    for k, ref in enumerate(group.outputs):
        shape = group.tensor(ref).shape
        if ref.member in late:
            if prod(shape) != prod(after_shape):
                raise Unsupported(f"{group.members[ref.member].spec.name} is larger than the reduction's result")
            finals.append((k, after.value(ref, identity_map(len(shape)) if shape == after_shape else after.whole(shape))))
        else:
            if prod(shape) != prod(space):
                raise Unsupported(f"{group.members[ref.member].spec.name} has another shape than what is reduced")
            sides.append((k, before.value(ref, identity_map(len(shape)) if shape == space else before.whole(shape))))
    if len(sides) >= MAX_OUTPUTS or len(finals) >= MAX_OUTPUTS:
        raise Unsupported("too many results")
    region_before = before.finish([value, *(v for _, v in sides)])
    region_after = after.finish([v for _, v in finals[1:]])
    for region in (region_before, region_after):
        if expressions.program_errors(region.program):
            raise Unsupported("a program that can fail")
    full = c_strides(after_shape)
    for operand in region_after.operands[1:]:
        whole = tuple(0 if n == 1 else s * operand.dtype.size for n, s in zip(after_shape, full))
        if operand.ref == result or operand.offset or (any(operand.strides) and operand.strides != whole):
            raise Unsupported("after the reduction only scalars and operands of its result's shape")
    return ReducePlan(what, dtype, region_before, tuple(k for k, _ in sides), axes, region_after, tuple(k for k, _ in finals[1:]))


def _members_after(group: FusedGroup, head: int) -> set[int]:
    """The reduction and the members that need its result."""
    late = {head}
    for k, member in enumerate(group.members):
        if any(ref.member in late for ref in member.inputs):
            late.add(k)
    return late


@dataclass(frozen=True, slots=True)
class _Layout:
    """kept: for each loop dim, whether it is one of the result's. patterns: of the inputs and full results along the inner dim."""

    kept: tuple[bool, ...]
    patterns: tuple[str, ...]

    @property
    def inner_kept(self) -> bool:
        return self.kept[-1]

    @property
    def outer_kept(self) -> list[int]:
        return [k for k, kept in enumerate(self.kept[:-1]) if kept]

    @property
    def outer_reduced(self) -> list[int]:
        return [k for k, kept in enumerate(self.kept[:-1]) if not kept]


def _accumulator(dtype: DType) -> DType:
    """dtype of partial results: half types are put together in float32."""
    return d.float32 if dtype in (d.float16, d.bfloat16) else dtype


def _partial_text(s: Source, plan: ReducePlan, layout: _Layout) -> None:
    """Entry `partial`. Words: sizes of the dims, parts, cuts of the inner dim, address of the partial results, then operands and
    full results: address, outer strides, inner stride if strided.
    """
    program, kind = plan.before.program, plan.what.kind
    accumulator = _accumulator(plan.dtype)
    rank = len(layout.kept)
    inner = rank - 1
    names = [f"x{k}" for k in range(len(program.inputs))] + [f"y{k}" for k in range(len(plan.sides))]
    dtypes = [*program.inputs, *_output_dtypes(plan.before)[1:]]
    with s.block("def partial(args, chunk, nchunks):"):
        for k in range(rank):
            s.line(f"n{k} = word(args, {2 + k})")
        s.line(f"parts = word(args, {2 + rank})")
        s.line(f"cuts = word(args, {3 + rank})")
        s.line(f"partial_at = word(args, {4 + rank})")
        at = 5 + rank
        for name, pattern in zip(names, layout.patterns):
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
            s.line("row_count = rows * (part + 1) // parts - row_first" if reduced else "row_count = 1")
            if layout.inner_kept:
                s.line(f"lo = n{inner} * cut // cuts")
                s.line(f"m = n{inner} * (cut + 1) // cuts - lo")
                s.line(f"total_p = {access.pointer(accumulator, f'partial_at + (group * n{inner} + lo) * {accumulator.size}')}")
                with s.block("for i in range(m):"):
                    s.line(f"st_out(total_p, i, {expressions.stored(accumulator, reducers.start(kind, plan.dtype))}, {_PARTIAL})")
            else:
                if reduced:
                    s.line("lo = 0")
                    s.line(f"m_all = n{inner}")
                else:
                    s.line(f"lo = n{inner} * part // parts")
                    s.line(f"m_all = n{inner} * (part + 1) // parts - lo")
                s.line(f"total = {reducers.wide_type(kind, plan.dtype)}({reducers.start(kind, plan.dtype)})")
            s.line("left = row_first")
            for k in reversed(reduced):
                s.line(f"i{k} = left % n{k}")
                s.line(f"left = left // n{k}")
            with s.block("for r in range(row_count):"):
                _row_text(s, plan, layout, names, dtypes, accumulator)
                _advance(s, reduced)
            if not layout.inner_kept:
                s.line(f"total_p = {access.pointer(accumulator, f'partial_at + group * {accumulator.size}')}")
                value = f"{expressions.register_type(accumulator)}(total)" if plan.dtype.is_floating else "total"
                s.line(f"st_out(total_p, 0, {expressions.stored(accumulator, value)}, {_PARTIAL})")


def _advance(s: Source, dims: Sequence[int]) -> None:
    if not dims:
        return
    s.line(f"i{dims[-1]} += 1")
    if len(dims) > 1:
        with s.block(f"if i{dims[-1]} == n{dims[-1]}:"):
            s.line(f"i{dims[-1]} = 0")
            _advance(s, dims[:-1])


def _row_text(s: Source, plan: ReducePlan, layout: _Layout, names: Sequence[str], dtypes: Sequence[DType], accumulator: DType) -> None:
    """One run along the inner dim."""
    program, kind = plan.before.program, plan.what.kind
    inputs = len(program.inputs)
    inner = len(layout.kept) - 1
    bases = {}
    for name, pattern, dtype in zip(names, layout.patterns, dtypes):
        bases[name] = " + ".join([f"{name}_at", *(f"i{k} * {name}_s{k}" for k in range(inner))])
        if pattern == HOISTED:
            s.line(f"{name} = {expressions.loaded(dtype, f'ld({access.pointer(dtype, bases[name])}, 0)')}")
        else:
            s.line(f"{name}_row = {bases[name]}")

    def pointers() -> None:
        for name, pattern, dtype in zip(names, layout.patterns, dtypes):
            if pattern != HOISTED:
                step = f"{name}_step" if pattern == STRIDED else str(dtype.size)
                s.line(f"{name}_p = {access.pointer(dtype, f'{name}_row + start * {step}')}")

    def body() -> str:
        for name, pattern, dtype in zip(names[:inputs], layout.patterns, dtypes):
            if pattern != HOISTED:
                element = f"ld_at({name}_p, i * {name}_step)" if pattern == STRIDED else f"ld({name}_p, i)"
                s.line(f"{name} = {expressions.loaded(dtype, element)}")
        value, *sides = expressions.emit_program(s, program, names[:inputs])
        for k, (name, pattern, dtype, side) in enumerate(zip(names[inputs:], layout.patterns[inputs:], dtypes[inputs:], sides)):
            stored = expressions.stored(dtype, side)
            s.line(f"st_out_at({name}_p, i * {name}_step, {stored}, {k})" if pattern == STRIDED else f"st_out({name}_p, i, {stored}, {k})")
        return value

    if layout.inner_kept:
        s.line("start = lo")
        pointers()
        with s.block("for i in range(m):"):
            value = body()
            s.line(f"so_far = {expressions.loaded(accumulator, f'ld_out(total_p, i, {_PARTIAL})')}")
            taken = reducers.step(kind, plan.dtype, "so_far", value, in_order=True)
            s.line(f"st_out(total_p, i, {expressions.stored(accumulator, taken)}, {_PARTIAL})")
        return
    with s.block(f"for block in range((m_all + {BLOCK - 1}) // {BLOCK}):"):
        s.line(f"start = lo + block * {BLOCK}")
        s.line(f"m = min(m_all - block * {BLOCK}, {BLOCK})")
        pointers()
        s.line(f"here = {reducers.start(kind, plan.dtype)}")
        with s.block("for i in range(m):"):
            value = body()
            s.line(f"here = {reducers.step(kind, plan.dtype, 'here', value)}")
        wide = reducers.wide_type(kind, plan.dtype) == "float64" and plan.dtype.is_floating
        s.line(f"total = {reducers.step(kind, plan.dtype, 'total', 'float64(here)' if wide else 'here', in_order=True)}")


def _combine_text(s: Source, plan: ReducePlan, patterns: Sequence[str]) -> None:
    """Entry `combine`. Words: kept outer rows, inner kept size, parts, number of elements reduced, address of the partial results,
    operands, results.
    """
    kind, dtype = plan.what.kind, plan.dtype
    accumulator = _accumulator(dtype)
    wide = reducers.wide_type(kind, dtype)
    program = plan.after.program
    with s.block("def combine(args, chunk, nchunks):"):
        for k, name in enumerate(("rows", "width", "parts", "reduced")):
            s.line(f"{name} = word(args, {2 + k})")
        s.line(f"partial_p = {access.pointer(accumulator, 'word(args, 6)')}")
        for k, pattern in enumerate(patterns):
            operand_dtype = program.inputs[k + 1]
            s.line(f"x{k}_p = {access.pointer(operand_dtype, f'word(args, {7 + k})')}")
            if pattern == HOISTED:
                s.line(f"x{k} = {expressions.loaded(operand_dtype, f'ld(x{k}_p, 0)')}")
        for k, result_dtype in enumerate(_output_dtypes(plan.after)):
            s.line(f"y{k}_p = {access.pointer(result_dtype, f'word(args, {7 + len(patterns) + k})')}")
        s.line("first = rows * width * chunk // nchunks")
        s.line("count = rows * width * (chunk + 1) // nchunks - first")

        def finish(total: str) -> None:
            _finish_text(s, plan, total)
            for k, pattern in enumerate(patterns):
                if pattern != HOISTED:
                    s.line(f"x{k} = {expressions.loaded(program.inputs[k + 1], f'ld(x{k}_p, first + u)')}")
            results = expressions.emit_program(s, program, ["value", *(f"x{k}" for k in range(len(patterns)))])
            for k, (result_dtype, result) in enumerate(zip(_output_dtypes(plan.after), results)):
                s.line(f"st_out(y{k}_p, first + u, {expressions.stored(result_dtype, result)}, {k})")

        with s.block("if parts == 1:"):  # a loop of its own, because it vectorises
            with s.block("for u in range(count):"):
                part = expressions.loaded(accumulator, "ld(partial_p, first + u)")
                s.line(f"total = {f'float64({part})' if wide == 'float64' else part}")
                finish("total")
            s.line("return")
        s.line("row = first // width")
        s.line("column = first - row * width")
        with s.block("for u in range(count):"):
            s.line(f"total = {wide}({reducers.start(kind, dtype)})")
            s.line("at = row * parts * width + column")
            with s.block("for part in range(parts):"):
                part = expressions.loaded(accumulator, "ld(partial_p, at + part * width)")
                taken = f"float64({part})" if wide == "float64" else part
                s.line(f"total = {reducers.step(kind, dtype, 'total', taken, in_order=True)}")
            finish("total")
            s.line("column += 1")
            with s.block("if column == width:"):
                s.line("column = 0")
                s.line("row += 1")


def _finish_text(s: Source, plan: ReducePlan, total: str) -> None:
    """Assign `value`, the reduction's result in registers, from the put-together `total`."""
    what, dtype = plan.what, plan.dtype
    if what.mean and dtype.is_integer:
        s.line(f"size = {expressions.register_type(dtype)}(reduced)")
        s.line(f"value = idiv({total}, size) if reduced > 0 else {expressions.literal(0, dtype)}")
        return
    value = total
    if what.mean:
        value = f"{total} / {'float64' if dtype.is_floating else expressions.register_type(dtype)}(reduced)"
    if what.root:
        value = f"sqrt({value})" if dtype.is_floating else f"vm.sqrt_{'c64' if dtype is d.complex64 else 'c128'}({value})"
    if what.half:
        value = f"{value} * float64(0.5)"
    s.line(f"value = {reducers.narrowed(dtype, f'({value})')}")


def _output_dtypes(region: Region) -> list[DType]:
    values = [*region.program.inputs, *(op.dtype for op in region.program.ops)]
    return [values[k] for k in region.program.outputs]


def reduce_source(plan: ReducePlan, layout: _Layout, after_patterns: Sequence[str], title: str) -> KernelSource:
    """Both entries of a reduction."""
    s = Source()
    order = "".join("k" if kept else "r" for kept in layout.kept)
    s.line(f"# {plan.what.kind} over {order}: {' '.join(op.op for op in (*plan.before.program.ops, *plan.after.program.ops))}")
    for line in reducers.IMPORTS:
        s.line(line)
    _partial_text(s, plan, layout)
    s.line()
    s.line()
    _combine_text(s, plan, after_patterns)
    return KernelSource(s.text(), entries=("partial", "combine"), title=title)


def reduce_call(group: FusedGroup) -> NativeCall:
    """Launches of a reduce group. Raises Unsupported where it does not fit the template."""
    plan = reduce_plan(group)
    if plan.what.root and plan.dtype.is_integer:
        raise Unsupported(f"the norm of {plan.dtype.name}")
    space = plan.before.shape
    kept_strides = _kept_strides(space, plan.axes)
    sides = [Operand(group.outputs[k], group.tensor(group.outputs[k]).dtype, _full_strides(group, k, space)) for k in plan.sides]
    operands = [*plan.before.operands, *sides]
    dims, strides = collapse(space, [*(o.strides for o in operands), kept_strides])
    if not dims:
        dims, strides = (1,), [(0,)] * (len(operands) + 1)
    kept = tuple(stride != 0 for stride in strides[-1])
    patterns = tuple(
        CONTIGUOUS if k >= len(plan.before.operands) and step[-1] == 0 else inner_pattern(step[-1], o.dtype)
        for k, (o, step) in enumerate(zip(operands, strides))
    )
    layout = _Layout(kept, patterns)
    dims, strides, folded = _folded(layout, dims, strides[:-1])
    rows = prod(dims[k] for k in layout.outer_reduced)
    outer = prod(dims[k] for k in layout.outer_kept)
    width = dims[-1] // folded if layout.inner_kept else 1
    results = outer * width
    if results == 0:
        if plan.sides:
            raise Unsupported("an empty reduction with results beside it")
        return NativeCall(())
    total = prod(dims)
    moved = sum(o.dtype.size * prod(n for n, b in zip(space, o.strides) if b) for o in operands) + results * plan.dtype.size
    cost = costs.FIXED_NS + total * (costs.program_ns(plan.before.program) + 0.04) + costs.traffic_ns(moved)
    chunks = costs.chunks_for(cost, max(total, 1))
    parts, cuts = _cut(layout, dims, rows, outer, chunks)
    chunks = max(1, min(chunks, outer * parts * cuts))
    accumulator = _accumulator(plan.dtype)
    after_patterns = [CONTIGUOUS if any(o.strides) else HOISTED for o in plan.after.operands[1:]]
    title = f"reduce {'+'.join(m.spec.op.lower() for m in group.members)}"
    source = reduce_source(plan, layout, after_patterns, title)
    words: list[Word] = [*dims, parts, cuts, Pointer("temp", 0)]
    for k, (operand, step, pattern) in enumerate(zip(operands, strides, patterns)):
        side = k - len(plan.before.operands)
        words.append(Pointer("out", plan.sides[side]) if side >= 0 else Pointer("in", operand.ref.index, operand.offset))
        words.extend(step[:-1])
        if pattern == STRIDED:
            words.append(step[-1])
    final: list[Word] = [outer, width, parts * folded, total // results, Pointer("temp", 0)]
    final += [Pointer("in", o.ref.index, o.offset) for o in plan.after.operands[1:]]
    final += [Pointer("out", k) for k in plan.finals]
    combine_ns = costs.FIXED_NS + results * (0.1 if parts * folded == 1 else parts * folded + 2.0)
    combine_ns += results * costs.program_ns(plan.after.program)
    launches = (
        Launch(source, tuple(words), "partial", chunks, cost),
        Launch(source, tuple(final), "combine", costs.chunks_for(combine_ns, results), combine_ns),
    )
    temp = results * parts * folded * accumulator.size
    return NativeCall(launches, temp_bytes=(temp,), bytes_moved=moved, flops=total * (1 + len(plan.before.program.ops)))


def _folded(layout: _Layout, dims: Sequence[int], strides: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], list[tuple[int, ...]], int]:
    """Several short rows taken as one longer one, whose parts are then put together like any others: (dims, strides, rows in one)."""
    rest = list(strides)
    if not layout.inner_kept or len(dims) < 2 or layout.kept[-2] or dims[-1] == 0 or dims[-1] >= FOLD_WIDTH // 2:
        return tuple(dims), rest, 1
    if any(s[-2] != s[-1] * dims[-1] for s in strides):
        return tuple(dims), rest, 1
    rows = dims[-2]
    fold = max((k for k in range(1, min(FOLD_WIDTH // dims[-1], rows) + 1) if rows % k == 0), default=1)
    merged = [(*s[:-2], s[-1] * dims[-1] * fold, s[-1]) for s in strides]
    return (*dims[:-2], rows // fold, dims[-1] * fold), merged, fold


def _cut(layout: _Layout, dims: Sequence[int], rows: int, outer: int, chunks: int) -> tuple[int, int]:
    """(parts of the reduced range, cuts of a kept inner dim) so that sums stay short and every chunk finds work."""
    if layout.inner_kept:
        parts = max(-(-rows // ROWS_OF_PART), 1)
        if outer * parts < chunks:
            parts = max(parts, min(-(-chunks // outer), rows // 16, rows) or 1)
        cuts = 1
        if outer * parts < chunks:
            cuts = max(1, min(-(-chunks // (outer * parts)), dims[-1] // 256))
        return parts, cuts
    if outer >= chunks:
        return 1, 1
    wanted = -(-chunks // outer)
    return max(1, min(wanted, rows if layout.outer_reduced else dims[-1] // 1024)), 1


def _kept_strides(space: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Strides of the result along the dims of what is reduced: 0 along reduced ones."""
    strides = [0] * len(space)
    step = 1
    for k in range(len(space) - 1, -1, -1):
        if k not in axes and space[k] != 1:
            strides[k] = step
            step *= max(space[k], 1)
    return tuple(strides)


def _full_strides(group: FusedGroup, output: int, space: Sequence[int]) -> tuple[int, ...]:
    size = group.tensor(group.outputs[output]).dtype.size
    return tuple(0 if n == 1 else b for n, b in zip(space, c_strides(space, size)))


def _standalone(spec: NodeSpec) -> NativeCall:
    group = single(spec)
    axes = reduced_axes(group, group.members[0])
    if is_row_reduction(spec.inputs[0].shape, axes) and spec.inputs[0].size:
        try:
            return rows_call(replace(group, kind="rows"))
        except Unsupported:
            pass  # half of the dtypes and layouts that rows leave are taken here
    return reduce_call(replace(group, kind="reduce"))


native(*reducers.OPS)(_standalone)

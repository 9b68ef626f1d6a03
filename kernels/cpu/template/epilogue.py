"""Write epilogues of matmul and convolution.

An epilogue computes bias, batch norm, activation and residual on the result while it is in cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.ir.scalar_program import Program
from tfjit.kernels.ir.symbolic_size import is_symbolic, maximum, minimum
from tfjit.kernels.registry import Launch, Pointer, TensorSpec, Unsupported, Word
from tfjit.kernels.source import KernelSource, Source

Pattern = Literal["scalar", "channel", "row", "full"]
# elements of one inner loop, so that its vector prologue and tail cost little
_MIN_RUN: Final = 256
# four vectors of 16: the elements of one iteration of LLVM's interleaved loop body
_VECTOR_RUN: Final = 64


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A program on the product and operands.

    program: input 0 is the product (its dtype), the other inputs are operands; every output has the
    product's shape. patterns, one an operand: "scalar" (one element), "channel" (a vector along the
    last axis), "row" (a vector along the rows), "full" (contiguous, of the output's shape).
    """

    program: Program
    patterns: tuple[Pattern, ...] = ()

    def __post_init__(self) -> None:
        if len(self.patterns) != len(self.program.inputs) - 1:
            raise ValueError(
                f"{len(self.patterns)} patterns for {len(self.program.inputs) - 1} operands"
            )


@dataclass(frozen=True, slots=True)
class EpilogueText:
    """Writer of an epilogue into a macro-kernel's text.

    product: dtype the micro-kernels write. home: the output whose buffer first holds the product,
    or None when none has its dtype and a scratch block must.
    """

    epilogue: Epilogue | None
    product: DType
    home: int | None

    @property
    def title(self) -> str:
        """Return "+biasadd+relu", for titles and the opening comment."""
        return (
            "".join(f"+{op.op.lower()}" for op in self.epilogue.program.ops)
            if self.epilogue
            else ""
        )

    def write_imports(self, s: Source) -> None:
        """Append the lines at the top of the module."""
        for line in expressions.IMPORTS:
            s.line(line)
        s.line("from tfjit.kernels.codegen.intrinsics import *")

    def write_setup(self, s: Source, word: int) -> int:
        """Read the argument words from number `word` on.

        Returns the next free number. Defines c, columns and the operands.
        """
        s.line(f"c = word(args, {word})")
        s.line(f"columns = word(args, {word + 1})")
        if self.home is None:
            s.line(f"c += chunk * word(args, {word + 2})")
        word += 3
        if self.epilogue is None:
            return word
        s.line(f"repeat = word(args, {word})")
        word += 1
        for k, (pattern, dtype) in enumerate(
            zip(self.epilogue.patterns, self.epilogue.program.inputs[1:], strict=True)
        ):
            if pattern == "scalar":
                place = typed_pointers.pointer(dtype, f"word(args, {word})")
                s.line(f"x{k} = {expressions.loaded(dtype, f'ld({place}, 0)')}")
            else:
                s.line(f"x{k}_at = word(args, {word})")
            word += 1
        for k in range(len(self.epilogue.program.outputs)):
            s.line(f"y{k}_at = word(args, {word})")
            word += 1
        return word

    def write_block_start(self, s: Source) -> None:
        """Define c_at, the address of the product of row `row_first`."""
        s.line(
            "c_at = c"
            if self.home is None
            else f"c_at = c + row_first * columns * {self.product.size}"
        )

    def write_block(self, s: Source) -> None:
        """Compute rows row_first..row_last, columns column_first..column_last."""
        if self.epilogue is None:
            return
        program = self.epilogue.program
        size = self.product.size
        s.line("row = row_first")
        with s.block("while row < row_last:"):
            s.line("rows = min(repeat, row_last - row)")
            s.line("run = (rows - 1) * columns + column_last - column_first")
            s.line("at = row * columns + column_first")
            if self.home is None:
                s.line(
                    f"c_p = {typed_pointers.pointer(self.product, f'c_at + ((row - row_first) * columns + column_first) * {size}')}"
                )
            for k, (pattern, dtype) in enumerate(
                zip(self.epilogue.patterns, program.inputs[1:], strict=True)
            ):
                if pattern == "row":
                    value = (
                        f"ld({typed_pointers.pointer(dtype, f'x{k}_at + row * {dtype.size}')}, 0)"
                    )
                    s.line(f"x{k} = {expressions.loaded(dtype, value)}")
                elif pattern != "scalar":
                    start = "at" if pattern == "full" else "column_first"
                    s.line(
                        f"x{k}_p = "
                        f"{typed_pointers.pointer(dtype, f'x{k}_at + {start} * {dtype.size}')}"
                    )
            outputs = self.output_dtypes()
            for k, dtype in enumerate(outputs):
                s.line(f"y{k}_p = {typed_pointers.pointer(dtype, f'y{k}_at + at * {dtype.size}')}")
            with s.block("for j in range(run):"):
                # At home the product is read through the output's own pointer: LLVM must see that
                # both are one buffer.
                s.line(
                    "acc = ld(c_p, j)"
                    if self.home is None
                    else f"acc = ld_out(y{self.home}_p, j, {self.home})"
                )
                names = ["acc"]
                for k, (pattern, dtype) in enumerate(
                    zip(self.epilogue.patterns, program.inputs[1:], strict=True)
                ):
                    if pattern in ("full", "channel"):
                        s.line(f"x{k} = {expressions.loaded(dtype, f'ld(x{k}_p, j)')}")
                    names.append(f"x{k}")
                results = expressions.emit_program(s, program, names)
                for k, (dtype, value) in enumerate(zip(outputs, results, strict=True)):
                    s.line(f"st_out(y{k}_p, j, {expressions.stored(dtype, value)}, {k})")
            s.line("row += rows")

    def output_dtypes(self) -> list[DType]:
        """Return the dtype of each output."""
        return output_dtypes(self.epilogue.program) if self.epilogue else [self.product]


def output_dtypes(program: Program) -> list[DType]:
    """Return the dtype of each output of a program."""
    values = [*program.inputs, *(op.dtype for op in program.ops)]
    return [values[o] for o in program.outputs]


def epilogue_text(epilogue: Epilogue | None, product: DType) -> EpilogueText:
    """Return the text form of an epilogue on products of `product`.

    Raises Unsupported for programs that can fail.
    """
    if epilogue is None:
        return EpilogueText(None, product, 0)
    if epilogue.program.inputs[0] is not product:
        raise ValueError(
            f"epilogue takes {epilogue.program.inputs[0].name}, the product is {product.name}"
        )
    if expressions.program_errors(epilogue.program):
        raise Unsupported("an epilogue that can fail")
    found = output_dtypes(epilogue.program)
    return EpilogueText(epilogue, product, found.index(product) if product in found else None)


def run_rows(epilogue: Epilogue | None, rows: int, columns: int, whole_rows: bool) -> int:
    """Return the number of rows in one inner loop of an epilogue.

    Rows are contiguous, so a loop may run over several at once: with few channels a loop over one
    row would be all prologue and tail. Vectors along the channels are repeated that often.
    whole_rows: False when a chunk takes only some columns.
    """
    if epilogue is None or not whole_rows or "row" in epilogue.patterns or columns == 0:
        return 1
    if "channel" not in epilogue.patterns:
        return maximum(1, rows)
    if columns >= _MIN_RUN:
        return 1
    unit = _VECTOR_RUN // math.gcd(_VECTOR_RUN, columns)
    repeat = unit * -(-_MIN_RUN // (unit * columns))
    return maximum(1, minimum(rows, repeat))


def epilogue_words(
    call: CallBuilder,
    text: EpilogueText,
    operands: Sequence[tuple[Pointer, TensorSpec]],
    rows: int,
    columns: int,
    whole_rows: bool,
    scratch: tuple[int, int],
) -> tuple[Word, ...]:
    """Return the words that `write_setup` reads.

    operands: their places. scratch: (bytes of a block of products, chunks), used without a home.
    Raises ValueError for an operand whose size does not fit its pattern.
    """
    if text.home is not None:
        place: tuple[Word, ...] = (Pointer("out", text.home), columns, 0)
    else:
        block = -(-scratch[0] // 64) * 64
        place = (call.temp(block * scratch[1]), columns, block)
    if text.epilogue is None:
        return place
    repeat = run_rows(text.epilogue, rows, columns, whole_rows)
    words: list[Word] = [repeat]
    sizes = {"scalar": 1, "channel": columns, "row": rows, "full": rows * columns}
    for (pointer, spec), pattern, dtype in zip(
        operands, text.epilogue.patterns, text.epilogue.program.inputs[1:], strict=True
    ):
        if spec.size != sizes[pattern] or spec.dtype is not dtype:
            raise ValueError(
                f"a {pattern} operand of {rows} x {columns} {dtype.name} products is "
                f"{spec.dtype.name}{list(spec.shape)}"
            )
        words.append(
            repeated(call, pointer, spec, repeat)
            if pattern == "channel" and repeat > 1
            else pointer
        )
    words += [Pointer("out", k) for k in range(len(text.epilogue.program.outputs))]
    return (*place, *words)


def repeated(call: CallBuilder, pointer: Pointer, spec: TensorSpec, times: int) -> Pointer:
    """Return a vector repeated `times` times in a row.

    A known vector is repeated while planning, any other by a separate launch.
    """
    value = call.known(pointer)
    if value is not None and not is_symbolic(times):
        return call.constant(np.tile(np.ascontiguousarray(value).reshape(-1), times))
    target = call.temp(spec.nbytes * times)
    call.launch(
        Launch(
            repeat_source(),
            (target, pointer, spec.nbytes, times),
            cost_ns=cost_model.FIXED_NS + 0.03 * spec.nbytes * times,
        )
    )
    return target


def repeat_source() -> KernelSource:
    """Write a copy that is repeated in a row.

    Words: destination, source, bytes, number of copies.
    """
    s = Source()
    s.line("# repeat a vector")
    s.line("from tfjit.kernels.codegen.intrinsics import copy_bytes, word")
    with s.block("def kernel(args, chunk, nchunks):"):
        s.line("target = word(args, 2)")
        s.line("source = word(args, 3)")
        s.line("size = word(args, 4)")
        s.line("times = word(args, 5)")
        with s.block("for i in range(times):"):
            s.line("copy_bytes(target + i * size, source, size)")
    return KernelSource(s.text(), title="repeat a vector", module=__name__)


def epilogue_ns(epilogue: Epilogue | None, elements: int) -> float:
    """Return the predicted time of an epilogue over that many products."""
    if epilogue is None:
        return 0.0
    streams = 1 + len(epilogue.program.outputs) + sum(p == "full" for p in epilogue.patterns)
    return elements * (cost_model.program_ns(epilogue.program) + 0.02 * streams)

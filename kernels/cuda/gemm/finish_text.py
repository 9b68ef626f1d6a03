"""Write the end of a product: epilogue and stores.

They run over a few columns at a time. Each text that computes products ends in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cuda.gemm.tiles import VECTOR_BYTES, accumulator
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.registry import Pointer, TensorSpec, Unsupported, Word
from tfjit.kernels.source import Source

if TYPE_CHECKING:
    from tfjit.kernels.cpu.template.epilogue import Epilogue

_PLACE_WORDS: Final = (
    "place_width", "place_size", "place_first", "image_lines", "row_lines", "pixel_lines",
)  # fmt: skip
_MOST_VECTOR: Final = 16  # elements of the widest load


@dataclass(frozen=True, slots=True)
class Finish:
    """The epilogue of products and the stores of its results.

    product: dtype of the product, to which a sum is rounded. run: columns that are computed
    together. vector: runs are whole and aligned, so that they are loaded and stored at once.
    strided: the rows are a grid of positions of images, which lie apart in the result.
    """

    product: DType
    epilogue: Epilogue | None
    run: int
    vector: bool
    strided: bool = False

    @property
    def title(self) -> str:
        """Return "+biasadd+relu"."""
        if self.epilogue is None:
            return ""
        return "".join(f"+{op.op.lower()}" for op in self.epilogue.program.ops)

    @property
    def outputs(self) -> tuple[DType, ...]:
        """Return the dtype of each result."""
        if self.epilogue is None:
            return (self.product,)
        program = self.epilogue.program
        values = [*program.inputs, *(op.dtype for op in program.ops)]
        return tuple(values[o] for o in program.outputs)

    @property
    def operands(self) -> tuple[DType, ...]:
        """Return the dtype of each operand of the epilogue."""
        return () if self.epilogue is None else self.epilogue.program.inputs[1:]

    @property
    def words(self) -> tuple[str, ...]:
        """Return the names of the kernel's arguments: operands, then results."""
        return (
            *(f"x{k}_address" for k in range(len(self.operands))),
            *(f"y{k}_address" for k in range(len(self.outputs))),
            *(_PLACE_WORDS if self.strided else ()),
        )

    def write_setup(self, s: Source) -> None:
        """Make the pointers of operands and results."""
        for k, dtype in enumerate(self.operands):
            s.line(f"x{k}_p = {element_kinds.pointer(dtype, f'x{k}_address')}")
        for k, dtype in enumerate(self.outputs):
            s.line(f"y{k}_p = {element_kinds.pointer(dtype, f'y{k}_address')}")

    def write_run(self, s: Source, values: Sequence[str]) -> None:
        """Write epilogue and stores of a run of products.

        values: their names. Defined before: `rows` and `columns` of a matrix; `row` and `column` of
        the run; `line`, its row counted over all matrices.
        """
        if self.strided:
            s.line("place_image = div_u32(row, place_size)")
            s.line("place_row = div_u32(row - place_image * place_size, place_width)")
            s.line("place_column = row - place_image * place_size - place_row * place_width")
            s.line(
                "line = place_first + place_image * image_lines + place_row * row_lines + "
                "place_column * pixel_lines"
            )
        s.line("at = line * columns + column")
        if self.vector:
            with s.block("if row < rows and column < columns:"):
                loaded = [self._write_vector(s, k) for k in range(len(self.operands))]
                results = [
                    self._write_element(s, value, [x[j] for x in loaded], f"e{j}_")
                    for j, value in enumerate(values)
                ]
                for k, dtype in enumerate(self.outputs):
                    _write_stores(s, dtype, f"y{k}_p", "at", [r[k] for r in results])
            return
        with s.block("if row < rows:"):
            for j, value in enumerate(values):
                with s.block(f"if column + {j} < columns:"):
                    single = [self._single(k, j) for k in range(len(self.operands))]
                    for k, stored in enumerate(self._write_element(s, value, single, f"e{j}_")):
                        s.line(f"st(y{k}_p, at + {j}, {stored})")

    def _place(self, k: int) -> tuple[str, bool]:
        """Return the index of an operand's first element.

        The second result tells whether columns have elements of their own.
        """
        assert self.epilogue is not None
        return {
            "scalar": ("0", False), "row": ("line", False), "channel": ("column", True),
            "full": ("at", True),
        }[self.epilogue.patterns[k]]  # fmt: skip

    def _single(self, k: int, column: int) -> str:
        place, varies = self._place(k)
        at = f"{place} + {column}" if varies else place
        return expressions.loaded(self.operands[k], f"{self._load(k)}(x{k}_p, {at})")

    def _load(self, k: int) -> str:
        # a result may be written over an operand of equal shape
        assert self.epilogue is not None
        return "ld" if self.epilogue.patterns[k] == "full" else "ld_ro"

    def _write_vector(self, s: Source, k: int) -> list[str]:
        """Load an operand of a whole run.

        Returns a name for each column.
        """
        place, varies = self._place(k)
        dtype = self.operands[k]
        if not varies:
            s.line(f"x{k} = {expressions.loaded(dtype, f'ld_ro(x{k}_p, {place})')}")
            return [f"x{k}"] * self.run
        names = [f"x{k}_{j}" for j in range(self.run)]
        width = _width(dtype, self.run)
        for first in range(0, self.run, width):
            own = ", ".join(f"m{name}" for name in names[first : first + width])
            load = self._load(k) + (f"_vec{width}" if width > 1 else "")
            s.line(f"{own} = {load}(x{k}_p, {place} + {first})")
        for name in names:
            s.line(f"{name} = {expressions.loaded(dtype, f'm{name}')}")
        return names

    def _write_element(
        self, s: Source, value: str, loaded: Sequence[str], prefix: str
    ) -> list[str]:
        """Write one element's epilogue; return its results as values in memory."""
        if self.product is not accumulator(self.product):
            # the product's own rounding, before the epilogue sees it
            short = "bf16" if self.product.name == "bfloat16" else "f16"
            s.line(f"{prefix}p = vm.round_{short}_f32({value})")
            value = f"{prefix}p"
        if self.epilogue is None:
            return [expressions.stored(self.product, value)]
        names = [value]
        for k, text in enumerate(loaded):
            if text.isidentifier():
                names.append(text)
            else:
                s.line(f"{prefix}x{k} = {text}")
                names.append(f"{prefix}x{k}")
        results = expressions.emit_program(s, self.epilogue.program, names, prefix=prefix)
        return [expressions.stored(dtype, result) for dtype, result in zip(self.outputs, results)]


def _width(dtype: DType, run: int) -> int:
    """Return the elements of one load or store of a run."""
    if dtype.is_complex:
        return 1
    return min(run, _MOST_VECTOR, VECTOR_BYTES // dtype.size)


def _write_stores(s: Source, dtype: DType, pointer: str, at: str, values: Sequence[str]) -> None:
    width = _width(dtype, len(values))
    for first in range(0, len(values), width):
        own = ", ".join(values[first : first + width])
        store = "st" if width == 1 else f"st_vec{width}"
        s.line(f"{store}({pointer}, {at} + {first}, {own})")


def finish_of(
    product: DType, epilogue: Epilogue | None, columns: int, strided: bool = False
) -> Finish:
    """Return the end of products with rows of `columns`.

    Raises Unsupported for programs that can fail and for dtypes without device code.
    """
    run = VECTOR_BYTES // accumulator(product).size
    if epilogue is not None:
        if epilogue.program.inputs[0] is not product:
            raise ValueError(
                f"epilogue takes {epilogue.program.inputs[0].name}, the product is {product.name}"
            )
        if expressions.program_errors(epilogue.program):
            raise Unsupported("an epilogue that can fail")
        for op in expressions.expanded(epilogue.program).ops:
            if op.op in element_kinds.HOST_ONLY:
                raise Unsupported(f"{op.op} on GPUs")
    return Finish(product, epilogue, run, columns % run == 0, strided)


def finish_words(
    finish: Finish,
    operands: Sequence[tuple[Pointer, TensorSpec]],
    rows: int,
    columns: int,
    places: tuple[int, ...] = (),
) -> tuple[Word, ...]:
    """Return the words of `Finish.words`.

    rows: of all matrices. places: of strided rows, positions in a row of the grid and in an image,
    then lines of the result: to the first, between images, rows and positions. Raises ValueError
    for an operand of a size that does not fit its pattern.
    """
    outputs = tuple(Pointer("out", k) for k in range(len(finish.outputs)))
    if finish.epilogue is None:
        return (*outputs, *places)
    sizes = {"scalar": 1, "channel": columns, "row": rows, "full": rows * columns}
    words: list[Word] = []
    for (pointer, spec), pattern, dtype in zip(
        operands, finish.epilogue.patterns, finish.operands, strict=True
    ):
        if spec.size != sizes[pattern] or spec.dtype is not dtype:
            raise ValueError(
                f"a {pattern} operand of {rows} x {columns} {dtype.name} products is "
                f"{spec.dtype.name}{list(spec.shape)}"
            )
        words.append(pointer)
    return (*words, *outputs, *places)


__all__ = ["Finish", "finish_of", "finish_words"]

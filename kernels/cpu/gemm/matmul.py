"""Build matrix products with fused epilogues.

They serve MatMul, BatchMatMul and, for them, 1 x 1 convolutions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tfjit.kernels.cpu.gemm.gemv import is_matvec, matvec_call
from tfjit.kernels.cpu.gemm.macro_kernel import (
    part_table,
    write_chunk_bounds,
    write_panels,
    write_words,
)
from tfjit.kernels.cpu.gemm.matmul_fallback import other_call
from tfjit.kernels.cpu.gemm.micro_kernels import (
    IN_PLACE_HEIGHT,
    KINDS,
    Tile,
    cover,
    row_limit,
    tile_of,
)
from tfjit.kernels.cpu.gemm.operands import operand_pointers, product_sizes, swapped
from tfjit.kernels.cpu.gemm.packing import (
    MatrixLayout,
    PanelPlan,
    depth_blocks,
    flat,
    pack_at_run_time,
    plan_in_place,
    plan_panels,
    transpose_at_run_time,
)
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.cpu.template.chunking import chunk_count
from tfjit.kernels.cpu.template.epilogue import (
    Epilogue,
    EpilogueText,
    Pattern,
    epilogue_ns,
    epilogue_text,
    epilogue_words,
    run_rows,
)
from tfjit.kernels.cpu.template.offset_table import offset_table
from tfjit.kernels.ir.symbolic_size import is_symbolic, maximum, minimum, predicted
from tfjit.kernels.registry import (
    Launch,
    NativeCall,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
    native,
)
from tfjit.kernels.source import KernelSource, Source

# size of a block of A's rows that stays in the second-level cache while every panel passes over it
_A_BLOCK_BYTES: Final = 256 << 10
# size of a block of products that is still in the first-level cache when the epilogue reads it
_C_BLOCK_BYTES: Final = 32 << 10
_BLOCK_TILES: Final = 16
# With fewer row tiles, chunks take panels instead; fewer panels make uneven chunks.
_SPLIT_ROWS_FROM: Final = 8
# From this depth and width on, a transposed A is transposed first: its rows lie far apart, and the
# micro-kernels would read them once for each panel of B.
_TRANSPOSE_DEPTH: Final = 384
_TRANSPOSE_COLUMNS: Final = 256


@dataclass(frozen=True, slots=True)
class MatMulSpec:
    """`matrices` products of a [m, k] and b [k, n].

    a_offsets, b_numbers: for each product, the byte at which its a begins and the number of its b.
    strided: in place of both for a number of products that is a formula: (the number, bytes from
    one a to the next, from one b's number to the next's).
    a_row, a_step: bytes from one row of a to the next, and from one term of its sum to the next;
    one of them is an element. segments: the sum's terms come in runs of k, which begin that many
    bytes from a.
    """

    m: int
    k: int
    n: int
    a_row: int
    a_step: int
    a_offsets: tuple[int, ...] = (0,)
    b_numbers: tuple[int, ...] = (0,)
    segments: tuple[int, ...] = (0,)
    strided: tuple[int, int, int] | None = None

    @property
    def matrices(self) -> int:
        """Return the number of products."""
        return len(self.a_offsets) if self.strided is None else self.strided[0]


_WORDS: Final = (
    "matrices", "matrix_table", "tiles", "height", "tall", "block", "share_columns", "matrix_rows",
    "tall_wide", "low_wide", "tall_narrow", "low_narrow",
    "a", "row_stride", "stride_a", "b", "panels", "panel_table", "parts", "part_table",
)  # fmt: skip


@functools.cache
def matmul_source(tile: Tile, text: EpilogueText) -> KernelSource:
    """Write the macro-kernel: row blocks, panels, parts of the sum, tiles.

    The epilogue follows over each row block. Words: those of _WORDS, then the epilogue's.
    matrix_table: rows (a offset, b offset); row_stride: of a tile's rows; stride_a: the
    micro-kernel's argument.
    """
    s = Source()
    s.line(f"# matmul {tile.kind} {tile.isa}{text.title}")
    text.write_imports(s)
    s.line("from tfjit.kernels.cpu.gemm.micro_kernels_ir import call_tile")
    with s.block("def kernel(args, chunk, nchunks):"):
        text.write_setup(s, write_words(s, *_WORDS))
        write_chunk_bounds(s, tile, "matrices * tiles")
        with s.block("while unit < last_unit:"):
            s.line("matrix = unit // tiles")
            s.line("tile_first = unit - matrix * tiles")
            s.line("tile_last = min(min(tile_first + block, tiles), tile_first + last_unit - unit)")
            s.line("unit += tile_last - tile_first")
            # the first `tall` tiles are `height` high, the others one lower
            s.line("matrix_first = tile_first * height - max(0, tile_first - tall)")
            s.line("row_first = matrix * matrix_rows + matrix_first")
            s.line(
                "row_last = matrix * matrix_rows + tile_last * height - max(0, tile_last - tall)"
            )
            s.line("a_at = a + word(matrix_table, 2 * matrix) + matrix_first * row_stride")
            s.line("b_at = b + word(matrix_table, 2 * matrix + 1)")
            text.write_block_start(s)
            write_panels(s)
            text.write_block(s)
    return KernelSource(s.text(), title=f"matmul{text.title} {tile.kind}", module=__name__)


def product_ns(tile: Tile, row_tiles: float, height: int, plan: PanelPlan) -> float:
    """Return the predicted time of the micro-kernels.

    They run one to two FMAs a cycle, with a little time for each call, and read B at least once.
    """
    calls = row_tiles * len(plan.panels)
    stream = 0.012 * plan.depth * sum(panel.columns for panel in plan.panels) * tile.size
    if plan.form == "dots":
        return max(stream, calls * height * (3.0 + plan.depth / tile.lanes / 2))
    issue = max(height * plan.vector_columns / max(1, len(plan.panels)) / 1.5, 3.0)
    return max(stream, calls * (4.0 + plan.depth * issue / 3.5) * (1.0 if tile.fused else 2.0))


def add_product(
    call: CallBuilder,
    spec: MatMulSpec,
    plan: PanelPlan,
    packed: Pointer,
    table: Pointer,
    text: EpilogueText,
    a: Pointer,
    operands: Sequence[tuple[Pointer, TensorSpec]],
) -> None:
    """Add the launch of the products with packed B."""
    tile = plan.tile
    size = tile.size
    transposed = spec.a_row == size and spec.a_step != size and spec.k > 1
    limit = plan.max_height
    if plan.form == "panels":
        limit = min(row_limit(tile, spec.a_row, transposed), row_limit(tile, spec.n * size))
    rows = cover(spec.m, limit, even=True)
    matrices = spec.matrices
    parts = depth_blocks(len(spec.segments), spec.k)
    # the terms of the longest part
    depth = maximum(1, parts[0][1] * parts[0][3])
    block = minimum(
        maximum(1, _A_BLOCK_BYTES // (depth * size * rows.height)),
        maximum(_BLOCK_TILES, _C_BLOCK_BYTES // (spec.n * size * rows.height)),
    )
    block = minimum(block, rows.count)
    whole = spec.m * matrices
    few_rows = predicted(rows.count) < _SPLIT_ROWS_FROM
    many_panels = len(plan.panels) >= _SPLIT_ROWS_FROM
    # a chunk of rows reads all of B, a chunk of panels all of A
    share_columns = matrices == 1 and (
        len(plan.panels) > predicted(rows.count)
        if few_rows
        else many_panels and predicted(spec.m) < predicted(spec.n)
    )
    cost = (
        cost_model.FIXED_NS
        + product_ns(tile, rows.count * matrices, rows.height, plan)
        + epilogue_ns(text.epilogue, whole * spec.n)
    )
    chunks = chunk_count(cost, len(plan.panels) if share_columns else rows.count * matrices)
    share_columns = share_columns and chunks > 1
    repeat = run_rows(text.epilogue, whole, spec.n, not share_columns)
    if repeat > 1 and block < rows.count:  # a block should hold whole runs of rows
        whole_runs = -(-block * rows.height // repeat) * repeat // rows.height
        block = maximum(1, minimum(rows.count, whole_runs))
    matrix_bytes = plan.depth * spec.n * size if plan.form == "in place" else plan.nbytes
    words: tuple[Word, ...] = (
        matrices,
        _matrix_table(call, spec, matrix_bytes),
        *(rows.count, rows.height, rows.tall, block, int(share_columns), spec.m),
        *plan.micro_kernels(rows, transposed),
        *(a, spec.a_row, spec.a_step if transposed else spec.a_row),
        *(packed, len(plan.panels), table),
        *(
            len(parts),
            part_table(
                call, parts, spec.segments, spec.k, spec.a_step, plan.row_bytes(plan.panels[0])
            ),
        ),
        *epilogue_words(
            call,
            text,
            operands,
            whole,
            spec.n,
            not share_columns,
            (block * rows.height * spec.n * size, chunks),
        ),
    )
    call.launch(Launch(matmul_source(tile, text), words, chunks=chunks, cost_ns=cost))


def _matrix_table(call: CallBuilder, spec: MatMulSpec, matrix_bytes: int) -> Pointer:
    """Return the table of the products' places: (a offset, b offset) each.

    matrix_bytes: of one packed b.
    """
    if spec.strided is None:
        places = zip(spec.a_offsets, spec.b_numbers)
        return call.table(flat([(offset, number * matrix_bytes) for offset, number in places]))
    count, a_stride, b_step = spec.strided
    return offset_table(call, [count], [[a_stride], [b_step * matrix_bytes]])


def traffic(inputs: Sequence[TensorSpec], text: EpilogueText, products: int) -> int:
    """Return the bytes read and written."""
    written = sum(dtype.size for dtype in text.output_dtypes()) * products
    return sum(spec.nbytes for spec in inputs) + written


def batch_matmul_call(
    inputs: Sequence[TensorSpec],
    *,
    adj_x: bool = False,
    adj_y: bool = False,
    epilogue: Epilogue | None = None,
    constants: Mapping[int, np.ndarray] | None = None,
) -> NativeCall:
    """Return the batch product of x and y with an epilogue.

    x is [..., m, k], y [..., k, n]; operands... follow, and batch axes broadcast to [..., m, n].
    adj_x, adj_y: the last two axes are swapped. The epilogue sees the result as [rows, n], rows
    counted over all batch axes. Raises Unsupported for dtypes without tiles, ValueError for sizes
    that do not fit.
    """
    x, y = inputs[:2]
    tile = tile_of(x.dtype)
    m, k, n = product_sizes(x, y, adj_x, adj_y)
    text = epilogue_text(epilogue, x.dtype)
    call = CallBuilder(constants)
    adj_x = adj_x and m > 1  # A single column is laid out as a row is, and B in place needs rows.
    strided = _strided_batch(x.shape[:-2], y.shape[:-2])
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2]) if strided is None else (strided[0],)
    products = math.prod(batch) * m * n
    if products == 0:
        return call.finish()
    size = tile.size
    if m == 1 and n > 1 and k >= tile.lanes and not batch and adj_y and 1 not in (constants or {}):
        # One row by a transposed matrix is the matrix's rows by one column, which needs no packing.
        return _swapped_row(inputs, k, n, text, constants)

    def numbers(shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(
            np.arange(math.prod(shape), dtype=np.int64).reshape(shape), batch
        ).reshape(-1)

    x_numbers = y_numbers = np.zeros(1, np.int64)
    if strided is not None:
        if not adj_x and strided[2] == 0:  # one B: the batch adds rows to one product
            m, strided = m * strided[0], None
    else:
        x_numbers, y_numbers = numbers(x.shape[:-2]), numbers(y.shape[:-2])
    if (
        strided is None
        and not adj_x
        and x_numbers.size > 1
        and y.size == k * n
        and x_numbers.size * m * k == x.size
    ):
        # with one B for every matrix, the batch adds rows to one product
        m, x_numbers, y_numbers = m * x_numbers.size, x_numbers[:1], y_numbers[:1]
    value = (constants or {}).get(1)
    y_count = y.size // (k * n) if k else 1
    few_rows = (
        m <= IN_PLACE_HEIGHT
        and not (adj_x or adj_y)
        and n >= tile.columns
        and value is None
        and k > 0
    )
    plan = plan_in_place(tile, k, n) if few_rows else plan_panels(tile, k, n, dots=not adj_x)
    table = call.table(plan.table())
    if k == 0:
        packed = call.temp(64)  # a buffer that is never read
    elif few_rows:
        packed = Pointer("in", 1)
    elif value is not None:
        matrices = np.asarray(value).reshape(-1, *y.shape[-2:])
        packed = call.constant(np.stack([plan.pack(b.T if adj_y else b) for b in matrices]))
    else:
        strides = (n * size, size) if not adj_y else (size, k * size)
        layout = MatrixLayout(1, 0, k, *strides, matrices=y_count, matrix_bytes=k * n * size)
        packed = pack_at_run_time(call, plan, table, Pointer("in", 1), layout)
    a, (a_row, a_step) = Pointer("in", 0), (k * size, size) if not adj_x else (size, m * size)
    deep = predicted(k) >= _TRANSPOSE_DEPTH and predicted(n) >= _TRANSPOSE_COLUMNS
    if adj_x and x_numbers.size == 1 and strided is None and deep:
        a, a_row = transpose_at_run_time(call, a, k, m, size)
        a_step = size
    x_bytes = m * k * size if x_numbers.size > 1 else 0
    spec = MatMulSpec(
        m,
        k,
        n,
        a_row,
        a_step,
        tuple(int(i) * x_bytes for i in x_numbers),
        tuple(int(i) for i in y_numbers),
        strided=None if strided is None else (strided[0], strided[1] * m * k * size, strided[2]),
    )
    add_product(call, spec, plan, packed, table, text, a, operand_pointers(inputs))
    return call.finish(traffic(inputs, text, products), 2 * products * k)


def _strided_batch(
    x_batch: tuple[int, ...], y_batch: tuple[int, ...]
) -> tuple[int, int, int] | None:
    """Return the number of products, and the steps in x and y.

    For sizes that are formulas; None for known sizes, and for batches of which parts repeat.
    """
    if not any(map(is_symbolic, (*x_batch, *y_batch))):
        return None
    if len(x_batch) == len(y_batch) and all(p == q for p, q in zip(x_batch, y_batch)):
        return math.prod(x_batch), 1, 1
    if all(not is_symbolic(n) and n == 1 for n in y_batch):
        return math.prod(x_batch), 1, 0
    if all(not is_symbolic(n) and n == 1 for n in x_batch):
        return math.prod(y_batch), 0, 1
    return None


_SWAPPED: Final[Mapping[Pattern, Pattern]] = {
    "scalar": "scalar",
    "channel": "full",
    "row": "scalar",
    "full": "full",
}


def _swapped_row(
    inputs: Sequence[TensorSpec],
    k: int,
    n: int,
    text: EpilogueText,
    constants: Mapping[int, np.ndarray] | None,
) -> NativeCall:
    """Multiply a row by a transposed matrix.

    x is [1, k], y is [n, k]; it is done as y times the column x.
    """
    x = inputs[0]
    if text.epilogue is not None:
        patterns = tuple(_SWAPPED[pattern] for pattern in text.epilogue.patterns)
        text = replace(text, epilogue=Epilogue(text.epilogue.program, patterns))
    call = CallBuilder(constants)
    plan = plan_panels(tile_of(x.dtype), k, 1, dots=True)
    spec = MatMulSpec(n, k, 1, k * plan.tile.size, plan.tile.size)
    add_product(
        call,
        spec,
        plan,
        Pointer("in", 0),
        call.table(plan.table()),
        text,
        Pointer("in", 1),
        operand_pointers(inputs),
    )
    return call.finish(traffic(inputs, text, n), 2 * n * k)


def matmul_call(
    inputs: Sequence[TensorSpec],
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    epilogue: Epilogue | None = None,
    constants: Mapping[int, np.ndarray] | None = None,
) -> NativeCall:
    """Return the product of two matrices with an epilogue.

    a is [m, k], or [k, m] with transpose_a; b is [k, n], or [n, k] with transpose_b. operands... go
    through the epilogue to [m, n]. constants: inputs known while planning, by index; a known b is
    packed then. Raises as `batch_matmul_call` does.
    """
    return batch_matmul_call(
        inputs, adj_x=transpose_a, adj_y=transpose_b, epilogue=epilogue, constants=constants
    )


@native("MatMul")
def _matmul(node: NodeSpec) -> NativeCall:
    transpose_a, transpose_b = swapped(node)
    if node.inputs[0].dtype not in KINDS:
        return other_call(node, (transpose_a, transpose_b), conjugated=False)
    if is_matvec(node, node.constants):
        return matvec_call(node)
    return matmul_call(
        node.inputs[:2], transpose_a=transpose_a, transpose_b=transpose_b, constants=node.constants
    )


@native("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(node: NodeSpec) -> NativeCall:
    adj_x, adj_y = swapped(node)
    if node.inputs[0].dtype not in KINDS:
        return other_call(node, (adj_x, adj_y), conjugated=True)
    if node.outputs[0].dtype is not node.inputs[0].dtype:
        raise Unsupported(f"product as {node.outputs[0].dtype.name}")
    return batch_matmul_call(node.inputs[:2], adj_x=adj_x, adj_y=adj_y, constants=node.constants)

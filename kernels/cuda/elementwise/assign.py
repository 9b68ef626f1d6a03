"""Build assignments to variables for GPUs.

The variable's buffer, input 0, is written in place.
"""

from __future__ import annotations

import numpy as np

from tfjit.kernels.cuda.elementwise.loop_text import FLAT, LoopOperand, write_loop
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.element_kinds import VECTOR_BYTES
from tfjit.kernels.cuda.template.kernel_text import KernelText, grid_stride
from tfjit.kernels.cuda.template.launches import CudaLaunch, grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.ir.scalar_program import Program, ScalarOp
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported, Word


def copy_launch(target: Word, source: Word, nbytes: int) -> CudaLaunch:
    """Return the launch that copies bytes.

    Target and source are multiples of 16.
    """
    text = KernelText()
    for name, word in (("target", target), ("origin", source), ("size", nbytes)):
        text.argument(name, word)
    text.line("to_p = ptr_u32(target)")
    text.line("from_p = ptr_u32(origin)")
    text.line("count = size >> 4")
    with grid_stride(text, "u", "count"):
        text.line("v = ld_vec4(from_p, u * 4)")
        text.line("st_vec4(to_p, u * 4, v[0], v[1], v[2], v[3])")
    text.line("i = (count << 4) + unit()")
    with text.block("if i < size:"):
        text.line("st(ptr_u8(target), i, ld(ptr_u8(origin), i))")
    grid = grid_for(-(-nbytes // VECTOR_BYTES))
    return text.launch("copy of bytes", "copy", __name__, grid)


def _require_same(node: NodeSpec) -> None:
    variable, value = node.inputs
    if variable.shape != value.shape or variable.dtype is not value.dtype:
        raise Unsupported(
            f"{value.dtype.name}{list(value.shape)} into a variable of "
            f"{variable.dtype.name}{list(variable.shape)}"
        )


@device_native("Assign", "AssignVariableOp")
def _assign(node: NodeSpec) -> NativeCall:
    _require_same(node)
    variable = node.inputs[0]
    if not variable.dtype.is_numpy_compatible or np.dtype(variable.dtype.as_numpy_dtype).hasobject:
        raise Unsupported(f"elements of {variable.dtype.name} are no plain bytes")
    if variable.nbytes == 0:
        return NativeCall(())
    launch = copy_launch(Pointer("in", 0), Pointer("in", 1), variable.nbytes)
    return NativeCall((launch,), bytes_moved=2 * variable.nbytes)


@device_native("AssignAdd", "AssignSub", "AssignAddVariableOp", "AssignSubVariableOp")
def _assign_add(node: NodeSpec) -> NativeCall:
    _require_same(node)
    variable = node.inputs[0]
    dtype = variable.dtype
    if not element_kinds.is_supported(dtype) or dtype.name == "bool":
        raise Unsupported(f"{node.op} of {dtype.name} has no compiled form")
    if variable.size == 0:
        return NativeCall(())
    op = "AddV2" if "Add" in node.op else "Sub"
    program = Program((dtype, dtype), (ScalarOp(op, (0, 1), dtype),), (2,))
    operands = [
        LoopOperand("x0", dtype, Pointer("in", 0), (1,), FLAT),
        LoopOperand("x1", dtype, Pointer("in", 1), (1,), FLAT),
        LoopOperand("y0", dtype, Pointer("in", 0), (1,), FLAT, is_output=True),
    ]
    width = min(element_kinds.widest_vector([dtype]), max(variable.size, 1))
    width = 1 << (width.bit_length() - 1)
    text = KernelText()
    write_loop(text, program, operands, (variable.size,), width)
    grid = grid_for(-(-variable.size // width))
    title = f"assign {op.lower()} {dtype.name}"
    launch = text.launch(f"variable and value: {op}", title, __name__, grid)
    return NativeCall((launch,), bytes_moved=3 * variable.nbytes, flops=variable.size)

"""Write scalar programs as text for the loop bodies of all templates.

Values have these types in registers: float16 and bfloat16 are float32 that hold only values of the
narrow type, bool is Numba's boolean, every other dtype is itself. In memory float16 and bfloat16
are uint16 bits and bool is a byte; `loaded` and `stored` convert.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tfjit.framework.scalar.elementwise import LITERAL, ElementError, Elementwise, lookup
from tfjit.framework.scalar.scalar_reference import TRUNCATED_BITS
from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.ir.scalar_program import Program, ScalarOp
from tfjit.kernels.registry import Unsupported
from tfjit.kernels.source import Source

IMPORTS: Final = (
    "from numba import boolean, complex64, complex128, float32, float64, int8, int16, int32, "
    "int64, uint8, uint16, uint32, uint64",
    "from tfjit.kernels import vmath as vm",
)
"""Lines that generated text needs before the output of `emit_program`."""

_REGISTER: Final[dict[DType, tuple[str, str]]] = {
    d.bool: ("boolean", "b"), d.float16: ("float32", "f32"), d.bfloat16: ("float32", "f32"),
    d.float32: ("float32", "f32"), d.float64: ("float64", "f64"), d.complex64: ("complex64", "c64"), d.complex128: ("complex128", "c128"),
    **{t: (t.name, f"i{8 * t.size}") for t in (d.int8, d.int16, d.int32, d.int64)},
    **{t: (t.name, f"u{8 * t.size}") for t in (d.uint8, d.uint16, d.uint32, d.uint64)},
}  # fmt: skip
_NARROW: Final = {d.float16: "f16", d.bfloat16: "bf16"}
_LONGEST: Final = 5000  # characters of a nested expression
_CALL: Final = re.compile(r"\bvm\.(\w+)\(")
_WHOLE_CALL: Final = re.compile(r"vm\.\w+\([\w, ]*\)")


def _register(dtype: DType) -> tuple[str, str]:
    found = _REGISTER.get(dtype.base_dtype)
    if found is None:
        raise Unsupported(f"no generated code for {dtype.name}")
    return found


def register_type(dtype: DType) -> str:
    """Return the Numba type of `dtype` in registers, by name.

    Raises Unsupported for dtypes without one.
    """
    return _register(dtype)[0]


def has_register_type(dtype: DType) -> bool:
    """Return whether values of `dtype` have a type in registers."""
    return dtype._base in _REGISTER


def memory_type(dtype: DType) -> str:
    """Return the Numba type of `dtype` in memory, by name."""
    if dtype.base_dtype in _NARROW:
        return "uint16"
    return "uint8" if dtype.base_dtype is d.bool else register_type(dtype)


def loaded(dtype: DType, element: str) -> str:
    """Return the expression of the register value of a loaded element.

    element: an expression of the memory type.
    """
    narrow = _NARROW.get(dtype.base_dtype)
    if narrow:
        return f"vm.load_{narrow}_u16({element})"
    return f"({element} != uint8(0))" if dtype.base_dtype is d.bool else element


def stored(dtype: DType, value: str) -> str:
    """Return the expression of the memory type for a register value."""
    narrow = _NARROW.get(dtype.base_dtype)
    if narrow:
        return f"vm.store_{narrow}_f32({value})"
    return f"uint8({value})" if dtype.base_dtype is d.bool else value


def literal(value: Any, dtype: DType) -> str:
    """Return `value` as a register literal of `dtype`, rounded to it."""
    name, kind = _register(dtype)
    if kind == "b":
        return str(bool(value))
    if kind[0] in "iu":
        return f"{name}({int(value)})"
    rounded = np.asarray(value).astype(dtype.as_numpy_dtype)
    if kind[0] == "c":
        number = complex(rounded)
        return f"{name}(complex({_float_text(number.real)}, {_float_text(number.imag)}))"
    return f"{name}({_float_text(float(rounded))})"


def _float_text(number: float) -> str:
    # NaN and infinities have no literal, and 1e999 is one that every Python reads as inf
    if number != number:
        return "(1e999 - 1e999)"
    return "1e999" if number == np.inf else "-1e999" if number == -np.inf else repr(number)


def _rounding(dtype: DType) -> str:
    narrow = _NARROW.get(dtype.base_dtype)
    return f"vm.round_{narrow}_f32" if narrow else ""


def operand_dtype(row: Elementwise, in_dtypes: Sequence[DType]) -> DType:
    """Return the dtype of the row's attr T, given its inputs."""
    for entry, dtype in zip(row.signature, in_dtypes, strict=False):
        if entry != "bool":
            return dtype.base_dtype
    raise ValueError(f"{row.op} has no typed input")


def _template(row: Elementwise, dtype: DType) -> str:
    group = "h" if dtype in _NARROW else _register(dtype)[1][0]
    return row.by_kind.get(dtype.name) or row.by_kind.get(group) or row.expr


def _filled(
    template: str,
    args: Sequence[str],
    dtype: DType,
    attrs: Mapping[str, Any],
    constants: Mapping[str, float] = MappingProxyType({}),
) -> str:
    """Fill names, literals and the kind suffix of vm functions in.

    Attrs of type float are float32 on the wire.
    """
    name, kind = _register(dtype)
    values = {
        key: literal(np.float32(value), dtype)
        for key, value in attrs.items()
        if isinstance(value, (int, float))
    }
    values |= {key: literal(value, dtype) for key, value in constants.items()}
    # The suffix comes first: {R} expands to vm functions that have theirs.
    text = _CALL.sub(rf"vm.\1_{kind}(", template)
    return text.format(*args, T=name, R=_rounding(dtype), **values)


def _cast(arg: str, source: DType, target: DType, truncate: bool) -> str:
    if source.base_dtype is target.base_dtype:
        return arg
    dropped = TRUNCATED_BITS.get((source.name, target.name)) if truncate else None
    if dropped:
        arg = f"vm.clear{dropped}_{_register(source)[1]}({arg})"
    kind, target_kind = _register(source)[1], _register(target)[1]
    text = arg if kind == target_kind else f"vm.cast_{target_kind}_{kind}({arg})"
    rounding = _rounding(target)
    return f"{rounding}({text})" if rounding else text


def _row(op: str) -> Elementwise:
    row = lookup(op)
    if row is None:
        raise Unsupported(f"{op} is not an elementwise op")
    return row


def emit_op(
    op: str,
    args: Sequence[str],
    in_dtypes: Sequence[DType],
    out_dtype: DType,
    attrs: Mapping[str, Hashable] | None = None,
) -> str:
    """Return an expression of the register type of `out_dtype`.

    args: names (not expressions: a row may use one twice) of register values of `in_dtypes`. Raises
    Unsupported for an op without a row and for dtypes without registers.
    """
    row = _row(op)
    attrs = attrs or {}
    if op == "Cast":
        return _cast(args[0], in_dtypes[0], out_dtype, bool(attrs.get("Truncate", False)))
    dtype = operand_dtype(row, in_dtypes) if row.arity >= 0 else in_dtypes[0].base_dtype
    if row.steps:
        return _nested(row, args, in_dtypes, attrs)
    name, template = register_type(dtype), _template(row, dtype)
    missing = [key for key in row.attrs if key not in attrs]
    if missing:
        raise ValueError(f"{op} needs attr {', '.join(missing)}")
    if row.arity < 0:
        text = args[0]
        for arg in args[1:]:
            text = _finished(_filled(template, (text, arg), dtype, attrs), row, dtype, name)
        return text
    if len(args) != row.arity:
        raise ValueError(f"{op} takes {row.arity} inputs, got {len(args)}")
    text = _filled(template, args, dtype, {key: attrs[key] for key in row.attrs}, row.constants)
    return _finished(text, row, dtype, name)


def _nested(
    row: Elementwise, args: Sequence[str], in_dtypes: Sequence[DType], attrs: Mapping[str, Hashable]
) -> str:
    """Return an op written in steps of other ops as one expression.

    LLVM finds common subexpressions in it. Raises Unsupported for an op that may fail (the failing
    step would not be known), and for an expression that grows too long.
    """
    program = expanded(
        Program(
            tuple(in_dtypes),
            (ScalarOp(row.op, tuple(range(len(args))), d.bool, tuple(attrs.items())),),
            (len(args),),
        )
    )
    texts, dtypes = list(args), _value_dtypes(program)
    for op in program.ops:
        if op.op == LITERAL:
            texts.append(literal(dict(op.attrs)["value"], op.dtype))
            continue
        kinds = [dtypes[a] for a in op.args]
        if failure(op.op, kinds) is not None:
            raise Unsupported(f"{row.op} may fail in {op.op}")
        texts.append(f"({emit_op(op.op, [texts[a] for a in op.args], kinds, op.dtype)})")
        if len(texts[-1]) > _LONGEST:
            raise Unsupported(f"{row.op} is too long for one expression")
    return texts[program.outputs[0]]


def _finished(text: str, row: Elementwise, dtype: DType, name: str) -> str:
    """Convert a result back to its register type.

    Numba widens small integers, and narrow floats need rounding.
    """
    if row.result != "T":
        return text
    if dtype.is_integer and not _WHOLE_CALL.fullmatch(text) and not text.isidentifier():
        return f"{name}({text})"
    rounding = _rounding(dtype)
    return f"{rounding}({text})" if rounding and not row.exact else text


def failure(op: str, in_dtypes: Sequence[DType]) -> ElementError | None:
    """Return the op's possible failure for inputs of these dtypes, or None."""
    row = _row(op)
    if row.error is None:
        return None
    kind = _register(operand_dtype(row, in_dtypes))[1]
    return row.error if kind[0] in row.error.kinds else None


def filled_condition(condition: str, args: Sequence[str], dtype: DType) -> str:
    """Return an `ElementError.condition` over names of register values of `dtype`."""
    return _filled(condition, args, dtype, {})


def _value_dtypes(program: Program) -> list[DType]:
    return [*program.inputs, *(op.dtype for op in program.ops)]


def expanded(program: Program) -> Program:
    """Replace ops written in steps of others (`Elementwise.steps`) by these."""
    rows = [lookup(op.op) for op in program.ops]
    if not any(row is not None and row.steps for row in rows):
        return program
    dtypes = _value_dtypes(program)
    numbers = list(range(len(program.inputs)))  # value of the program -> value of the result
    ops: list[ScalarOp] = []
    for op, row in zip(program.ops, rows, strict=True):
        args = [numbers[a] for a in op.args]
        if row is None or not row.steps:
            numbers.append(_append(program, ops, ScalarOp(op.op, tuple(args), op.dtype, op.attrs)))
            continue
        typed, attrs = operand_dtype(row, [dtypes[a] for a in op.args]), dict(op.attrs)
        kinds = [dtypes[a] for a in op.args]
        for step in row.steps:
            if step.op == LITERAL:
                value: Any = step.value
                if isinstance(value, str):
                    value = attrs[value]
                    # float32, as on the wire
                    value = np.float32(value) if isinstance(value, float) else value
                made = ScalarOp(LITERAL, (), typed, (("value", value),))
            else:
                inner = _row(step.op)
                result = inner.result_dtype(operand_dtype(inner, [kinds[a] for a in step.args]), {})
                made = ScalarOp(step.op, tuple(args[a] for a in step.args), result)
            kinds.append(made.dtype)
            args.append(_append(program, ops, made))
        numbers.append(args[-1])
    return Program(program.inputs, tuple(ops), tuple(numbers[o] for o in program.outputs))


def _append(program: Program, ops: list[ScalarOp], op: ScalarOp) -> int:
    ops.append(op)
    return len(program.inputs) + len(ops) - 1


def program_errors(program: Program) -> dict[int, tuple[str, str]]:
    """Return status code -> (exception class, message) of a program.

    These are the errors that the program may report, in the form of `Launch.errors`.
    """
    program = expanded(program)
    values = _value_dtypes(program)
    found = (failure(op.op, [values[a] for a in op.args]) for op in program.ops if op.op != LITERAL)
    return {error.code: (error.kind, error.message) for error in found if error is not None}


@dataclass(frozen=True, slots=True)
class _Gate:
    """A product of sigmoid(x) and y, or of sigmoid(x) and tanh(y).

    absorbed: values that are no longer computed.
    """

    function: str
    x: int
    y: int
    absorbed: tuple[int, ...]


def _gates(program: Program) -> dict[int, _Gate]:
    """Find products that need one division in place of two.

    A gate may also save the steps that make a sigmoid exact by itself. Returns gates by op number.
    """
    first = len(program.inputs)
    uses = Counter(a for op in program.ops for a in op.args) + Counter(program.outputs)

    def made_by(value: int, op: str) -> bool:
        return value >= first and program.ops[value - first].op == op and uses[value] == 1

    found: dict[int, _Gate] = {}
    for i, op in enumerate(program.ops):
        if op.op != "Mul" or op.dtype is not d.float32:
            continue
        for gate, other in (op.args, op.args[::-1]):
            if made_by(gate, "Sigmoid") and gate != other:
                (x,) = program.ops[gate - first].args
                if made_by(other, "Tanh"):
                    found[i] = _Gate(
                        "gated_tanh_f32", x, program.ops[other - first].args[0], (gate, other)
                    )
                else:
                    found[i] = _Gate("gated_f32", x, other, (gate,))
                break
    return found


def emit_program(
    source: Source,
    program: Program,
    input_names: Sequence[str],
    failed: str | None = None,
    prefix: str = "v",
) -> list[str]:
    """Append a line for every op; return the names of the outputs.

    input_names: names of register values, in the program's order. A line assigns `<prefix><op
    number>`. failed: name of an int64 variable, set to 0 before the loop, that collects status
    codes of failing elements; the kernel stores it in its status word afterwards. It is needed when
    `program_errors(program)` is not empty (integer division, integer powers). Raises Unsupported
    for an op without a generated form, ValueError when `failed` is needed and absent.
    """
    if len(input_names) != len(program.inputs):
        raise ValueError(f"program has {len(program.inputs)} inputs, got {len(input_names)} names")
    program = expanded(program)
    names, dtypes = list(input_names), _value_dtypes(program)
    gates = _gates(program)
    absorbed = {factor for gate in gates.values() for factor in gate.absorbed}
    for i, op in enumerate(program.ops):
        if op.op == LITERAL:
            names.append(literal(dict(op.attrs)["value"], op.dtype))
            continue
        if len(program.inputs) + i in absorbed:
            names.append("")
            continue
        if i in gates:
            names.append(f"{prefix}{i}")
            source.line(
                f"{names[-1]} = vm.{gates[i].function}({names[gates[i].x]}, {names[gates[i].y]})"
            )
            continue
        args, in_dtypes = [names[a] for a in op.args], [dtypes[a] for a in op.args]
        error = failure(op.op, in_dtypes)
        if error is not None:
            if failed is None:
                raise ValueError(f"{op.op} may fail, and the template has no variable to say so")
            condition = filled_condition(error.condition, args, in_dtypes[0])
            source.line(f"{failed} |= int64({condition}) * int64({error.code})")
        name = f"{prefix}{i}"
        source.line(f"{name} = {emit_op(op.op, args, in_dtypes, op.dtype, dict(op.attrs))}")
        names.append(name)
    return [names[o] for o in program.outputs]

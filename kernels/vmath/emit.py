"""Build scalar functions over LLVM values and expose them as Numba intrinsics.

An emitter is a Python function of `Value`s (or `Complex` pairs) that builds instructions. `scalar`
registers an emitter for dtype kinds; `intrinsic_for("exp_f32")` makes the Numba intrinsic of one
kind on first use. An intrinsic costs Numba about a millisecond, a jitted helper function twenty.
The instructions carry no flags, so LLVM contracts nothing across graph ops: the only fused
multiply-adds are those spelled `mad`. In a module for an NVIDIA GPU the emitters call libdevice
where NVVM has no instruction, and products that its compiler does not contract.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

F32: Final = ir.FloatType()
F64: Final = ir.DoubleType()
F16: Final = ir.HalfType()
I1: Final = ir.IntType(1)

_LLVM: Final[dict[str, ir.Type]] = {
    "b": I1, "f32": F32, "f64": F64,
    **{f"{sign}{bits}": ir.IntType(bits) for sign in "iu" for bits in (8, 16, 32, 64)},
}  # fmt: skip
NUMBA: Final[dict[str, Any]] = {
    "b": types.boolean, "f32": types.float32, "f64": types.float64, "c64": types.complex64,
    "c128": types.complex128,
    "i8": types.int8, "i16": types.int16, "i32": types.int32, "i64": types.int64,
    "u8": types.uint8, "u16": types.uint16, "u32": types.uint32, "u64": types.uint64,
}  # fmt: skip
_SHORT: Final = {F32: "f32", F64: "f64"}
REAL_OF: Final = {"c64": "f32", "c128": "f64"}

FLOAT_KINDS: Final = ("f32", "f64")
SIGNED_KINDS: Final = ("i8", "i16", "i32", "i64")
UNSIGNED_KINDS: Final = ("u8", "u16", "u32", "u64")
INT_KINDS: Final = SIGNED_KINDS + UNSIGNED_KINDS
COMPLEX_KINDS: Final = ("c64", "c128")


# NVVM takes few of LLVM's intrinsics: by (name, kind), the function to call instead
_NVVM: Final[dict[tuple[str, str], str]] = {
    (f"llvm.{name}", kind): f"__nv_{device}{'f' if kind == 'f32' else ''}"
    for name, device in (
        ("fabs", "fabs"), ("copysign", "copysign"), ("floor", "floor"), ("ceil", "ceil"),
        ("trunc", "trunc"), ("roundeven", "rint"), ("rint", "rint"), ("round", "round"),
        ("frem", "fmod"), ("fma", "fma"), ("fmuladd", "fma"),
    )
    for kind in ("f32", "f64")
} | {
    # unlike a plain product, these never become part of a fused multiply-add
    ("product", "f32"): "llvm.nvvm.mul.rn.f",
    ("product", "f64"): "llvm.nvvm.mul.rn.d",
}  # fmt: skip

RECIPROCAL: Final = "rcp.approx.ftz.f32 $0, $1;"


def is_device(builder: ir.IRBuilder) -> bool:
    """Return whether instructions go into a module for an NVIDIA GPU."""
    return str(builder.module.triple).startswith("nvptx")


class Value:
    """One LLVM scalar with its kind ("f32", "i64", "b").

    Operators emit instructions. Python numbers become constants of the value's kind.
    """

    __slots__ = ("builder", "kind", "llvm")

    def __init__(self, builder: ir.IRBuilder, llvm: ir.Value, kind: str) -> None:
        self.builder = builder
        self.llvm = llvm
        self.kind = kind

    @property
    def is_float(self) -> bool:
        """Return whether the kind is f32 or f64."""
        return self.kind[0] == "f"

    @property
    def signed(self) -> bool:
        """Return whether the kind is a signed integer."""
        return self.kind[0] == "i"

    @property
    def bits(self) -> int:
        """Return the width of the kind in bits."""
        return 1 if self.kind == "b" else int(self.kind[1:])

    def const(self, number: float) -> Value:
        """Return `number` as a constant of this kind."""
        return self.typed(number, self.kind)

    def typed(self, number: float, kind: str) -> Value:
        """Return `number` as a constant of `kind`."""
        llvm_type = _LLVM[kind]
        if kind[0] in "iub":
            number = int(number) & ((1 << llvm_type.width) - 1)
        return Value(self.builder, ir.Constant(llvm_type, number), kind)

    def of(self, other: Any) -> Value:
        """Return `other` as a Value; a number takes this kind."""
        return other if isinstance(other, Value) else self.const(other)

    def _make(self, llvm: ir.Value, kind: str | None = None) -> Value:
        return Value(self.builder, llvm, kind or self.kind)

    def call(self, name: str, *others: Value) -> Value:
        """Call the LLVM intrinsic `name`, overloaded on this kind.

        Its operands are this value and `others`, all of one kind.
        """
        llvm_type = self.llvm.type
        suffix = _SHORT.get(llvm_type) or f"i{llvm_type.width}"
        function_type = ir.FunctionType(llvm_type, [llvm_type] * (1 + len(others)))
        function_name = f"{name}.{suffix}"
        if is_device(self.builder):
            function_name = _NVVM.get((name, suffix), function_name)
        function = cgutils.get_or_insert_function(self.builder.module, function_type, function_name)
        return self._make(self.builder.call(function, [self.llvm, *(o.llvm for o in others)]))

    # Arithmetic

    def __add__(self, other: Any) -> Value:
        o = self.of(other)
        return self._make(
            self.builder.fadd(self.llvm, o.llvm)
            if self.is_float
            else self.builder.add(self.llvm, o.llvm)
        )

    def __sub__(self, other: Any) -> Value:
        o = self.of(other)
        return self._make(
            self.builder.fsub(self.llvm, o.llvm)
            if self.is_float
            else self.builder.sub(self.llvm, o.llvm)
        )

    def __mul__(self, other: Any) -> Value:
        o = self.of(other)
        if self.is_float and is_device(self.builder):
            return self.call("product", o)
        return self._make(
            self.builder.fmul(self.llvm, o.llvm)
            if self.is_float
            else self.builder.mul(self.llvm, o.llvm)
        )

    def __truediv__(self, other: Any) -> Value:
        return self._make(self.builder.fdiv(self.llvm, self.of(other).llvm))

    def over(self, divisor: Value) -> Value:
        """Return the quotient by a divisor in range.

        The divisor is finite, normal and not 0. On a GPU a float32 quotient is 0 for a divisor
        beyond 2^126, and else rounds like the exact one but for rare ties and subnormal results. A
        division of any operands tests them there: a branch with a call, behind which constants are
        loaded again, and across which the compiler moves nothing. These are its steps without the
        test.
        """
        if not (is_device(self.builder) and self.kind == "f32"):
            return self / divisor
        shape = ir.FunctionType(F32, [F32])
        # within 1 ULP, and 0 for a divisor beyond 2^126; libNVVM has no intrinsic for it
        operands = [divisor.llvm]
        estimate = self._make(self.builder.asm(shape, RECIPROCAL, "=f,f", operands, False))
        negative = -divisor
        estimate = estimate.mad(negative.mad(estimate, 1.0), estimate)
        quotient = self * estimate
        return estimate.mad(negative.mad(quotient, self), quotient)

    def __radd__(self, other: Any) -> Value:
        return self.of(other) + self

    def __rsub__(self, other: Any) -> Value:
        return self.of(other) - self

    def __rmul__(self, other: Any) -> Value:
        return self.of(other) * self

    def __rtruediv__(self, other: Any) -> Value:
        return self.of(other) / self

    def __neg__(self) -> Value:
        if self.is_float and is_device(self.builder):
            return self.const(-0.0) - self  # older NVVM has no negation
        return self._make(self.builder.fneg(self.llvm)) if self.is_float else self.const(0) - self

    def mad(self, factor: Any, addend: Any) -> Value:
        """Return self * factor + addend.

        It rounds once where the CPU has a fused multiply-add.
        """
        return self.call("llvm.fmuladd", self.of(factor), self.of(addend))

    def quotient(self, other: Any) -> Value:
        """Return the truncating integer quotient.

        The divisor must not be 0, and not -1 for the smallest value.
        """
        divide = self.builder.sdiv if self.signed else self.builder.udiv
        return self._make(divide(self.llvm, self.of(other).llvm))

    def remainder(self, other: Any) -> Value:
        """Return the remainder of `quotient` (integers) or fmod (floats)."""
        if self.is_float and is_device(self.builder):
            return self.call("llvm.frem", self.of(other))
        if self.is_float:
            return self._make(self.builder.frem(self.llvm, self.of(other).llvm))
        rem = self.builder.srem if self.signed else self.builder.urem
        return self._make(rem(self.llvm, self.of(other).llvm))

    # Bits

    def __and__(self, other: Any) -> Value:
        return self._make(self.builder.and_(self.llvm, self.of(other).llvm))

    def __or__(self, other: Any) -> Value:
        return self._make(self.builder.or_(self.llvm, self.of(other).llvm))

    def __xor__(self, other: Any) -> Value:
        return self._make(self.builder.xor(self.llvm, self.of(other).llvm))

    def __invert__(self) -> Value:
        return self._make(self.builder.not_(self.llvm))

    def __lshift__(self, other: Any) -> Value:
        return self._make(self.builder.shl(self.llvm, self.of(other).llvm))

    def __rshift__(self, other: Any) -> Value:
        shift = self.builder.ashr if self.signed else self.builder.lshr
        return self._make(shift(self.llvm, self.of(other).llvm))

    def as_int(self) -> Value:
        """Return the bits of a float as a signed integer."""
        return self._make(self.builder.bitcast(self.llvm, ir.IntType(self.bits)), f"i{self.bits}")

    def as_float(self) -> Value:
        """Return the bits of a 32- or 64-bit integer as a float."""
        return self._make(self.builder.bitcast(self.llvm, _LLVM[f"f{self.bits}"]), f"f{self.bits}")

    def as_kind(self, kind: str) -> Value:
        """Return the same bits under the other signedness."""
        return self._make(self.llvm, kind)

    # Comparisons: ordered, so false with NaN, except `!=`

    def _compare(self, op: str, other: Any) -> Value:
        o = self.of(other)
        if self.is_float:
            compare = self.builder.fcmp_unordered if op == "!=" else self.builder.fcmp_ordered
        else:
            compare = self.builder.icmp_signed if self.signed else self.builder.icmp_unsigned
        return self._make(compare(op, self.llvm, o.llvm), "b")

    def __lt__(self, other: Any) -> Value:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Value:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Value:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Value:
        return self._compare(">=", other)

    def eq(self, other: Any) -> Value:
        """Return whether the values are equal; false with NaN."""
        return self._compare("==", other)

    def ne(self, other: Any) -> Value:
        """Return whether the values differ; true with NaN."""
        return self._compare("!=", other)

    def isnan(self) -> Value:
        """Return whether a float is NaN."""
        return self.ne(self)

    # Conversions

    def to(self, kind: str) -> Value:
        """Convert the value to `kind`.

        A float converts to an integer only if it is in range (see `casts` for the others).
        """
        b, target = self.builder, _LLVM[kind]
        if kind == self.kind:
            return self
        if self.is_float and kind[0] == "f":
            return self._make(
                b.fpext(self.llvm, target)
                if int(kind[1:]) > self.bits
                else b.fptrunc(self.llvm, target),
                kind,
            )
        if self.is_float:
            return self._make(
                b.fptosi(self.llvm, target) if kind[0] == "i" else b.fptoui(self.llvm, target), kind
            )
        if kind[0] == "f":
            return self._make(
                b.sitofp(self.llvm, target) if self.signed else b.uitofp(self.llvm, target), kind
            )
        if kind == "b":
            return self.ne(0)
        width = int(kind[1:])
        if width == self.bits:
            return self.as_kind(kind)
        if width < self.bits:
            return self._make(b.trunc(self.llvm, target), kind)
        return self._make(
            b.sext(self.llvm, target) if self.signed else b.zext(self.llvm, target), kind
        )


class Complex:
    """A complex number as two Values."""

    __slots__ = ("im", "re")

    def __init__(self, re: Value, im: Value) -> None:
        self.re = re
        self.im = im

    def __add__(self, other: Any) -> Complex:
        o = self.of(other)
        return Complex(self.re + o.re, self.im + o.im)

    def __sub__(self, other: Any) -> Complex:
        o = self.of(other)
        return Complex(self.re - o.re, self.im - o.im)

    def __rsub__(self, other: Any) -> Complex:
        return self.of(other) - self

    def __neg__(self) -> Complex:
        return Complex(-self.re, -self.im)

    def __mul__(self, other: Any) -> Complex:
        o = self.of(other)
        return Complex(self.re * o.re - self.im * o.im, self.re * o.im + self.im * o.re)

    def of(self, other: Any) -> Complex:
        """Return `other` as a Complex.

        Real Values and Python numbers get a zero imaginary part.
        """
        if isinstance(other, Complex):
            return other
        return Complex(self.re.of(other), self.re.const(0.0))

    def times_i(self) -> Complex:
        """Return the number times the imaginary unit."""
        return Complex(-self.im, self.re)

    def conj(self) -> Complex:
        """Return the conjugate."""
        return Complex(self.re, -self.im)


def where(condition: Value, x: Any, y: Any) -> Any:
    """Return x where the condition holds, else y (Values or Complex)."""
    if isinstance(x, Complex) or isinstance(y, Complex):
        first = x if isinstance(x, Complex) else y.of(x)
        second = first.of(y)
        return Complex(where(condition, first.re, second.re), where(condition, first.im, second.im))
    first = x if isinstance(x, Value) else y.of(x)
    second = first.of(y)
    return Value(
        condition.builder,
        condition.builder.select(condition.llvm, first.llvm, second.llvm),
        first.kind,
    )


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Evaluate a polynomial by Horner's scheme, lowest coefficient first."""
    result = x.const(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = result.mad(x, c)
    return result


def paired_polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Evaluate a polynomial by Estrin's scheme over x^2.

    It takes one product more than Horner's scheme, and rounds each term less often.
    """
    pairs = [
        x.mad(high, low) for low, high in zip(coefficients[::2], coefficients[1::2], strict=False)
    ]
    if len(coefficients) % 2:
        pairs.append(x.const(coefficients[-1]))
    square = x * x
    result = pairs[-1]
    for pair in reversed(pairs[:-1]):
        result = result.mad(square, pair)
    return result


def fabs(x: Value) -> Value:
    """Return the magnitude; the smallest integer stays itself."""
    return x.call("llvm.fabs") if x.is_float else where(x < 0, -x, x)


def sqrt(x: Value) -> Value:
    """Return the correctly rounded square root."""
    return x.call("llvm.sqrt")


def copysign(x: Value, sign: Value) -> Value:
    """Return x with the sign of `sign`."""
    return x.call("llvm.copysign", sign)


def rounded(x: Value, how: str) -> Value:
    """Call LLVM's `floor`, `ceil`, `trunc`, `roundeven` or `round`."""
    return x.call(f"llvm.{how}")


@dataclass(frozen=True, slots=True)
class Function:
    """A registered emitter.

    args, result: an entry is "T" (the kind itself), "R" (the real kind of a complex kind) or a
    fixed kind.
    """

    emitter: Callable[..., Any]
    kinds: tuple[str, ...]
    args: tuple[str, ...]
    result: str


FUNCTIONS: Final[dict[str, list[Function]]] = {}


def scalar(
    *kinds: str, args: str = "T", result: str = "T", name: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register an emitter as vm.<name>_<kind> for `kinds`.

    args: entries separated by spaces, see `Function`.
    """

    def register(emitter: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS.setdefault(name or emitter.__name__, []).append(
            Function(emitter, kinds, tuple(args.split()), result)
        )
        return emitter

    return register


def find(name: str) -> tuple[Function, str] | None:
    """Return the emitter behind `exp_f32`, and its kind."""
    base, _, kind = name.rpartition("_")
    for function in FUNCTIONS.get(base, ()):
        if kind in function.kinds:
            return function, kind
    return None


def _kind(entry: str, kind: str) -> str:
    return kind if entry == "T" else REAL_OF[kind] if entry == "R" else entry


def _unpack(context: Any, builder: ir.IRBuilder, value: ir.Value, kind: str) -> Value | Complex:
    if kind not in REAL_OF:
        return Value(builder, value, kind)
    pair = context.make_complex(builder, NUMBA[kind], value)
    return Complex(
        Value(builder, pair.real, REAL_OF[kind]), Value(builder, pair.imag, REAL_OF[kind])
    )


def _pack(context: Any, builder: ir.IRBuilder, value: Value | Complex, kind: str) -> ir.Value:
    if isinstance(value, Value):
        if value.kind != kind:
            raise TypeError(f"emitter returned {value.kind}, declared {kind}")
        return value.llvm
    pair = context.make_complex(builder, NUMBA[kind])
    pair.real, pair.imag = value.re.llvm, value.im.llvm
    return pair._getvalue()


def intrinsic_for(
    name: str, register: Callable[[Callable[..., object]], object] = intrinsic
) -> Any:
    """Return the Numba intrinsic of a function name with kind suffix.

    register: the decorator of the target's intrinsics. Raises AttributeError when there is none.
    """
    found = find(name)
    if found is None:
        raise AttributeError(f"vmath has no function {name}")
    function, kind = found
    arg_kinds = [_kind(entry, kind) for entry in function.args]
    result_kind = _kind(function.result, kind)
    signature = NUMBA[result_kind](*(NUMBA[k] for k in arg_kinds))

    def codegen(
        context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]
    ) -> ir.Value:
        values = [_unpack(context, builder, a, k) for a, k in zip(args, arg_kinds, strict=True)]
        return _pack(context, builder, function.emitter(*values), result_kind)

    # Numba matches call arguments to parameter names, so each arity needs a separate typing
    # function.
    typings: dict[int, Callable[..., Any]] = {
        1: lambda typingctx, x: (signature, codegen),
        2: lambda typingctx, x, y: (signature, codegen),
        3: lambda typingctx, x, y, z: (signature, codegen),
    }
    typing = typings[len(arg_kinds)]
    typing.__name__ = name
    return register(typing)


@functools.cache
def target_has(*features: str) -> bool:
    """Return whether the target CPU has one of these LLVM features."""
    given = getattr(config, "CPU_FEATURES", None)  # Numba sets it at import
    flags = get_host_cpu_features() if given is None else given
    return not {f"+{feature}" for feature in features}.isdisjoint(flags.split(","))


def fuses() -> bool:
    """Return whether `mad` rounds once on the target CPU.

    Every CPU does but x86-64 before AVX2.
    """
    return target_has("fma", "avx512f", "neon", "fp-armv8")


def fma(x: Value, y: Value, z: Value) -> Value:
    """Return x * y + z in one rounding on every CPU.

    Error-free products need it. It is a library call where the CPU has no such instruction.
    """
    return x.call("llvm.fma", y, z)


def two_product(x: Value, y: Value) -> tuple[Value, Value]:
    """Return x * y, rounded, and its exact rounding error."""
    product = x * y
    return product, fma(x, y, -product)


def two_sum(x: Value, y: Value) -> tuple[Value, Value]:
    """Return x + y, rounded, and its exact rounding error."""
    total = x + y
    other = total - x
    return total, (x - (total - other)) + (y - other)


def fast_two_sum(x: Value, y: Value) -> tuple[Value, Value]:
    """Return `two_sum` for |x| >= |y|."""
    total = x + y
    return total, y - (total - x)

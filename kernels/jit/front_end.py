"""Translate kernel texts to LLVM IR in one walk over the tree.

Generated texts use little of Python: scalars, loops over ranges, branches, and calls of intrinsics
and casts. Numba's analysis of bytecode (SSA, type inference, rewrites) takes more time than LLVM
for them. Here a variable has one type, the type of its first assignment. The types and the code of
operators, casts and calls are Numba's own, so a text means the same as in Numba. A variable of
signed integers of several widths is an int64. Numba compiles a text with other Python, which is
`Unsupported` here.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import callconv, cgutils, types, typing
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target

from tfjit.kernels.jit.call_inlining import CallInlining

_BINARY: Final[dict[type[ast.operator], Callable[..., Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_UNARY: Final[dict[type[ast.unaryop], Callable[..., Any]]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
    ast.Not: operator.not_,
}  # fmt: skip
_COMPARE: Final[dict[type[ast.cmpop], Callable[..., Any]]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_I64: Final = ir.IntType(64)


class Unsupported(Exception):
    """The text uses Python that this translation leaves to Numba."""


class _Mixed(Exception):
    """A variable has integers of different widths: (entry, name)."""


class _Typed(NamedTuple):
    """An LLVM value with its Numba type."""

    value: ir.Value
    type: Any


class _Loop(NamedTuple):
    """The blocks that `continue` and `break` of a loop jump to."""

    next: ir.Block
    end: ir.Block


class _Library:
    """Numba's typed operations, each looked up once a process."""

    def __init__(self) -> None:
        self.typing = cpu_target.typing_context
        base = cpu_target.target_context
        self.typing.refresh()
        base.refresh()
        self.context = base.subtarget(error_model=callconv.create_error_model("numpy", base))
        self._operations: dict[tuple[Any, tuple[Any, ...]], tuple[Any, Any]] = {}

    def operation(self, function: Any, kinds: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return signature and implementation of a function for argument types.

        Raises Unsupported when Numba finds none, or only by compiling a Python function.
        """
        key = (function, kinds)
        found = self._operations.get(key)
        if found is None:
            self.typing.refresh()  # an intrinsic may be newer than the last look-up
            kind = self.typing.resolve_value_type(function)
            if isinstance(kind, types.Dispatcher):
                raise Unsupported(f"{function} is a jitted function")
            signature = self.typing.resolve_function_type(kind, kinds, {})
            if signature is None or signature.recvr is not None:
                raise Unsupported(f"{function} of {kinds}")
            implementation = self.context.get_function(kind, signature)
            if getattr(implementation, "libs", ()):
                raise Unsupported(f"{function} is a compiled function")
            found = self._operations[key] = signature, implementation
        return found


_library: _Library | None = None


def translate(
    text: str, names: Mapping[str, Any], entries: Sequence[str], arity: int, unique: str
) -> str:
    """Return the LLVM IR of a text's functions.

    They are private and have Numba's calling convention; a function f is called
    `mangled(unique, f)`. names: the text's global names. entries: functions of `arity` integer
    arguments. Raises Unsupported.
    """
    wide: set[tuple[str, str]] = set()
    while True:
        try:
            return _translated(text, names, entries, arity, unique, wide)
        except _Mixed as mixed:  # int64 in Numba's analysis, too
            wide.add(mixed.args[0])


def _translated(
    text: str,
    names: Mapping[str, Any],
    entries: Sequence[str],
    arity: int,
    unique: str,
    wide: Collection[tuple[str, str]],
) -> str:
    """Return the LLVM IR of a text's functions.

    wide: (entry, variable) of int64.
    """
    global _library
    try:
        if _library is None:
            _library = _Library()
        codes = _library.context.codegen().create_library(unique)
        module = codes.create_ir_module(unique)
        functions = {
            node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)
        }
        inlining = CallInlining(functions, names)
        with _library.context.push_code_library(codes):
            for entry in entries:
                node = functions.get(entry)
                if node is None:
                    raise Unsupported(f"{entry} is not a function of the text")
                _Function(_library, module, names, mangled(unique, entry), arity, wide).emit(
                    inlining.expanded(node)
                )
        if codes._linking_libraries:
            raise Unsupported("an operator is a compiled function")
    except (NumbaError, NotImplementedError) as error:
        raise Unsupported(f"{type(error).__name__}: {error}") from error
    return str(module)


def mangled(unique: str, entry: str) -> str:
    """Return the name of an entry's function in the IR."""
    return f"{unique}.numba.{entry}"


class _Function:
    """One function under construction."""

    def __init__(
        self,
        library: _Library,
        module: ir.Module,
        names: Mapping[str, Any],
        name: str,
        arity: int,
        wide: Collection[tuple[str, str]],
    ) -> None:
        self._library, self._names, self._wide = library, names, wide
        self._entry = ""
        self._context = context = library.context
        self._arguments = (types.intp,) * arity
        kind = context.call_conv.get_function_type(types.none, self._arguments)
        self._function = ir.Function(module, kind, name)
        self._function.linkage = "internal"
        self._function.attributes.add("alwaysinline")  # into the C function around it
        self._allocations = self._function.append_basic_block("entry")
        self._builder = ir.IRBuilder(self._function.append_basic_block("body"))
        context.call_conv.init_call_helper(self._builder)
        self._variables: dict[str, _Typed] = {}  # pointers, with the types behind them
        self._constants: dict[str, Any] = {}
        self._assigned: Counter[str] = Counter()
        self._loops: list[_Loop] = []

    def emit(self, node: ast.FunctionDef) -> None:
        """Emit the function's code."""
        self._entry = node.name
        given = [argument.arg for argument in node.args.args]
        others = [*node.args.posonlyargs, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        if (
            any(others)
            or node.args.defaults
            or node.decorator_list
            or len(given) != len(self._arguments)
        ):
            raise Unsupported("arguments or decorators")
        self._assigned.update(given)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                self._assigned[inner.id] += 1
        call_conv = self._context.call_conv
        for name, value in zip(given, call_conv.get_arguments(self._function), strict=True):
            self._assign(name, _Typed(value, types.intp))
        self._block(node.body)
        if not self._builder.block.is_terminated:
            self._return()
        ir.IRBuilder(self._allocations).branch(self._function.basic_blocks[1])

    # Statements

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self._builder.block.is_terminated:
                return  # behind return, break or continue
            emit = _STATEMENTS.get(type(statement))
            if emit is None:
                raise Unsupported(type(statement).__name__)
            emit(self, statement)

    def _expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self._value(node.value)

    def _pass(self, node: ast.Pass) -> None:
        pass

    def _return(self, node: ast.Return | None = None) -> None:
        value = node.value if node is not None else None
        if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
            raise Unsupported("a value is returned")
        self._context.call_conv.return_native_none(self._builder)

    def _assign(self, name: str, given: _Typed) -> None:
        kind = types.unliteral(given.type)
        if not isinstance(kind, (types.Number, types.Boolean, types.CPointer)):
            raise Unsupported(f"a variable of {kind}")
        if (self._entry, name) in self._wide and kind in types.signed_domain:
            kind = types.int64
        variable = self._variables.get(name)
        if variable is None:
            place = ir.IRBuilder(self._allocations).alloca(
                self._context.get_value_type(kind), name=name
            )
            variable = self._variables[name] = _Typed(place, kind)
        elif variable.type != kind:
            if variable.type in types.signed_domain and kind in types.signed_domain:
                raise _Mixed((self._entry, name))
            raise Unsupported(f"{name} is {variable.type} and {kind}")
        self._builder.store(self._cast(given, kind), variable.value)

    def _store(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            found = self._folded(value)
            if found is not None and self._assigned[target.id] == 1:
                self._constants[target.id] = found
            else:
                self._assign(target.id, self._value(value))
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            if len(target.elts) != len(value.elts):
                raise Unsupported("tuples of different lengths")
            values = [self._value(element) for element in value.elts]
            for name, typed in zip(target.elts, values, strict=True):
                if not isinstance(name, ast.Name):
                    raise Unsupported(type(name).__name__)
                self._assign(name.id, typed)
        else:
            raise Unsupported(f"assignment to {type(target).__name__}")

    def _assignment(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            raise Unsupported("several targets")
        self._store(node.targets[0], node.value)

    def _augmented(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise Unsupported(f"assignment to {type(node.target).__name__}")
        before = self._value(ast.Name(node.target.id, ast.Load()))
        self._assign(node.target.id, self._binary(node.op, before, self._value(node.value)))

    def _if(self, node: ast.If) -> None:
        then, end = self._new("then"), self._new("endif")
        otherwise = self._new("else") if node.orelse else end
        self._builder.cbranch(self._condition(node.test), then, otherwise)
        self._into(then, node.body, end)
        if node.orelse:
            self._into(otherwise, node.orelse, end)
        self._builder.position_at_end(end)

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            raise Unsupported("else of a loop")
        test, body, end = self._new("while"), self._new("body"), self._new("endwhile")
        self._builder.branch(test)
        self._builder.position_at_end(test)
        self._builder.cbranch(self._condition(node.test), body, end)
        with self._loop(_Loop(test, end)):
            self._into(body, node.body, test)
        self._builder.position_at_end(end)

    def _for(self, node: ast.For) -> None:
        """Emit a loop over a range.

        The test stands at the end of the loop: LLVM would move it there.
        """
        call = node.iter
        if node.orelse or not isinstance(node.target, ast.Name):
            raise Unsupported("else or target of a loop")
        if (
            not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Name)
            or self._object(call.func) is not range
            or call.keywords
            or not 1 <= len(call.args) <= 3
        ):
            raise Unsupported("a loop over something else than a range")
        step = self._folded(call.args[2]) if len(call.args) == 3 else 1
        if type(step) is not int or step == 0:
            raise Unsupported("the step of a range is not a literal")
        limits = [self._integer(argument) for argument in call.args[:2]]
        start, stop = limits if len(limits) == 2 else (ir.Constant(_I64, 0), limits[0])
        name, builder = node.target.id, self._builder
        place = ir.IRBuilder(self._allocations).alloca(_I64, name=f"{name}.next")
        builder.store(start, place)
        body, following, end = self._new("for"), self._new("next"), self._new("endfor")
        before = "<" if step > 0 else ">"
        builder.cbranch(builder.icmp_signed(before, start, stop), body, end)
        builder.position_at_end(body)
        self._assign(name, _Typed(builder.load(place), types.intp))
        with self._loop(_Loop(following, end)):
            self._into(body, node.body, following)
        builder.position_at_end(following)
        # No wrap: the sizes that loops run over are sizes of memory.
        value = builder.add(builder.load(place), ir.Constant(_I64, step), flags=["nsw"])
        builder.store(value, place)
        builder.cbranch(builder.icmp_signed(before, value, stop), body, end)
        builder.position_at_end(end)

    def _break(self, node: ast.Break) -> None:
        self._builder.branch(self._loops[-1].end)

    def _continue(self, node: ast.Continue) -> None:
        self._builder.branch(self._loops[-1].next)

    @contextmanager
    def _loop(self, loop: _Loop) -> Iterator[None]:
        self._loops.append(loop)
        yield
        self._loops.pop()

    def _new(self, name: str) -> ir.Block:
        return self._function.append_basic_block(name)

    def _into(self, block: ir.Block, statements: Sequence[ast.stmt], end: ir.Block) -> None:
        self._builder.position_at_end(block)
        self._block(statements)
        if not self._builder.block.is_terminated:
            self._builder.branch(end)

    # Expressions

    def _object(self, node: ast.expr) -> Any:
        """Return the global that an expression names; Unsupported when it names none."""
        if isinstance(node, ast.Name) and node.id not in self._assigned:
            if node.id in self._names:
                return self._names[node.id]
            builtins: Any = self._names["__builtins__"]
            members = builtins if isinstance(builtins, dict) else vars(builtins)
            if node.id in members:
                return members[node.id]
        elif isinstance(node, ast.Attribute):
            found = getattr(self._object(node.value), node.attr, None)
            if found is not None:
                return found
        raise Unsupported(f"{ast.unparse(node)} is not a global name")

    def _folded(self, node: ast.expr) -> Any:
        """Return the number that Python's compiler sees in an expression, or None."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            operand = self._folded(node.operand)
            return None if operand is None else _UNARY[type(node.op)](operand)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            left, right = self._folded(node.left), self._folded(node.right)
            if left is not None and right is not None:
                return _BINARY[type(node.op)](left, right)
        return None

    def _constant(self, value: Any) -> _Typed:
        if isinstance(value, (bool, int)):
            kind = types.literal(value)
            return _Typed(
                self._context.get_constant_generic(self._builder, kind.literal_type, value), kind
            )
        if isinstance(value, float):
            return _Typed(self._context.get_constant(types.float64, value), types.float64)
        if isinstance(value, np.integer):
            kind = types.Integer.from_bitwidth(
                8 * value.itemsize, isinstance(value, np.signedinteger)
            )
            return _Typed(self._context.get_constant(kind, int(value)), kind)
        raise Unsupported(f"a constant of {type(value).__name__}")

    def _value(self, node: ast.expr) -> _Typed:
        folded = self._folded(node)
        if folded is not None:
            return self._constant(folded)
        match node:
            case ast.Name(id=name):
                if name in self._constants:
                    return self._constant(self._constants[name])
                variable = self._variables.get(name)
                if variable is None:
                    return self._constant(self._object(node))
                return _Typed(self._builder.load(variable.value), variable.type)
            case ast.Attribute():
                return self._constant(self._object(node))
            case ast.BinOp():
                return self._binary(node.op, self._value(node.left), self._value(node.right))
            case ast.UnaryOp():
                return self._call(_UNARY[type(node.op)], [self._value(node.operand)])
            case ast.Compare(ops=[comparison]) if type(comparison) in _COMPARE:
                values = [self._value(node.left), self._value(node.comparators[0])]
                return self._call(_COMPARE[type(comparison)], values)
            case ast.BoolOp():
                return self._logical(node)
            case ast.IfExp():
                return self._choice(node)
            case ast.Call(keywords=[]):
                return self._call(self._object(node.func), [self._value(a) for a in node.args])
        raise Unsupported(type(node).__name__)

    def _cast(self, given: _Typed, kind: Any) -> ir.Value:
        return self._context.cast(self._builder, given.value, given.type, kind)

    def _common(self, given: Sequence[Any]) -> Any:
        """Return the type that values of different branches take."""
        kinds = [types.unliteral(kind) for kind in given]
        kind = kinds[0] if len({*kinds}) == 1 else self._library.typing.unify_types(*kinds)
        if kind is None:
            raise Unsupported(f"a choice of {kinds}")
        return kind

    def _integer(self, node: ast.expr) -> ir.Value:
        given = self._value(node)
        if types.unliteral(given.type) != types.intp:
            raise Unsupported(f"a range of {given.type}")
        return self._cast(given, types.intp)

    def _condition(self, node: ast.expr) -> ir.Value:
        given = self._value(node)
        if types.unliteral(given.type) == types.boolean:
            return self._cast(given, types.boolean)
        return self._call(bool, [given]).value

    def _binary(self, op: ast.operator, left: _Typed, right: _Typed) -> _Typed:
        function = _BINARY.get(type(op))
        if function is None:
            raise Unsupported(type(op).__name__)
        integers = types.unliteral(left.type) == types.unliteral(right.type) == types.intp
        if function is operator.floordiv and integers:
            dividend = self._cast(left, types.intp)
            if isinstance(right.type, types.IntegerLiteral) and right.type.literal_value > 0:
                return _Typed(
                    self._constant_quotient(dividend, right.type.literal_value), types.intp
                )
            return _Typed(self._quotient(dividend, self._cast(right, types.intp)), types.intp)
        return self._call(function, [left, right])

    def _constant_quotient(self, value: ir.Value, divisor: int) -> ir.Value:
        """Return a floor quotient by a positive constant."""
        builder = self._builder
        if divisor & (divisor - 1) == 0:
            return builder.ashr(value, ir.Constant(_I64, divisor.bit_length() - 1))
        divided = ir.Constant(_I64, divisor)
        quotient = builder.sdiv(value, divided)
        left = builder.sub(value, builder.mul(quotient, divided))
        below = builder.icmp_signed("<", left, ir.Constant(_I64, 0))
        return builder.add(quotient, builder.sext(below, _I64))

    def _quotient(self, value: ir.Value, divisor: ir.Value) -> ir.Value:
        """Return a floor quotient by any divisor.

        The quotient by 0 is 0, as in Numba, and the one by -1 wraps. Numba's own code has five
        branches, which cost LLVM a tenth of its time.
        """
        builder, zero, one = self._builder, ir.Constant(_I64, 0), ir.Constant(_I64, 1)
        # The division instruction traps for 0, and for -1 if the quotient overflows.
        trivial = builder.icmp_unsigned("<", builder.add(divisor, one), ir.Constant(_I64, 2))
        safe = builder.select(trivial, one, divisor)
        quotient, left = builder.sdiv(value, safe), builder.srem(value, safe)
        signs_differ = builder.icmp_signed("<", builder.xor(left, safe), zero)
        inexact = builder.icmp_signed("!=", left, zero)
        below = builder.sext(builder.and_(inexact, signs_differ), _I64)
        return builder.select(trivial, builder.mul(value, divisor), builder.add(quotient, below))

    def _logical(self, node: ast.BoolOp) -> _Typed:
        """Emit `and` and `or` of booleans.

        Later operands run only if they are needed.
        """
        end, found = self._new("logical"), []
        stops = isinstance(node.op, ast.Or)
        for number, operand in enumerate(node.values):
            given = self._value(operand)
            if types.unliteral(given.type) != types.boolean:
                raise Unsupported(f"{type(node.op).__name__} of {given.type}")
            value = self._cast(given, types.boolean)
            found.append((value, self._builder.block))
            if number + 1 < len(node.values):
                following = self._new("operand")
                branches = (end, following) if stops else (following, end)
                self._builder.cbranch(value, *branches)
                self._builder.position_at_end(following)
        self._builder.branch(end)
        return self._join(end, found, types.boolean)

    def _choice(self, node: ast.IfExp) -> _Typed:
        condition = self._condition(node.test)
        builder, end = self._builder, self._new("choice")
        values, blocks = [], []
        starts = (self._new("then"), self._new("else"))
        builder.cbranch(condition, *starts)
        for start, branch in zip(starts, (node.body, node.orelse), strict=True):
            builder.position_at_end(start)
            values.append(self._value(branch))
            blocks.append(builder.block)
        kind = self._common([value.type for value in values])
        found = []
        for value, block in zip(values, blocks, strict=True):
            builder.position_at_end(block)
            found.append((self._cast(value, kind), builder.block))
            builder.branch(end)
        return self._join(end, found, kind)

    def _join(self, end: ir.Block, found: Sequence[tuple[ir.Value, ir.Block]], kind: Any) -> _Typed:
        self._builder.position_at_end(end)
        phi = self._builder.phi(self._context.get_value_type(kind))
        for value, block in found:
            phi.add_incoming(value, block)
        return _Typed(phi, kind)

    def _extreme(self, comparison: str, values: Sequence[_Typed]) -> _Typed:
        """Emit min or max of integers.

        Numba would compile a Python function for it.
        """
        kind = self._common([value.type for value in values])
        if not isinstance(kind, types.Integer):
            raise Unsupported(f"min or max of {kind}")
        builder = self._builder
        compare = builder.icmp_signed if kind in types.signed_domain else builder.icmp_unsigned
        found, *others = (self._cast(value, kind) for value in values)
        for other in others:
            found = builder.select(compare(comparison, other, found), other, found)
        return _Typed(found, kind)

    def _call(self, function: Any, values: Sequence[_Typed]) -> _Typed:
        if (function is min or function is max) and len(values) > 1:
            return self._extreme("<" if function is min else ">", values)
        if function is int and len(values) == 1:
            kind = types.unliteral(values[0].type)
            target = kind if isinstance(kind, types.Integer) else types.intp
            return _Typed(self._cast(values[0], target), target)
        signature, implementation = self._library.operation(
            function, tuple(value.type for value in values)
        )
        if signature.pysig is None:
            arguments = [
                self._cast(value, kind) for value, kind in zip(values, signature.args, strict=True)
            ]
        else:
            arguments = typing.fold_arguments(
                signature.pysig,
                list(values),
                {},
                lambda index, _, value: self._cast(value, signature.args[index]),
                lambda index, _, default: self._context.get_constant_generic(
                    self._builder, signature.args[index], default
                ),
                lambda index, _, rest: cgutils.make_anonymous_struct(
                    self._builder,
                    [
                        self._cast(value, kind)
                        for value, kind in zip(rest, signature.args[index], strict=True)
                    ],
                ),
            )
        return _Typed(implementation(self._builder, arguments), signature.return_type)


_STATEMENTS: Final[dict[type[ast.stmt], Callable[[_Function, Any], None]]] = {
    ast.Assign: _Function._assignment, ast.AugAssign: _Function._augmented,
    ast.Break: _Function._break, ast.Continue: _Function._continue,
    ast.Expr: _Function._expression, ast.For: _Function._for, ast.If: _Function._if,
    ast.Pass: _Function._pass, ast.Return: _Function._return, ast.While: _Function._while,
}  # fmt: skip

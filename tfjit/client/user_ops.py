"""`register_op`: an op type of the user's own, in one call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.op_defs import gradient_registry, op_def
from tfjit.framework.op_defs.op_def import OpDef
from tfjit.framework.op_defs.op_registry import ShapeFn, registry
from tfjit.framework.op_defs.op_traits import CANNOT_FAIL, ELEMENTWISE, FAILS_ON_INTEGERS
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.scalar import elementwise, scalar_expression
from tfjit.framework.scalar.elementwise import Elementwise
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import Shape
from tfjit.kernels import registry as kernel_registry
from tfjit.ops.core.apply import call

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure

_TYPE: Final = re.compile(r"[A-Z][A-Za-z0-9_]*")
_KERNEL_COST_NS: Final = 1.0
_ours: Final[set[str]] = set()


def register_op(
    op_type: str,
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attrs: Sequence[str] = (),
    shape: ShapeFn | None = None,
    reference: Callable[..., object] | None = None,
    expression: str | None = None,
    kernel: Callable[..., object] | None = None,
    gradient: Callable[..., object] | None = None,
    stateful: bool = False,
    commutative: bool = False,
    cost_ns: float | None = None,
) -> Callable[..., Structure]:
    """Define an op type and return the function that adds its nodes.

    The function is `function(*inputs, name=None, **attrs)`.

    inputs, outputs, attrs: specs as TensorFlow writes them: "x: T", "y: T",
        "T: {float, double} = DT_FLOAT", "alpha: float = 1.0".
    shape: `(ShapeContext) -> shapes of the outputs`; without it inputs of an expression broadcast,
        and no other shape is known.
    expression: the output of an elementwise op, in terms of its inputs and number attrs:
        "x * sigmoid(alpha * x)". The op then joins fused loops like a built-in.
    kernel: a function that Numba can compile, over the inputs and outputs as arrays by position,
        and number attrs by name; it writes the outputs. With parameters `chunk` and `chunks` it
        does that part of the work, and several threads share it. It must neither allocate nor
        raise. A function that Numba refuses is served by the reference; `Session.explain` and the
        log give the reason.
    reference: NumPy: `(*inputs, **attrs it takes) -> output, or a tuple of them`. Serves first runs
        and folding. An expression has one.
    gradient: as for `RegisterGradient`.
    stateful: never folded, merged with an equal one or left out. commutative: as in an OpDef.
    cost_ns: predicted time, on one core, an element of the largest array.

    Graphs imported from elsewhere may use the op. Raises ValueError for a type that is registered,
    a spec, expression or kernel that does not fit, TypeError for arguments of the wrong type;
    nothing is registered then.
    """
    if not isinstance(op_type, str) or _TYPE.fullmatch(op_type) is None:
        raise ValueError(
            "an op type is a capital letter and then letters, digits and underscores, got "
            f"{op_type!r}"
        )
    if op_type in registry:
        whose = "by an earlier register_op" if op_type in _ours else "as one of TensorFlow's"
        raise ValueError(f"Op type {op_type} is registered already, {whose}")
    if gradient is not None and gradient_registry.has_gradient(op_type):
        raise ValueError(f"a gradient is registered for {op_type} already")
    if (expression is None) == (kernel is None) and (expression is not None or reference is None):
        raise ValueError(
            f"{op_type} needs an expression, or a kernel with a reference, or a reference"
        )
    if kernel is not None and reference is None:
        raise ValueError(
            f"{op_type} needs a reference beside its kernel: it serves until the kernel is "
            "compiled, and checks it"
        )
    for what, function in (
        ("shape", shape),
        ("reference", reference),
        ("kernel", kernel),
        ("gradient", gradient),
    ):
        if function is not None and not callable(function):
            raise TypeError(
                f"register_op({op_type!r}): {what} must be a function, got "
                f"{type(function).__name__}"
            )
    definition = op_def.define_op(
        op_type, inputs, outputs, attrs, stateful=stateful, commutative=commutative
    )
    names = [attr.name for attr in definition.attrs]
    row = _row(definition, expression, reference, cost_ns) if expression is not None else None
    if row is not None:
        definition = replace(definition, traits=_traits(row, reference))
    compiled = None
    if kernel is not None:
        from tfjit.kernels.cpu import user_ops

        for arg in (*definition.inputs, *definition.outputs):
            if arg.is_list or arg.is_ref:
                raise ValueError(
                    f"register_op({op_type!r}): a kernel takes single arrays, and {arg.name!r} is "
                    "a list or a reference"
                )
        compiled = user_ops.user_kernel(
            op_type,
            kernel,
            [arg.name for arg in definition.inputs],
            [arg.name for arg in definition.outputs],
            {attr.name: attr.type for attr in definition.attrs},
            _KERNEL_COST_NS if cost_ns is None else cost_ns,
        )
    registry.register(definition, shape if shape is not None or row is None else _broadcast)
    _ours.add(op_type)
    _add_kernels(definition.name, row, compiled, reference, names)
    if gradient is not None:
        gradient_registry.register(op_type, gradient)
    return _function(definition)


def unregister_op(op_type: str) -> None:
    """Undo `register_op`; graphs that use the op can no longer be run.

    Raises ValueError for a type that it did not register.
    """
    if op_type not in _ours:
        raise ValueError(f"{op_type} was not registered by register_op")
    _ours.discard(op_type)
    registry.unregister(op_type)
    elementwise.remove_row(op_type)
    kernel_registry.unregister(op_type)
    gradient_registry.unregister(op_type)


def _add_kernels(
    op_type: str, row: Elementwise | None, compiled: Any, reference: Any, attrs: Sequence[str]
) -> None:
    from tfjit.kernels.cpu import user_ops

    if row is not None:
        elementwise.add_row(row)
        user_ops.register_expression(row)
        return
    user_ops.register_reference(op_type, reference, attrs)
    if compiled is not None:
        user_ops.register_kernel(compiled)


def _traits(row: Elementwise, reference: Callable[..., object] | None) -> int:
    """Return the traits of an op given by an expression.

    A reference of the user's may raise any error.
    """
    if reference is not None:
        return ELEMENTWISE
    rows = [elementwise.lookup(step.op) for step in row.steps]
    fails = any(found is not None and found.error is not None for found in rows)
    return ELEMENTWISE | (FAILS_ON_INTEGERS if fails else CANNOT_FAIL)


def _row(
    definition: OpDef,
    expression: str,
    reference: Callable[..., object] | None,
    cost_ns: float | None,
) -> Elementwise:
    """Return the table row of an op given by an expression.

    Raises ValueError where its inputs, output and expression do not fit each other.
    """
    where = f"register_op({definition.name!r})"
    if len(definition.outputs) != 1 or definition.is_stateful:
        raise ValueError(f"{where}: an op given by an expression has one output and no state")
    typed = {arg.type_attr or arg.type for arg in definition.inputs if arg.type is not dtypes.bool}
    args = (*definition.inputs, *definition.outputs)
    if len(typed) != 1 or any(arg.is_list or arg.is_ref for arg in args):
        raise ValueError(
            f"{where}: the inputs of an expression are single tensors of one dtype, besides bools"
        )
    kinds = {arg.name: "bool" if arg.type is dtypes.bool else "T" for arg in definition.inputs}
    numbers = [attr.name for attr in definition.attrs if attr.type in ("int", "float")]
    try:
        parsed = scalar_expression.parse(expression, kinds, numbers)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    (operand,) = typed
    attr = definition.attr_by_name.get(operand) if isinstance(operand, str) else None
    allowed = attr.allowed if attr is not None else (operand,)
    refused = [t.name for t in allowed if t not in parsed.dtypes]
    if not allowed or refused:
        what = (
            f"takes {', '.join(refused)}, for which"
            if refused
            else f"takes any dtype as {operand}, and"
        )
        known = ", ".join(sorted(t.name for t in parsed.dtypes))
        raise ValueError(
            f"{where}: it {what} its expression is not defined; list those it is meant for, of: "
            f"{known}"
        )
    output = definition.outputs[0]
    result = "bool" if output.type is dtypes.bool else "T"
    if result != parsed.result or (result == "T" and (output.type_attr or output.type) != operand):
        given = (
            "bool"
            if parsed.result == "bool"
            else operand
            if isinstance(operand, str)
            else operand.name  # type: ignore[union-attr]
        )
        raise ValueError(
            f"{where}: its expression gives {given}, and output {output.name!r} is declared "
            "otherwise"
        )
    used = {step.value for step in parsed.steps if isinstance(step.value, str)}
    attrs = tuple(name for name in numbers if name in used)
    function = reference if reference is not None else parsed.evaluate
    if reference is not None:
        attrs = tuple(name for name in numbers if name in used or _accepts(reference, name))
    return Elementwise(
        definition.name,
        "",
        function,
        parsed.dtypes,
        signature=parsed.signature,
        result=parsed.result,
        attrs=attrs,
        commutative=definition.is_commutative,
        cost_ns=parsed.cost_ns if cost_ns is None else cost_ns,
        steps=parsed.steps,
    )


def _accepts(function: Callable[..., object], name: str) -> bool:
    from tfjit.kernels.cpu import user_ops

    return user_ops.accepts(function, name)


def _broadcast(c: ShapeContext) -> Sequence[Shape]:
    found = c.inputs[0]
    for other in c.inputs[1:]:
        found = c.broadcast(found, other)
    return [found]


def _function(definition: OpDef) -> Callable[..., Structure]:
    """Return the public function of an op."""
    op_type = definition.name
    names = [arg.name for arg in definition.inputs]
    inferred = {
        a for arg in definition.inputs for a in (arg.type_attr, arg.number_attr, arg.type_list_attr)
    }
    optional = [attr for attr in definition.attrs if attr.name not in inferred]
    kind = inspect.Parameter
    parameters = [kind(name, kind.POSITIONAL_OR_KEYWORD) for name in names]
    parameters += [
        kind(attr.name, kind.KEYWORD_ONLY, default=attr.default if attr.has_default else kind.empty)
        for attr in sorted(optional, key=lambda attr: attr.has_default)
    ]
    parameters.append(kind("name", kind.KEYWORD_ONLY, default=None))

    def function(*args: object, name: str | None = None, **arguments: object) -> Any:
        if len(args) > len(names):
            raise TypeError(f"{op_type} takes {len(names)} inputs, got {len(args)}")
        given: Mapping[str, object] = dict(zip(names, args, strict=False))
        twice = [key for key in given if key in arguments]
        if twice:
            raise TypeError(f"{op_type} got {twice[0]!r} twice")
        return call(op_type, name, **given, **arguments)

    function.__name__ = function.__qualname__ = op_type
    function.__doc__ = f"Adds a node: {definition.summary()}"
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function

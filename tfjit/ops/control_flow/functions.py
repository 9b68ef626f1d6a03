"""`function`: Python functions as functions of the graph, traced by arguments.

There is no AutoGraph: Python's `if` and `while` on a tensor are refused, as TensorFlow refuses them
with `autograph=False`.
"""

from __future__ import annotations

import functools
import inspect
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph
from tfjit.framework.graphs.function_def import from_function_def
from tfjit.framework.graphs.function_graph import FunctionGraph, unique_function_name
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.tensor_spec import TensorSpec
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.types import nest
from tfjit.framework.types.shape import Shape
from tfjit.ops.control_flow.bodies import define, finish, is_stateful, packed, trace
from tfjit.ops.control_flow.flow_tensor_array import TensorArray, from_flow
from tfjit.ops.core.apply import create
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message, Structure, TensorLike

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.]")


class ConcreteFunction:
    """A function of the graph: one trace of a Python function.

    Called with tensors, it is a PartitionedCall or StatefulPartitionedCall.
    """

    def __init__(self, graph: FunctionGraph, arguments: int, signature: object) -> None:
        self.graph = graph
        self.structured_input_signature = signature
        self._arguments = arguments
        self._ref: FuncRef = define(graph)

    @property
    def name(self) -> bytes:
        """The function's name in the graph's library."""
        return self._ref.name.encode()

    @property
    def inputs(self) -> list[Tensor]:
        """The parameters in the body: arguments, then captured tensors."""
        return list(self.graph.inputs)

    @property
    def outputs(self) -> list[Tensor]:
        """The results in the body."""
        return list(self.graph.outputs)

    @property
    def captured_inputs(self) -> list[Tensor]:
        """Tensors of outside that a call passes besides the arguments."""
        return [outer for outer, _ in self.graph.captures]

    @property
    def structured_outputs(self) -> Structure:
        """The Python function's result."""
        return self.graph.structured_outputs

    @property
    def function_def(self) -> Message:
        """The FunctionDef."""
        return self.graph.outermost.functions[self._ref.name]

    def __call__(self, *args: object, **kwargs: object) -> Structure:
        """Call with a tensor for each argument that is one.

        Keywords are taken in the order of their names' parameters.
        """
        given = [*args, *kwargs.values()]
        if len(given) != self._arguments:
            raise TypeError(f"{self._ref.name} expects {self._arguments} tensors, got {len(given)}")
        wanted = self.graph.inputs[: self._arguments]
        return self._call(
            [
                convert_to_tensor(value, dtype=like.dtype)
                for value, like in zip(given, wanted, strict=True)
            ]
        )

    def _call(self, tensors: Sequence[Tensor]) -> Any:
        graph = self.graph
        with control_dependencies(list(graph.control_captures)):
            op: Operation = create(
                "StatefulPartitionedCall" if is_stateful(graph) else "PartitionedCall",
                None,
                args=[*tensors, *self.captured_inputs],
                Tout=tuple(value.dtype.base_dtype for value in graph.outputs),
                f=self._ref,
            )
        finish(op, [graph])
        op._bodies = ()  # the body serves other calls too: a gradient takes a copy
        results = graph.outputs
        if any(
            value.shape_tuple != inside.shape_tuple
            for value, inside in zip(tensors, graph.inputs, strict=False)
        ):
            # the call knows more of the arguments than the trace
            results = from_function_def(
                self._ref, op.graph, [value.shape_tuple for value in op.inputs]
            ).outputs
        for value, inside, result in zip(op.outputs, graph.outputs, results, strict=True):
            value.set_shape(result.shape)
            value._handle_data = inside._handle_data
        return packed(graph.structured_outputs, op.outputs)


class Function:
    """A Python function that builds functions of the graph when called.

    It builds one for each kind of arguments. Arguments that are tensors, NumPy arrays and reference
    variables become inputs, known by dtype and shape; any other value, resource variables among
    them, is the trace's own, and another value makes another trace. Operations with effects run in
    the order that they were written in, and all of them. Variables may be made at the first call
    only. Raises TypeError for arguments that do not fit.
    """

    def __init__(
        self,
        python_function: Callable[..., Any],
        name: str,
        input_signature: Sequence[Any] | None = None,
        reduce_retracing: bool = False,
    ) -> None:
        if not callable(python_function):
            raise TypeError(f"{python_function!r} is not a callable object")
        if input_signature is not None and not isinstance(input_signature, (tuple, list)):
            raise TypeError(
                f"input_signature must be either a tuple or a list, got {type(input_signature)}."
            )
        self._python_function = python_function
        self._name = name
        self._parameters = inspect.signature(python_function)
        self._input_signature = None if input_signature is None else tuple(input_signature)
        self._reduce_retracing = reduce_retracing
        self._bound: weakref.WeakKeyDictionary[Any, Function] = weakref.WeakKeyDictionary()
        self._traces = 0
        functools.update_wrapper(self, python_function, updated=())

    @property
    def python_function(self) -> Callable[..., object]:
        """The Python function."""
        return self._python_function

    @property
    def input_signature(self) -> tuple[object, ...] | None:
        """The specs that all calls have to fit, if there are any."""
        return self._input_signature

    def experimental_get_tracing_count(self) -> int:
        """Return the number of traces."""
        return self._traces

    def __get__(self, instance: object, owner: object) -> Function:
        if instance is None:
            return self
        found = self._bound.get(instance)
        if found is None:
            reference = weakref.ref(instance)

            @functools.wraps(self._python_function)
            def method(*args: object, **kwargs: object) -> Structure:
                return self._python_function(reference(), *args, **kwargs)

            method.__signature__ = inspect.signature(self._python_function.__get__(instance))  # type: ignore[attr-defined]
            del method.__wrapped__
            found = self._bound[instance] = Function(
                method, self._name, self._input_signature, self._reduce_retracing
            )
        return found

    def __call__(self, *args: object, **kwargs: object) -> Structure:
        concrete, tensors = self._concrete(args, kwargs)
        return concrete._call(tensors)

    def get_concrete_function(self, *args: object, **kwargs: object) -> ConcreteFunction:
        """Return the trace for these arguments.

        A TensorSpec represents any tensor that fits it.
        """
        if self._input_signature is not None and not args and not kwargs:
            args = self._input_signature
        return self._concrete(args, kwargs)[0]

    def _bind(
        self, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> inspect.BoundArguments:
        try:
            bound = self._parameters.bind(*args, **kwargs)
        except TypeError as error:
            raise self._unbound(str(error), args, kwargs) from None
        bound.apply_defaults()
        return bound

    def _unbound(self, why: str, args: object, kwargs: object) -> TypeError:
        parameters = []
        specs = list(self._input_signature or ())
        for parameter in self._parameters.parameters.values():
            if specs:
                parameter = parameter.replace(
                    annotation=specs.pop(0), default=inspect.Parameter.empty
                )
            else:
                has_default = parameter.default is not inspect.Parameter.empty
                default = _Default() if has_default else inspect.Parameter.empty
                parameter = parameter.replace(default=default, annotation=inspect.Parameter.empty)
            parameters.append(parameter)
        shown = self._parameters.replace(
            parameters=parameters, return_annotation=inspect.Signature.empty
        )
        return TypeError(
            f"Binding inputs to tf.function failed due to `{why}`. Received args: {args} and "
            f"kwargs: {kwargs} for signature: {shown}."
        )

    def _concrete(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[ConcreteFunction, list[Tensor]]:
        bound = self._bind(args, kwargs)
        specs: list[Any] = []
        if self._input_signature is not None:
            for name, spec in zip(list(bound.arguments), self._input_signature, strict=False):
                bound.arguments[name] = self._fitted(bound.arguments[name], spec, args, kwargs)
            specs = nest.flatten(list(self._input_signature))
        names = [name for name, value in bound.arguments.items() for _ in nest.flatten(value)]
        leaves = [
            _tensor_of(leaf) for value in bound.arguments.values() for leaf in nest.flatten(value)
        ]
        shapes: tuple[Any, ...] = tuple(
            _shape(leaf, specs[i] if i < len(specs) else None) for i, leaf in enumerate(leaves)
        )
        graph = get_default_graph()
        key = (
            str(nest.map_structure(lambda _: 0, list(bound.arguments.values()))),
            tuple(_key(leaf) for leaf in leaves),
        )
        known: dict[Any, ConcreteFunction] = graph._traced.setdefault(self, {}).setdefault(key, {})
        fitting = [
            wider
            for wider in known
            if all(_allows(a, b) for a, b in zip(wider, shapes, strict=True))
        ]
        if not fitting and self._reduce_retracing:
            for other in known:
                shapes = tuple(_relaxed(a, b) for a, b in zip(other, shapes, strict=True))
        # a trace with less precise shapes will do; the most precise one is chosen
        chosen = (
            max(fitting, key=lambda wider: sum(_knowledge(shape) for shape in wider))
            if fitting
            else shapes
        )
        concrete = known.get(chosen)
        if concrete is None:
            concrete = known[chosen] = self._trace(bound, names, leaves, chosen)
        return concrete, [_flow(leaf) for leaf in leaves if isinstance(leaf, (Tensor, TensorArray))]

    def _fitted(self, value: TensorLike, spec: object, args: object, kwargs: object) -> Structure:
        """Return an argument as its spec wants it.

        Values are tensors where the spec has TensorSpecs.
        """
        if nest.is_nested(spec):
            try:
                nest.assert_same_structure(spec, value)
            except (TypeError, ValueError) as error:
                raise self._unbound(str(error), args, kwargs) from None
            return nest.map_structure(
                lambda inner, part: self._fitted(part, inner, args, kwargs), spec, value
            )
        if not isinstance(spec, TensorSpec) or isinstance(value, TensorSpec):
            return value
        try:
            made = convert_to_tensor(value, dtype=None if isinstance(value, Tensor) else spec.dtype)
        except (TypeError, ValueError) as error:
            raise self._unbound(str(error), args, kwargs) from None
        if not spec.is_compatible_with(made):
            given = TensorSpec(made.shape, made.dtype.base_dtype, spec.name)
            raise self._unbound(f"Can not cast {given} to {spec}", args, kwargs)
        return made

    def _trace(
        self,
        bound: inspect.BoundArguments,
        names: list[str],
        leaves: list[Any],
        shapes: Sequence[Any],
    ) -> ConcreteFunction:
        first = not self._traces
        concrete, made = self._one_trace(bound, names, leaves, shapes)
        if made:
            if not first:
                raise ValueError(_ONE_VARIABLE)
            # the trace of every later call
            concrete, made = self._one_trace(bound, names, leaves, shapes)
            if made:
                raise ValueError(_ONE_VARIABLE)
        self._traces += 1
        return concrete

    def _one_trace(
        self,
        bound: inspect.BoundArguments,
        names: list[str],
        leaves: list[Any],
        shapes: Sequence[Any],
    ) -> tuple[ConcreteFunction, bool]:
        plain = _NOT_IN_NAMES.sub("_", self._name)
        body = FunctionGraph(
            unique_function_name(f"__inference_{plain}"),
            get_default_graph(),
            automatic_control=True,
        )
        inside: list[Any] = []
        for name, leaf, shape in zip(names, leaves, shapes, strict=True):
            if isinstance(leaf, (Tensor, TensorArray, TensorSpec)):
                dtype = leaf.flow.dtype if isinstance(leaf, TensorArray) else leaf.dtype.base_dtype
                value = body.add_input(dtype, shape, name)
                value._handle_data = leaf._handle_data if isinstance(leaf, Tensor) else None
                inside.append(from_flow(leaf, value))
            else:
                inside.append(leaf)
        arguments = inspect.BoundArguments(bound.signature, type(bound.arguments)())
        rest = iter(inside)
        for name, value in bound.arguments.items():
            arguments.arguments[name] = nest.map_structure(lambda _: next(rest), value)
        count = len(body.inputs)
        trace(body, self._python_function, arguments.args, arguments.kwargs)
        signature = [
            TensorSpec(value.shape, value.dtype, value.op.name) for value in body.inputs[:count]
        ]
        return ConcreteFunction(body, count, signature), body.makes_variables


_ONE_VARIABLE: Final = (
    "tf.function only supports singleton tf.Variables created on the first call. Make sure the "
    "tf.Variable is only created once or created "
    "outside tf.function. See https://www.tensorflow.org/guide/function#creating_tfvariables for "
    "more information."
)


class _Default:
    """The display form of a default value."""

    def __repr__(self) -> str:
        return "<captured_default_value>"


def _tensor_of(value: TensorLike) -> Structure:
    """Return arrays and reference variables as tensors, others unchanged."""
    if isinstance(value, (np.ndarray, np.generic)):
        return convert_to_tensor(value)
    # a reference variable
    if not isinstance(value, (Tensor, Operation)) and hasattr(value, "_ref"):
        return convert_to_tensor(value)
    return value


def _flow(value: Any) -> Tensor:
    found: Tensor = value.flow if isinstance(value, TensorArray) else value
    return found


def _key(value: TensorLike) -> Structure:
    """Return the part of an argument that decides on another trace.

    Of a tensor the dtype, of others the value.
    """
    if isinstance(value, (Tensor, TensorSpec)):
        return "tensor", value.dtype.base_dtype
    if isinstance(value, TensorArray):
        return (
            "array",
            id(value) if value.handle is not None else None,
            value.dtype,
            value.element_shape.dims_tuple,
            value.dynamic_size,
        )
    try:
        hash(value)
    except TypeError:
        return "object", id(value)
    return type(value), value


def _shape(value: TensorLike, spec: object) -> Any:
    if isinstance(spec, TensorSpec):
        return spec.shape.dims_tuple
    if isinstance(value, TensorArray):
        return value.flow.shape_tuple
    if isinstance(value, TensorSpec):
        return value.shape.dims_tuple
    return value.shape_tuple if isinstance(value, Tensor) else ()


def _allows(wider: Shape, shape: Shape) -> bool:
    if wider is None:
        return True
    return (
        shape is not None
        and len(wider) == len(shape)
        and all(a is None or a == b for a, b in zip(wider, shape, strict=True))
    )


def _knowledge(shape: Shape) -> int:
    return 0 if shape is None else 1 + sum(size is not None for size in shape)


def _relaxed(a: Shape, b: Shape) -> Shape:
    """Return the most precise shape that both shapes fit."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def function(
    func: Callable[..., object] | None = None,
    input_signature: Sequence[object] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: object = None,
    experimental_attributes: object = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
) -> Any:
    """Make a Python function a `Function`; without `func`, return a decorator.

    input_signature: a TensorSpec for each tensor argument; one trace serves all calls.
    reduce_retracing: where calls differ in shapes, one trace for the known sizes that these share.
    autograph: accepted, and without effect: there is no AutoGraph. The others have no effect
    either. Raises TypeError for a value that cannot be called.
    """
    relax = bool(reduce_retracing or experimental_relax_shapes)

    def decorated(inner: Callable[..., object]) -> Function:
        return Function(
            inner, getattr(inner, "__name__", type(inner).__name__), input_signature, relax
        )

    return decorated if func is None else decorated(func)

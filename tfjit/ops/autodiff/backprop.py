"""`gradients`: reverse-mode differentiation of a graph by adding operations to it."""

from __future__ import annotations

import enum
import functools
import importlib
import pkgutil
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph
from tfjit.framework.graphs.function_graph import FunctionGraph, building
from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs import gradient_registry
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape, is_compatible
from tfjit.ops import autodiff
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.backward_graphs import zeros_of
from tfjit.ops.autodiff.calls import symbolic_gradient
from tfjit.ops.autodiff.loop_gradients import (
    LoopGradient,
    LoopGradients,
    is_loop_switch,
    is_switch,
    outside,
    sizes_of,
    value_dtype,
    zeros,
)
from tfjit.ops.control_flow.bodies import handle_data
from tfjit.ops.control_flow.control_flow_contexts import CondContext, is_loop_exit
from tfjit.ops.core.convert import convert_to_tensor, register_tensor_conversion_function

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, Structure

Gradient = Any  # Tensor | IndexedSlices

_TRAINABLE: Final = frozenset(
    {
        dtypes.float16,
        dtypes.bfloat16,
        dtypes.float32,
        dtypes.float64,
        dtypes.complex64,
        dtypes.complex128,
        dtypes.resource,
        dtypes.variant,
    }
)


class UnconnectedGradients(enum.Enum):
    """The result of `gradients` for an x that no y depends on."""

    NONE = "none"
    ZERO = "zero"


class AggregationMethod:
    """The way of adding gradients. All methods use one AddN."""

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


def gradients(
    ys: object,
    xs: object,
    grad_ys: object = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: object = None,
    unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
) -> list[Gradient | None]:
    """Return the sum over all ys of dy/dx, for each x.

    A gradient is a tensor, `IndexedSlices` behind a gather, or None where no y depends on x.

    ys, xs: a tensor or variable, or a list of them. grad_ys: the gradient of each y (same shape;
    None: ones). colocate_gradients_with_ops: put new operations on the device of the operation they
    differentiate. gate_gradients: all gradients of an operation are ready before any is used.
    stop_gradients: tensors that count as constant. unconnected_gradients: ZERO gives zeros in place
    of None. Raises LookupError for an operation on the way that has no gradient, TypeError for
    dtypes that are not differentiable, ValueError for tensors of several graphs or a wrong number
    of grad_ys.
    """
    _load_rules()
    unconnected = UnconnectedGradients(unconnected_gradients)
    targets, sources = _tensors(ys), _tensors(xs)
    stops = _tensors(stop_gradients) if stop_gradients is not None else []
    starts = _list(grad_ys) if grad_ys is not None else [None] * len(targets)
    if len(starts) != len(targets):
        raise ValueError(
            f"Must specify a gradient for each y in ys: {len(targets)} ys, {len(starts)} grad_ys"
        )
    with _graph_of([*targets, *sources, *stops]), get_default_graph().name_scope(name):
        for i, y in enumerate(targets):
            starts[i] = _start(y, starts[i], i)
        found = backpropagate(
            targets, sources, starts, stops, colocate_gradients_with_ops, gate_gradients
        )
        if unconnected is UnconnectedGradients.ZERO:
            found = [
                raw.ZerosLike(x=_value(x)) if g is None else g
                for g, x in zip(found, sources, strict=True)
            ]
    del aggregation_method  # one AddN for any method
    return found


def backpropagate(
    ys: Sequence[Tensor],
    xs: Sequence[Tensor],
    grad_ys: Sequence[Gradient],
    stops: Sequence[Tensor] = (),
    colocate: bool = False,
    gate: bool = False,
) -> list[Gradient | None]:
    """Return the gradients of xs, built in the default graph.

    Where that is a function's body, ys and xs may be of graphs it takes tensors of.
    """
    backward = _BackwardPass(ys, xs, stops, colocate, gate)
    for y, gradient in zip(ys, grad_ys, strict=True):
        backward.add(y, gradient)
    backward.run(ys)
    return [backward.total(x) for x in xs]


def _graph_of(values: Sequence[Tensor]) -> Structure:
    """Return the graph that these values' gradients are built in.

    It is made the default. Raises ValueError where they are of graphs that do not meet.
    """
    graph = values[0].graph if values else get_default_graph()
    for value in values:
        if isinstance(value.graph, FunctionGraph) and value.graph.can_capture_from(graph):
            graph = value.graph
    other = next(
        (
            v
            for v in values
            if v.graph is not graph
            and not (isinstance(graph, FunctionGraph) and graph.can_capture_from(v.graph))
        ),
        None,
    )
    if other is not None:
        raise ValueError(f"{other.name} is not in the graph of the others")
    return building(graph)


def hessians(
    ys: Any,
    xs: object,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
) -> list[Tensor]:
    """Return the second derivatives of the sum of ys by each x.

    Their shape is [*x.shape, *x.shape]. Options as for `gradients`. An x of unknown size takes a
    loop. Raises ValueError where no y depends on an x.
    """
    from tfjit.ops.arrays.array import reshape, shape
    from tfjit.ops.arrays.movement_functions import concat, stack

    options: dict[str, Any] = {
        "colocate_gradients_with_ops": colocate_gradients_with_ops,
        "gate_gradients": gate_gradients,
        "aggregation_method": aggregation_method,
    }
    sources = _tensors(xs)
    found = []
    graph = sources[0].graph if sources else get_default_graph()
    with building(graph) as graph, graph.name_scope(name):
        for gradient, x in zip(gradients(ys, sources, **options), sources, strict=True):
            size = x.shape.num_elements()
            if gradient is None:
                raise ValueError(f"hessians: {x.name} has no gradient")
            flat = reshape(convert_to_tensor(gradient), [-1])
            if size is None:
                found.append(
                    reshape(_rows_of_hessian(flat, x, options), concat([shape(x), shape(x)], 0))
                )
                continue
            zero = [raw.ZerosLike(x=x)]
            rows = [(gradients(flat[i], x, **options)[0] if size else None) for i in range(size)]
            rows = [zero[0] if row is None else row for row in rows]
            found.append(reshape(stack(rows) if rows else zero[0], concat([shape(x), shape(x)], 0)))
    return found


def _rows_of_hessian(gradient: Tensor, x: Tensor, options: dict[str, Any]) -> Tensor:
    """Return the gradients of each element of a vector by x, stacked.

    A loop has an iteration for each element.
    """
    from tfjit.ops.control_flow.flow_tensor_array import TensorArray
    from tfjit.ops.control_flow.loops import while_loop

    count = raw.Size(input=gradient)

    def step(i: Tensor, rows: TensorArray) -> tuple[Tensor, TensorArray]:
        row = gradients(gradient[i], x, **options)[0]
        return i + 1, rows.write(i, raw.ZerosLike(x=x) if row is None else row)

    rows = TensorArray(x.dtype.base_dtype, count)
    _, rows = while_loop(lambda i, _: raw.Less(x=i, y=count), step, [convert_to_tensor(0), rows])
    return rows.stack()


def custom_gradient(f: Callable[..., Structure] | None = None) -> Callable[..., Structure]:
    """Decorate a function that has its own gradient.

    `f(*tensors)` returns `(outputs, gradient)`, and `gradients` uses `gradient(*output_gradients)`
    instead of differentiating the operations of `f`. outputs: a tensor or list; the gradient
    function returns one gradient for each input. `custom_gradient()` is the decorator, too.
    """
    if f is None:
        return custom_gradient

    def apply(*args: Any, **kwargs: Any) -> Structure:
        inputs = [convert_to_tensor(arg) for arg in args]
        outputs, gradient = f(*inputs, **kwargs)
        flat = [convert_to_tensor(output) for output in _list(outputs)]
        graph = get_default_graph()
        op_type = f"CustomGradient-{graph.unique_name('custom')}-{id(gradient)}"

        def rule(op: Operation, *grads: Any) -> list[Any]:
            returned = _list(gradient(*grads[: len(flat)]))
            if len(returned) != len(inputs):
                raise ValueError(
                    f"custom gradient function expected to return {len(inputs)} gradients, but "
                    f"returned {len(returned)} instead"
                )
            return [None] * len(flat) + returned

        gradient_registry.register(op_type, rule)
        with graph.gradient_override_map({"IdentityN": op_type}):
            joined = raw.IdentityN(input=[*flat, *inputs])
        results = joined[: len(flat)]
        return list(results) if isinstance(outputs, (list, tuple)) else results[0]

    apply.__name__ = getattr(f, "__name__", "custom_gradient")
    apply.__doc__ = f.__doc__
    return apply


def grad_pass_through(f: Callable[..., Structure]) -> Callable[..., Structure]:
    """Return a function with the gradient of the identity.

    The gradients of the outputs become those of the inputs; variables inside have none.
    """

    @custom_gradient
    def passed(*args: Any, **kwargs: Any) -> Structure:
        return f(*args, **kwargs), lambda *grads: list(grads)

    return functools.wraps(f)(passed)


def is_trainable(tensor: Tensor) -> bool:
    """Return whether gradients flow through a tensor of this dtype."""
    return tensor.dtype.base_dtype in _TRAINABLE


class _BackwardPass:
    """One walk from the ys back to the xs.

    It keeps the gradients that have arrived at each tensor, and the number still to come at each
    operation.
    """

    def __init__(
        self,
        ys: Sequence[Tensor],
        xs: Sequence[Tensor],
        stops: Sequence[Tensor],
        colocate: bool,
        gate: bool,
    ) -> None:
        self._bodies = _bodies_around(ys)
        self._xs = {id(x) for x in xs}
        self._colocate = colocate
        self._gate = gate
        self._stopped = {tensor.op for tensor in stops}  # no gradient flows through these
        self._arrived: dict[tuple[Operation, int], list[Gradient]] = {}
        self._totals: dict[tuple[Operation, int], Gradient | None] = {}
        self._reached = self._find_reached(xs, {id(tensor) for tensor in stops})

    def _inputs(self, op: Operation) -> Sequence[Tensor]:
        """Return the inputs of an operation, outer tensors among them.

        An input that represents an outer tensor in a body is given as that tensor, unless it is one
        of the xs.
        """
        if not self._bodies:
            return op.inputs
        return [value if id(value) in self._xs else self._outside(value) for value in op.inputs]

    def _outside(self, value: Tensor) -> Tensor:
        while isinstance(value.op.graph, FunctionGraph) and value.op.graph in self._bodies:
            found = value.op.graph.outer_of(value)
            if found is None:
                break
            value = found
        return value

    def _consumers(self, value: Tensor) -> list[Operation]:
        """Return the consumers of a tensor, those in capturing bodies too."""
        found = value.consumers()
        for body in self._bodies:
            inside = body.captured(value)
            if inside is not None and id(inside) not in self._xs:
                found += self._consumers(inside)
        return found

    def _find_reached(self, xs: Sequence[Tensor], stops: set[int]) -> set[Operation]:
        """Return the operations that depend on an x.

        Only paths of tensors count that are not stopped.
        """
        found: set[Operation] = set()
        stack = [x.op for x in xs]
        found.update(stack)
        for output in (output for op in stack for output in op.outputs):
            if (id(output) in stops and id(output) not in self._xs) or not is_trainable(output):
                continue
            for consumer in self._consumers(output):
                if consumer not in found:
                    found.add(consumer)
                    stack.append(consumer)
        return found

    def add(self, tensor: Tensor, gradient: Gradient) -> None:
        """Add a gradient that arrives at a tensor."""
        self._arrived.setdefault((tensor.op, tensor.value_index), []).append(gradient)

    def total(self, tensor: Tensor) -> Gradient | None:
        """Return all gradients of a tensor together, None when there are none."""
        key = (tensor.op, tensor.value_index)
        if key not in self._totals:
            arrived = self._arrived.get(key, [])
            self._totals[key] = _sum(arrived, tensor)
        return self._totals[key]

    def run(self, ys: Sequence[Tensor]) -> None:
        pending = self._between(ys)
        ends = list(dict.fromkeys(y.op for y in ys))
        self._loops = loops = LoopGradients(
            pending, get_default_graph()._get_control_flow_context()
        )
        ready = deque(op for op in ends if pending.get(op) == 0)
        for state, left in loops.begin(pending, ends):
            self._leave_unused(state, left, ready)
        while ready:
            op = ready.popleft()
            inputs = self._inputs(op)
            for tensor, gradient in zip(inputs, self._of(op, inputs), strict=True):
                if gradient is not None and tensor.op in self._reached:
                    self.add(tensor, gradient)
            for tensor in inputs:
                source = tensor.op
                if source in pending:
                    pending[source] -= 1
                    # a loop variable's Switch comes twice: from the Exit, and from the body
                    if pending[source] == 0 or (pending[source] > 0 and is_loop_switch(source)):
                        if is_loop_exit(source):
                            self._defer_exit(tensor, ready)
                        else:
                            ready.append(source)
        loops.finish()

    def _defer_exit(self, tensor: Tensor, ready: deque[Operation]) -> None:
        """Begin the gradient of a loop once all its Exits have theirs.

        Unused Exits get zeros.
        """
        state = self._loops.of(tensor.op)
        assert state is not None
        state.deferred_exits.append(tensor)
        state.pending_exits -= 1
        if state.pending_exits > 0:
            return
        used = [left for left in state.deferred_exits if self._arrived.get((left.op, 0))]
        unused = [left for left in state.deferred_exits if left not in used] + state.unused_exits
        ready.extend(left.op for left in used)
        for left in unused:
            if used:
                self._leave_unused(state, left, ready)
            else:
                ready.append(left.op)

    def _leave_unused(self, state: LoopGradient, left: Tensor, ready: deque[Operation]) -> None:
        if is_trainable(left) and left.dtype not in (dtypes.resource, dtypes.variant):
            self.add(left, state.zeros_for_exit(left))
            ready.append(left.op)

    def _between(self, ys: Sequence[Tensor]) -> dict[Operation, int]:
        """Return operations between xs and ys -> number of pending uses.

        Uses of their outputs count that lie between, too.
        """
        pending = dict.fromkeys((y.op for y in ys if y.op in self._reached), 0)
        stack = list(pending)
        while stack:
            for tensor in self._inputs(stack.pop()):
                op = tensor.op
                if op not in self._reached:
                    continue
                if op not in pending:
                    pending[op] = 0
                    stack.append(op)
                pending[op] += 1
        return pending

    def _of(self, op: Operation, inputs: Sequence[Tensor]) -> list[Gradient | None]:
        """Return the gradients of an operation's inputs.

        inputs: as `_inputs` gives them.
        """
        loops = self._loops
        state = loops.of(op)
        with outside(loops.place(loops.of(op, before=True))):
            if state is not None and op in state.merges:
                # the gradients from the body had not come the first time
                self._totals.pop((op, 1), None)
                incoming = [None, self.total(op.outputs[1])]
            else:
                incoming = [self.total(output) for output in op.outputs]
        none: list[Gradient | None] = [None] * len(op.inputs)
        if not op.inputs or op in self._stopped or all(gradient is None for gradient in incoming):
            return none
        needed = [tensor.op in self._reached and is_trainable(tensor) for tensor in inputs]
        if not any(needed):
            return none
        rule = _rule(op)
        if rule is None:
            return none
        graph = get_default_graph()
        place = graph.colocate_with(op) if self._colocate else nullcontext()
        scope = graph.name_scope(
            op.name.replace("/", "_") + "_grad" if op.name.startswith("_") else op.name + "_grad"
        )
        with scope, place, outside(loops.place(state)):
            if gradient_registry.accepts_needed(rule):
                results = list(rule(op, needed, *incoming))
            else:
                results = self._apply(rule, op, incoming, state)
            if self._gate and sum(result is not None for result in results) > 1:
                results = all_ready(results)
        for gradient, tensor in zip(results, inputs, strict=True):
            if isinstance(gradient, Tensor) and tensor.dtype is dtypes.resource:
                data = handle_data(tensor)
                if data is not None and is_compatible(gradient.shape_tuple, data[0][0]):
                    gradient.set_shape(TensorShape(data[0][0]))
            elif isinstance(gradient, Tensor):
                if not is_compatible(gradient.shape_tuple, tensor.shape_tuple):
                    raise ValueError(
                        "Incompatible shapes between op input and calculated input gradient.  "
                        "Forward operation: "
                        f"{op.name}.  Input: {tensor.name} {tensor.shape}.  Calculated gradient: "
                        f"{gradient.shape}"
                    )
                gradient.set_shape(tensor.shape)
        return results

    @staticmethod
    def _apply(
        rule: Any, op: Operation, incoming: Sequence[Gradient | None], state: LoopGradient | None
    ) -> list[Gradient | None]:
        filled = [
            _zeros(output, state)
            if gradient is None and is_trainable(output) and _has_zeros(output)
            else gradient
            for gradient, output in zip(incoming, op.outputs, strict=True)
        ]
        returned = rule(op, *filled)
        results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        if len(results) != len(op.inputs):
            raise ValueError(
                f"Num gradients {len(results)} generated for op {op.node_def} do not match num "
                f"inputs {len(op.inputs)}"
            )
        return [
            None if tensor.dtype.base_dtype not in _TRAINABLE else g
            for g, tensor in zip(results, op.inputs, strict=True)
        ]


def _has_zeros(output: Tensor) -> bool:
    """Return whether zeros fill in for a missing gradient.

    Of handles, only those in a branch: the other branch's gradient needs them.
    """
    if output.dtype is not dtypes.resource:
        return True
    in_branch = isinstance(output.op._get_control_flow_context(), CondContext)
    return is_switch(output.op) and in_branch and handle_data(output) is not None


def _zeros(output: Tensor, state: LoopGradient | None) -> Tensor | None:
    """Return the gradient of an output without incoming gradients."""
    op = output.op
    if state is not None:
        return state.zeros_like(op, output.value_index)
    context = op._get_control_flow_context()
    if get_default_graph().building_function:
        return zeros_of(output)
    if not is_switch(op) or not isinstance(context, CondContext):
        made: Tensor = raw.ZerosLike(x=output)
        return made
    # zeros that are alive when the branch is not taken
    other = raw.Switch(data=op.inputs[0], pred=context.pred)[1 - context.branch]
    with control_dependencies([raw.Identity(input=other)]):
        return zeros(sizes_of(other), value_dtype(output))


def _bodies_around(ys: Sequence[Tensor]) -> list[FunctionGraph]:
    """Return the bodies that ys are in, innermost first.

    The walk goes through the tensors that they capture.
    """
    found: list[FunctionGraph] = []
    for y in ys:
        graph: Any = y.graph
        while isinstance(graph, FunctionGraph):
            if graph not in found:
                found.append(graph)
            graph = graph.outer_graph
    return found


def _rule(op: Operation) -> gradient_registry.GradientFn | None:
    """Return the gradient function of an operation; None when it passes none."""
    override = op.attrs.get("_gradient_op_type")
    op_type = override.decode() if isinstance(override, bytes) else op.type
    try:
        return gradient_registry.lookup(op_type)
    except LookupError:
        if op.type in op.graph.functions:
            return symbolic_gradient
        raise LookupError(
            f"No gradient defined for operation '{op.name}' (op type: {op_type}). Give the op type "
            "one by "
            f"tfjit.RegisterGradient({op_type!r}), or say that it has none by "
            f"tfjit.NotDifferentiable({op_type!r})."
        ) from None


def _start(y: Tensor, gradient: object, index: int) -> Gradient:
    """Return the gradient that a y begins with.

    Raises TypeError where it does not fit y's dtype.
    """
    dtype = y.dtype.base_dtype
    if gradient is not None and dtype in (dtypes.resource, dtypes.variant):
        return gradient
    if gradient is None:
        if dtype in (dtypes.complex64, dtypes.complex128):
            raise TypeError(
                f"Gradients of complex tensors ({y.name}) must set grad_ys (y.dtype = {dtype.name})"
            )
        if dtype not in _TRAINABLE:
            raise TypeError(f"gradients: {y.name} is {dtype.name}, which is not differentiable")
        return raw.Fill(
            dims=raw.Shape(input=y),
            value=convert_to_tensor(1, dtype=dtype),
            name=f"grad_ys_{index}",
        )
    if isinstance(gradient, IndexedSlices):
        return gradient
    given = convert_to_tensor(gradient, dtype=dtype, name=f"grad_ys_{index}")
    return given


def _sum(arrived: Sequence[Gradient], tensor: Tensor) -> Gradient | None:
    """Add the gradients that meet at a tensor."""
    if not arrived:
        return None
    if len(arrived) == 1:
        return arrived[0]
    if all(isinstance(gradient, IndexedSlices) for gradient in arrived):
        from tfjit.ops.arrays.movement_functions import concat

        with tensor.graph.name_scope(f"{tensor.op.name}_grad_sum"):
            dtype = (
                dtypes.int64
                if any(g.indices.dtype is dtypes.int64 for g in arrived)
                else dtypes.int32
            )
            indices = [
                g.indices if g.indices.dtype is dtype else raw.Cast(x=g.indices, DstT=dtype)
                for g in arrived
            ]
            return IndexedSlices(
                concat([g.values for g in arrived], 0), concat(indices, 0), arrived[0].dense_shape
            )
    return raw.AddN(inputs=[convert_to_tensor(gradient) for gradient in arrived])


def all_ready(gradients: Sequence[Gradient | None]) -> list[Gradient | None]:
    """Return the same gradients, none of which is ready before all are."""
    from tfjit.ops.control_flow.control_flow import tuple as grouped

    parts = [
        part
        for g in gradients
        for part in ((g.values, g.indices) if isinstance(g, IndexedSlices) else (g,))
        if part is not None
    ]
    ready = iter(grouped(parts) if parts else [])
    made: list[Gradient | None] = []
    for g in gradients:
        if isinstance(g, IndexedSlices):
            values = next(ready)
            made.append(IndexedSlices(values, next(ready), g.dense_shape))
        else:
            made.append(None if g is None else next(ready))
    return made


def _tensors(values: Structure) -> list[Tensor]:
    """Return values as tensors: of a variable its handle or reference."""
    found = []
    for value in _list(values):
        handle = getattr(value, "handle", None)
        if isinstance(handle, Tensor):
            found.append(handle)
        elif isinstance(value, IndexedSlices):
            found.append(value.values)
        else:
            found.append(convert_to_tensor(value, as_ref=True))
    return found


def _value(x: Tensor) -> Tensor:
    """Return a tensor's value; of a handle, its variable's value."""
    if x.dtype is not dtypes.resource:
        return x
    data = handle_data(x)
    if data is None:
        raise ValueError(f"gradients: nothing is known of the variable that {x.name} refers to")
    return raw.ReadVariableOp(resource=x, dtype=data[0][1])


def _list(values: Structure) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _load_rules() -> None:
    """Import each module of the rooms; op families register their rules."""
    for found in pkgutil.iter_modules(autodiff.__path__):
        package = importlib.import_module(f"{autodiff.__name__}.{found.name}")
        for module in pkgutil.iter_modules(getattr(package, "__path__", ())):
            importlib.import_module(f"{package.__name__}.{module.name}")


def _dense(
    value: IndexedSlices,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    as_ref: bool = False,
) -> Any:
    """Return IndexedSlices as a tensor.

    Rows of the same index are added, other rows are zeros.
    """
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
        raise ValueError(
            f"Tensor conversion requested dtype {dtypes.as_dtype(dtype).name} for IndexedSlices "
            f"with dtype {value.dtype.name}"
        )
    if value.dense_shape is None:
        raise ValueError(
            f"Tensor conversion requested for IndexedSlices without dense_shape: {value}"
        )
    rows = value.dense_shape[0]
    return raw.UnsortedSegmentSum(
        data=value.values, segment_ids=value.indices, num_segments=rows, name=name
    )


register_tensor_conversion_function(IndexedSlices, _dense)

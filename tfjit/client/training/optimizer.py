"""`Optimizer`: gradients of a loss, applied to variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tfjit.client.training.slots import (
    create_slot,
    create_slot_with_initializer,
    create_zeros_slot,
)
from tfjit.client.variables.assignments import assign_add
from tfjit.client.variables.get_variable import get_variable
from tfjit.client.variables.resource_variables import ResourceVariable
from tfjit.client.variables.variable_collections import trainable_variables
from tfjit.client.variables.variable_scope import VariableScope, variable_scope
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import (
    colocate_with,
    control_dependencies,
    get_default_graph,
    name_scope,
)
from tfjit.framework.graphs.function_graph import init_scope
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes, nest
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.backprop import gradients
from tfjit.ops.autodiff.gradient_values import all_ready
from tfjit.ops.control_flow.control_flow import group
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.typing import GradientLike, InitializerLike
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import TensorShape

_FLOATS: Final = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)


def _flat(variables: object) -> list[object]:
    """Return the variables of a nested structure or another iterable.

    Such an iterable is a view of a dictionary or a generator, say.
    """
    if (
        isinstance(variables, Iterable)
        and not nest.is_nested(variables)
        and not hasattr(variables, "op")
    ):
        variables = list(variables)
    return nest.flatten(variables)


class Optimizer:
    """Base of all optimizers.

    A subclass overrides `_create_slots`, `_prepare`, `_finish` and the four `_apply` methods it
    needs.

    use_locking: updates of reference variables hold their lock. name: of the operations, and of the
    slots' scope. use_own_namescope_for_non_slot_vars: the optimizer's own variables stand in a
    variable scope of its name. Gradients for the same variable from many places are added first;
    those of a gather (`IndexedSlices`) update only their rows.
    """

    GATE_NONE: ClassVar[int] = 0
    GATE_OP: ClassVar[int] = 1
    GATE_GRAPH: ClassVar[int] = 2

    def __init__(
        self, use_locking: bool, name: str, use_own_namescope_for_non_slot_vars: bool = False
    ) -> None:
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._non_slot_scope: VariableScope | None = None
        if use_own_namescope_for_non_slot_vars:
            with variable_scope(None, default_name=name) as scope:
                self._non_slot_scope = scope
        self._use_locking = use_locking
        self._name = name
        self._slots: dict[str, dict[tuple[Any, str], Variable]] = {}
        self._non_slots: dict[tuple[str, Any], Variable] = {}

    def get_name(self) -> str:
        """Return the optimizer's name."""
        return self._name

    # methods that a program calls

    def minimize(
        self,
        loss: object,
        global_step: Variable | None = None,
        var_list: Iterable[Variable] | Variable | None = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: object = None,
    ) -> Operation:
        """Return an operation that updates variables to reduce the loss.

        It is `compute_gradients`, then `apply_gradients`. Raises ValueError when no variable has a
        gradient, and the errors of those two.
        """
        pairs = self.compute_gradients(
            loss,
            var_list,
            gate_gradients,
            aggregation_method,
            colocate_gradients_with_ops,
            grad_loss,
        )
        if not any(gradient is not None for gradient, _ in pairs):
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not "
                "support gradients, between variables "
                f"{[str(v) for _, v in pairs]} and loss {loss}."
            )
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(
        self,
        loss: object,
        var_list: Iterable[Variable] | Variable | None = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[GradientLike, Variable]]:
        """Return (gradient, variable) pairs.

        A gradient is a tensor, `IndexedSlices`, or None.

        loss: a tensor of floats, or a function that makes it. var_list: a variable, an iterable of
        variables, or nested lists and dictionaries; by default the graph's trainable ones. Raises
        ValueError without variables, for a loss of another dtype and for an unknown gate_gradients.
        """
        if callable(loss):
            loss = loss()
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError(
                "gate_gradients must be one of: Optimizer.GATE_NONE, Optimizer.GATE_OP, "
                f"Optimizer.GATE_GRAPH. Not {gate_gradients}"
            )
        loss = convert_to_tensor(loss)
        self._check_dtypes([loss] if grad_loss is None else [loss, convert_to_tensor(grad_loss)])
        variables = trainable_variables() if var_list is None else _flat(var_list)
        if not variables:
            raise ValueError("No variables to optimize.")
        found = gradients(
            loss,
            variables,
            grad_ys=grad_loss,
            gate_gradients=gate_gradients == self.GATE_OP,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )
        if gate_gradients == self.GATE_GRAPH:
            found = all_ready(found)
        return list(zip(found, variables, strict=True))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Return an operation that applies the gradients.

        It then adds 1 to global_step. Raises ValueError without pairs or without any gradient,
        TypeError for a gradient that is no tensor.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("No variables provided.")
        for gradient, variable in pairs:
            if gradient is not None and not isinstance(gradient, (Tensor, IndexedSlices)):
                raise TypeError(
                    f"Gradient must be a Tensor, IndexedSlices, or None: {gradient} (for "
                    f"{variable.name})"
                )
        variables = [variable for gradient, variable in pairs if gradient is not None]
        if not variables:
            raise ValueError(
                f"No gradients provided for any variable: {[str(v) for _, v in pairs]}."
            )
        self._check_dtypes([gradient for gradient, _ in pairs if gradient is not None])
        graph = get_default_graph()
        with init_scope():  # slots are made once, without the control inputs here
            self._create_slots(variables)
        with name_scope(name or self._name) as scope:
            self._prepare()
            updates = []
            for gradient, variable in pairs:
                if gradient is None:
                    continue
                with name_scope("update_" + variable.op.name), colocate_with(variable.op):
                    updates.append(self._update(gradient, variable))
            if global_step is None:
                train = self._finish(updates, scope.rstrip("/"))
            else:
                done = self._finish(updates, "update")
                with control_dependencies([done]), colocate_with(global_step.op):
                    step = convert_to_tensor(1, dtype=global_step.dtype.base_dtype, name="value")
                    if isinstance(global_step, ResourceVariable):
                        train = raw.AssignAddVariableOp(
                            resource=global_step.handle, value=step, name=scope
                        )
                    else:
                        train = assign_add(global_step, step, name=scope).op
        collection = graph.get_collection_ref(GraphKeys.TRAIN_OP)
        if train not in collection:
            collection.append(train)
        return train

    # slots

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Return the slot of that name of a variable, or None."""
        return self._slots.get(name, {}).get(_key(var))

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots, sorted."""
        return sorted(self._slots)

    def variables(self) -> list[Variable]:
        """Return the optimizer's variables in the default graph, by name."""
        graph = get_default_graph()
        slots = [variable for named in self._slots.values() for variable in named.values()]
        return sorted(
            (v for v in [*slots, *self._non_slots.values()] if v.graph is graph),
            key=lambda v: v.name,
        )

    def _zeros_slot(self, var: Variable, slot_name: str, op_name: str) -> Variable:
        """Return the slot, made of zeros if missing.

        op_name: the last part of its name.
        """
        return self._kept_slot(var, slot_name, lambda: create_zeros_slot(var, op_name, True))

    def _get_or_make_slot(
        self, var: Variable, val: Tensor, slot_name: str, op_name: str
    ) -> Variable:
        """Return the slot, made with the value `val` if missing."""
        return self._kept_slot(var, slot_name, lambda: create_slot(var, val, op_name, True))

    def _get_or_make_slot_with_initializer(
        self,
        var: Variable,
        initializer: InitializerLike,
        shape: TensorShape,
        dtype: DType,
        slot_name: str,
        op_name: str,
    ) -> Variable:
        """Return the slot, made by the initializer if missing."""
        return self._kept_slot(
            var,
            slot_name,
            lambda: create_slot_with_initializer(var, initializer, shape, dtype, op_name, True),
        )

    def _kept_slot(self, var: Variable, slot_name: str, make: Callable[[], Variable]) -> Variable:
        named = self._slots.setdefault(slot_name, {})
        found = named.get(_key(var))
        if found is None:
            found = named[_key(var)] = make()
        return found

    def _create_non_slot_variable(
        self, initial_value: float, name: str, colocate_with: Variable
    ) -> Variable:
        """Return a variable of the optimizer's own, one a graph."""
        key = (name, colocate_with.graph)
        found = self._non_slots.get(key)
        if found is None:
            resource = isinstance(colocate_with, ResourceVariable)
            with colocate_with.graph.colocate_with(colocate_with.op):
                if self._non_slot_scope is None:
                    found = Variable(
                        initial_value, name=name, trainable=False, use_resource=resource
                    )
                else:
                    with name_scope(None), variable_scope(self._non_slot_scope):
                        found = get_variable(
                            name, initializer=initial_value, trainable=False, use_resource=resource
                        )
            self._non_slots[key] = found
        return found

    def _get_non_slot_variable(self, name: str, graph: Graph | None = None) -> Variable:
        return self._non_slots[name, graph or get_default_graph()]

    # methods that a subclass overrides

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        """Make the slots that the variables need."""

    def _prepare(self) -> None:
        """Make the tensors that all updates share, such as the learning rate."""

    def _finish(self, update_ops: Sequence[object], name_scope: str) -> Operation:
        """Run after the updates; return the operation for all of them."""
        return group(
            *update_ops, name=name_scope + "/" if not name_scope.endswith("update") else name_scope
        )

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor | Operation:
        raise NotImplementedError(
            f"{type(self).__name__} does not update reference variables by tensors ({var.name})"
        )

    def _resource_apply_dense(self, grad: Tensor, handle: Variable) -> Tensor | Operation:
        raise NotImplementedError(
            f"{type(self).__name__} does not update resource variables by tensors ({handle.name})"
        )

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Tensor | Operation:
        raise NotImplementedError(
            f"{type(self).__name__} does not update rows of reference variables ({var.name})"
        )

    def _resource_apply_sparse(
        self, grad: Tensor, handle: Variable, indices: Tensor
    ) -> Tensor | Operation:
        raise NotImplementedError(
            f"{type(self).__name__} does not update rows of resource variables ({handle.name})"
        )

    # the rest

    def _update(self, gradient: Any, variable: Variable) -> Any:
        if isinstance(gradient, IndexedSlices):
            unique = _without_repeats(gradient)
            if isinstance(variable, ResourceVariable):
                update = self._resource_apply_sparse(unique.values, variable, unique.indices)
            else:
                update = self._apply_sparse(unique, variable)
        elif isinstance(variable, ResourceVariable):
            update = self._resource_apply_dense(gradient, variable)
        else:
            update = self._apply_dense(gradient, variable)
        constraint = variable.constraint
        if constraint is None:
            return update
        with control_dependencies([update]):
            # client.assignments adds the method
            return variable.assign(constraint(variable))  # type: ignore[attr-defined]

    def _check_dtypes(self, tensors: Iterable[Any]) -> None:
        for tensor in tensors:
            if tensor.dtype.base_dtype not in _FLOATS:
                raise ValueError(
                    f"Invalid type {tensor.dtype.base_dtype!r} for {tensor.name}, expected: "
                    f"{[dtype.name for dtype in _FLOATS]}."
                )


def _key(variable: Variable) -> tuple[object, str]:
    return variable.graph, variable.op.name


def _without_repeats(gradient: IndexedSlices) -> IndexedSlices:
    """Return the same with each row once: repeated ones are added."""
    unique, positions = raw.Unique(x=gradient.indices)
    number = raw.Shape(input=unique)[0]
    values = raw.UnsortedSegmentSum(
        data=gradient.values, segment_ids=positions, num_segments=number
    )
    return IndexedSlices(values, unique, gradient.dense_shape)

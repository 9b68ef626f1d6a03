"""The base of layers: variables in a scope, calls, losses, updates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from tfjit.client.network.call_records import CallRecords
from tfjit.client.network.connected import Connected
from tfjit.client.network.experimental import uses_keras_style
from tfjit.client.network.input_spec import InputSpec, check_inputs
from tfjit.client.session.default_session import get_default_session
from tfjit.client.variables.partitioned_variable import PartitionedVariable
from tfjit.client.variables.synchronization import VariableAggregation, VariableSynchronization
from tfjit.client.variables.variable_scope import (
    VariableScope,
    get_variable_scope,
    variable_scope,
)
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import get_default_graph, graph_of, name_scope
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes, nest
from tfjit.framework.types.dtypes import as_dtype
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.typing import (
        ConstraintLike,
        DTypeLike,
        InitializerLike,
        PartitionerLike,
        RegularizerLike,
        ShapeLike,
        Structure,
    )

# Collections with a name that is no string are not exported with the graph.
_NAMES = ("__layer_names",)
# Arguments of the constructor that TensorFlow takes for models of Keras; they change no layer.
_OF_MODELS = {"input_shape", "batch_input_shape", "batch_size", "input_dim", "autocast"}


def _unique_name(base: str) -> str:
    """Return the base with the graph's next number for it: "dense_1"."""
    held = get_default_graph().get_collection_ref(_NAMES)
    if not held:
        held.append({})
    held[0][base] = held[0].get(base, 0) + 1
    return f"{base}_{held[0][base]}"


def snake_case(name: str) -> str:
    """Return a class's name as layers spell it: "conv2d"."""
    joined = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    spelled = re.sub(r"([a-z])([A-Z])", r"\1_\2", joined).lower()
    return f"private{spelled}" if spelled.startswith("_") else spelled


class Layer(Connected):
    """Base of layers; a subclass has `build(input_shape)` and `call(inputs)`.

    The first call makes the variables, by `add_weight`, in a variable scope with the layer's name;
    each further call uses them. trainable: whether TRAINABLE_VARIABLES gets them. dtype: of the
    variables; that of the first input by default. Raises TypeError for an unknown argument.
    """

    def __init__(
        self,
        trainable: bool = True,
        name: str | VariableScope | None = None,
        dtype: DTypeLike | None = None,
        **kwargs: Structure,
    ) -> None:
        scope, self._reuse = kwargs.pop("_scope", None), kwargs.pop("_reuse", None)
        self.activity_regularizer = kwargs.pop("activity_regularizer", None)
        for unknown in kwargs:
            if unknown not in _OF_MODELS:
                raise TypeError("Keyword argument not understood:", unknown)
        self.trainable = trainable
        self.built = False
        self.input_spec: InputSpec | Sequence[InputSpec] | None = None
        base = snake_case(type(self).__name__)
        self._name = name if isinstance(name, str) and name else _unique_name(base)
        given = name.name if isinstance(name, VariableScope) else name
        self._keras_style = uses_keras_style()
        self._base_name = self._name if self._keras_style else given or base
        self._dtype = None if dtype is None else as_dtype(dtype)
        self._graph = get_default_graph()
        self._scope: VariableScope | None = None
        self._trainable_weights: list[Variable] = []
        self._non_trainable_weights: list[Variable] = []
        self._records = CallRecords(self._name)
        self._regularization_losses: list[Tensor] = []
        if scope is not None:
            self._refuse_scope(scope)
            with variable_scope(scope, reuse=self._reuse) as entered:
                self._scope = entered

    def _refuse_scope(self, scope: object) -> None:
        if self._keras_style:
            raise ValueError(
                "scope argument not allowed when keras style layers are enabled, but saw: "
                f"{getattr(scope, 'name', scope)}"
            )

    @property
    def name(self) -> str:
        """Name of the layer; its scope may have another number."""
        return self._name

    @property
    def dtype(self) -> str | None:
        """Name of the variables' dtype.

        None before the first call, where it was not told.
        """
        return None if self._dtype is None else self._dtype.name

    @property
    def graph(self) -> Graph:
        """The graph of the last call, or of the constructor."""
        return self._graph

    @property
    def scope_name(self) -> str:
        """Name of the variables' scope. Raises ValueError before the first call."""
        if self._scope is None:
            raise ValueError(
                f'No name available for layer scope because the layer "{self._name}" has not been '
                "used yet. The scope name  is determined the first time the layer instance is "
                "called. You must therefore call the layer before querying `scope_name`."
            )
        return self._scope.name

    @property
    def trainable_weights(self) -> list[Variable]:
        """Variables that optimizers update; none of a layer with `trainable` False."""
        return list(self._trainable_weights) if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Variable]:
        """The other variables of the layer."""
        if self.trainable:
            return list(self._non_trainable_weights)
        return self.weights

    @property
    def weights(self) -> list[Variable]:
        """All variables that `add_weight` made, trainable ones first."""
        return [*self._trainable_weights, *self._non_trainable_weights]

    @property
    def variables(self) -> list[Variable]:
        """As `weights`."""
        return self.weights

    @property
    def trainable_variables(self) -> list[Variable]:
        """As `trainable_weights`."""
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list[Variable]:
        """As `non_trainable_weights`."""
        return self.non_trainable_weights

    def count_params(self) -> int:
        """Return the number of elements of the variables. Raises ValueError before `build`."""
        if not self.built:
            raise ValueError(
                f"You tried to call `count_params` on {self._name}, but the layer isn't built. You "
                f"can build it manually via: `{self._name}.build(batch_input_shape)`."
            )
        return sum(weight.shape.num_elements() or 0 for weight in self.weights)

    def get_weights(self) -> list[np.ndarray]:
        """Return the variables' values in the default session.

        They are in the order of `weights`.
        """
        return _session().run(self.weights)

    def set_weights(self, weights: Sequence[np.ndarray]) -> None:
        """Set the variables in the default session. Raises ValueError for another number."""
        if len(weights) != len(self.weights):
            raise ValueError(
                f'You called `set_weights(weights)` on layer "{self._name}" with a weight list of '
                f"length {len(weights)}, but the layer was expecting {len(self.weights)} weights."
            )
        for variable, value in zip(self.weights, weights):
            variable.load(value, _session())

    def build(self, input_shape: Structure) -> None:
        """Make the variables. input_shape: TensorShape, or a structure of such."""
        self.built = True

    def call(self, *inputs: Structure, **kwargs: Structure) -> Structure:
        """Compute the outputs from `inputs` and further arguments.

        Without an override, the outputs are the inputs.
        """
        return inputs[0]

    def compute_output_shape(self, input_shape: Structure) -> Structure:
        """Return the shape of the output for that of the input.

        Raises NotImplementedError where a subclass does not know it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no `compute_output_shape`")

    def apply(self, inputs: Structure, *args: Structure, **kwargs: Structure) -> Structure:
        """Call the layer."""
        return self(inputs, *args, **kwargs)

    def __call__(self, inputs: Structure, *args: Structure, **kwargs: Structure) -> Structure:
        """Return the outputs of `call`, after `build` in the first call.

        scope: a keyword, of the variables in the first call. Raises ValueError for inputs that
        `input_spec` does not fit.
        """
        scope = kwargs.pop("scope", None)
        if scope is not None:
            self._refuse_scope(scope)
        with graph_of(nest.flatten(inputs)).as_default() as graph:
            self._graph = graph
            with self._entered(scope):
                inputs = nest.map_structure(_as_input, inputs)
                check_inputs(self.input_spec, inputs, self._name)
                self._records.begin(inputs)
                if not self.built:
                    self._build_for(inputs)
                outputs = self.call(inputs, *args, **kwargs)
                self._regularize_activity(outputs)
            self._records.end(outputs)
        return outputs

    def _build_for(self, inputs: Structure) -> None:
        first = next(iter(nest.flatten(inputs)), None)
        if self._dtype is None and first is not None:
            self._dtype = first.dtype.base_dtype
        self.build(nest.map_structure(lambda value: value.shape, inputs))
        self.built = True

    def _regularize_activity(self, outputs: Structure) -> None:
        if self.activity_regularizer is None:
            return
        with name_scope("ActivityRegularizer"):
            for output in nest.flatten(outputs):
                loss = self.activity_regularizer(output)
                if loss is None:
                    continue
                rows = tensor("Shape", None, input=output)[0]
                batch = tensor("Cast", None, x=rows, DstT=loss.dtype)
                self.add_loss(tensor("RealDiv", "truediv", x=loss, y=batch), inputs=True)

    @contextmanager
    def _entered(self, scope: VariableScope | str | None = None) -> Iterator[None]:
        """Enter the layer's scope and its name scope.

        The first entry fixes the scope.
        """
        if self._keras_style:
            with name_scope(self._name):
                yield
            return
        if self._scope is None:
            named = (scope or self._base_name) if self._reuse else scope
            with variable_scope(named, default_name=self._base_name) as made:
                self._scope = made
        reuse = self.built or self._reuse
        with (
            variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as entered,
            name_scope(entered.original_name_scope),
        ):
            yield

    def add_weight(
        self,
        name: str,
        shape: ShapeLike | None = None,
        dtype: DTypeLike | None = None,
        initializer: InitializerLike | None = None,
        regularizer: RegularizerLike | None = None,
        trainable: bool | None = None,
        constraint: ConstraintLike | None = None,
        use_resource: bool | None = None,
        synchronization: int = VariableSynchronization.AUTO,
        aggregation: int = VariableAggregation.NONE,
        partitioner: PartitionerLike | None = None,
        **kwargs: Structure,
    ) -> Structure:
        """Return a variable of the layer.

        It is an existing one where the scope reuses, else a new one. trainable: True by default,
        but for a variable that is synchronized on reads. The other arguments are those of
        `get_variable`. Raises TypeError for an unknown argument, ValueError for a trainable
        variable that is synchronized on reads.
        """
        for unknown in kwargs:
            if unknown not in ("collections", "caching_device", "experimental_autocast"):
                raise TypeError("Unknown keyword argument:", unknown)
        on_read = synchronization == VariableSynchronization.ON_READ
        if on_read and trainable:
            raise ValueError(
                "Synchronization value can be set to VariableSynchronization.ON_READ only for "
                "non-trainable variables. You have specified trainable=True and synchronization="
                "VariableSynchronization.ON_READ."
            )
        trainable = not on_read if trainable is None else trainable
        kwargs.pop("experimental_autocast", None)
        kwargs.update(
            dtype=as_dtype(dtype) if dtype is not None else self._dtype or dtypes.float32,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable and self.trainable,
            constraint=constraint,
            use_resource=use_resource,
            synchronization=synchronization,
            aggregation=aggregation,
            partitioner=partitioner,
        )
        graph = get_default_graph()
        before = len(graph.get_collection(GraphKeys.REGULARIZATION_LOSSES))
        variable = self._variable(name, shape, kwargs)
        # A variable that another layer made has its loss since then.
        new = graph.get_collection(GraphKeys.REGULARIZATION_LOSSES)[before:]
        place = rf"{re.escape(variable.name.partition(':')[0])}(/part_\d+)?/Regularizer/"
        self._regularization_losses += new or graph.get_collection(
            GraphKeys.REGULARIZATION_LOSSES, place
        )
        held = self._trainable_weights if trainable else self._non_trainable_weights
        held += variable if isinstance(variable, PartitionedVariable) else [variable]
        return variable

    add_variable = add_weight

    def _variable(self, name: str, shape: ShapeLike | None, settings: Structure) -> Structure:
        if not self._keras_style:
            with self._entered():
                return get_variable_scope().get_variable(name, shape, **settings)
        prefix = get_default_graph().get_name_scope() or self._name
        owned = VariableScope(False, name=prefix, use_resource=True)
        return owned.get_variable(name, shape, **settings)

    def add_loss(self, losses: Structure, inputs: Structure = None) -> None:
        """Add losses to the layer and to REGULARIZATION_LOSSES.

        inputs: None for losses that do not depend on the layer's inputs.
        """
        for loss in nest.flatten(losses):
            value = loss() if callable(loss) else loss
            if value is None:
                continue
            value = convert_to_tensor(value)
            self._records.add_loss(value, inputs is not None)
            _collect(value.graph, GraphKeys.REGULARIZATION_LOSSES, value)

    def add_update(self, updates: Structure, inputs: Structure = None) -> None:
        """Add updates to the layer and to UPDATE_OPS: operations, tensors or variables.

        A layer with `trainable` False has no updates; those of the keras style are in the layer
        alone. inputs is not looked at: the graph says which updates depend on inputs.
        """
        if not self.trainable:
            return
        for update in nest.flatten(updates):
            value = update() if callable(update) else update
            op = value if isinstance(value, Operation) else _op_of(value)
            self._records.add_update(op)
            if not self._keras_style:
                _collect(op.graph, GraphKeys.UPDATE_OPS, op)

    @property
    def losses(self) -> list[Tensor]:
        """Losses of the calls, then those of the variables' regularizers."""
        return [*self._records.losses, *self._regularization_losses]

    @property
    def updates(self) -> list[Operation]:
        """Operations that a training step should run beside its own."""
        return self._records.updates if self.trainable else []

    def get_losses_for(self, inputs: Structure) -> list[Tensor]:
        """Return the losses that depend on the inputs.

        For None, those that depend on none.
        """
        found = self._records.losses_for(inputs)
        return found if inputs is not None else [*found, *self._regularization_losses]

    def get_updates_for(self, inputs: Structure) -> list[Operation]:
        """Return the updates that depend on the inputs.

        For None, those that depend on none.
        """
        return self._records.updates_for(inputs) if self.trainable else []


def _as_input(value: Structure) -> Structure:
    """Return an array or number as a tensor, others as they are."""
    plain = isinstance(value, (np.ndarray, np.generic, float, int))
    return convert_to_tensor(value) if plain else value


def _op_of(value: Structure) -> Operation:
    found: Operation = (value if hasattr(value, "op") else convert_to_tensor(value)).op
    return found


def _collect(graph: Graph, key: str, value: Structure) -> None:
    """Add a value to a collection that lacks it."""
    if all(value is not known for known in graph.get_collection_ref(key)):
        graph.add_to_collection(key, value)


def _session() -> Structure:
    session = get_default_session()
    if session is None:
        raise ValueError("The values of a layer's variables need a default session.")
    return session

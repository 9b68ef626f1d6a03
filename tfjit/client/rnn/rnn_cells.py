"""Cells of recurrent networks.

A cell is one step over a batch: (inputs, state) -> (output, new state).
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tfjit.client.variables.get_variable import get_variable
from tfjit.client.variables.initializers import Constant, Zeros
from tfjit.client.variables.variable_scope import variable_scope
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import nest
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import TensorShape, as_shape
from tfjit.ops.arithmetic.elementwise_functions import clip_by_value
from tfjit.ops.arithmetic.matrix_product import matmul
from tfjit.ops.arrays.array import shape as shape_of
from tfjit.ops.arrays.creation import zeros
from tfjit.ops.arrays.movement_functions import concat, split, stack
from tfjit.ops.arrays.slicing import slice as slice_of
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.layers.activation import sigmoid, tanh
from tfjit.ops.layers.normalization_functions import bias_add

if TYPE_CHECKING:
    from tfjit.client.variables.variable_scope import VariableScope
    from tfjit.framework.graphs.typing import (
        DTypeLike,
        InitializerLike,
        ShapeLike,
        Structure,
        TensorLike,
    )


class LSTMStateTuple(namedtuple("LSTMStateTuple", ("c", "h"))):
    """State of an LSTM cell, [batch, units] each.

    `c` is the cell's memory, `h` its last output.
    """

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """Dtype of both. Raises TypeError where they differ."""
        c, h = self
        if c.dtype is not h.dtype:
            raise TypeError(f"Inconsistent dtypes for internal state: {c.dtype} vs {h.dtype}")
        return c.dtype


def with_batch(batch_size: TensorLike, size: TensorLike) -> Any:
    """Return the shape [batch_size, *size].

    It is a tensor where batch_size is one. size: a number or a shape.
    """
    rest = list(as_shape([size] if isinstance(size, int) else size) or ())
    return stack([batch_size, *rest]) if isinstance(batch_size, Tensor) else [batch_size, *rest]


def check_cell(name: str, cell: RNNCell) -> None:
    """Raise TypeError for an object that is no cell."""
    wanted = (
        (hasattr(cell, "output_size"), "'output_size' property is missing"),
        (hasattr(cell, "state_size"), "'state_size' property is missing"),
        (
            hasattr(cell, "get_initial_state") or hasattr(cell, "zero_state"),
            "either 'zero_state' or 'get_initial_state' method is required",
        ),
        (callable(cell), "is not callable"),
    )
    errors = [text for there, text in wanted if not there]
    if errors:
        raise TypeError(f"The argument {name!r} ({cell}) is not an RNNCell: {', '.join(errors)}.")


class RNNCell:
    """Base of cells.

    A subclass has `state_size` and `output_size` (numbers, shapes or structures of them) and
    `call(inputs, state)`. Variables that `call` gets by `get_variable` stand in a scope named for
    the class (or `name`), which is reused from the second call on.
    """

    def __init__(
        self,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
        _reuse: Any = None,
        **kwargs: Any,
    ) -> None:
        if kwargs:
            raise TypeError(
                f"{type(self).__name__} got an unexpected keyword argument {next(iter(kwargs))!r}"
            )
        self.trainable = trainable
        self.built = False
        self._base_name = (
            name
            or re.sub(
                r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(self).__name__
            ).lower()
        )
        self._dtype = None if dtype is None else as_dtype(dtype)
        self._reuse = _reuse
        self._scope: Any = None
        self._variables: list[Any] = []

    @property
    def name(self) -> str:
        """The name of the variables' scope."""
        return self._base_name

    @property
    def dtype(self) -> Any:
        """Dtype of the variables.

        None before the first call, where it was not told.
        """
        return self._dtype

    @property
    def state_size(self) -> Structure:
        """Sizes of the states, without the batch."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self) -> Structure:
        """Size of the output, without the batch."""
        raise NotImplementedError("Abstract method")

    @property
    def variables(self) -> list[Any]:
        """The variables that calls made."""
        return list(self._variables)

    weights = variables

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables that optimizers update."""
        return [variable for variable in self._variables if self.trainable and variable.trainable]

    trainable_weights = trainable_variables

    def __call__(
        self, inputs: Any, state: Structure, scope: VariableScope | str | None = None
    ) -> Structure:
        """Return (output, new state) of one step.

        inputs: [batch, depth]. state: of `state_size`. scope: of the variables, not the cell's own.
        """
        if self._scope is None:
            with variable_scope(
                scope or (self._base_name if self._reuse else None), default_name=self._base_name
            ) as made:
                self._scope = made
        with variable_scope(
            self._scope, reuse=True if self.built else self._reuse, custom_getter=self._remembered
        ):
            if not self.built:
                self.build(nest.map_structure(lambda leaf: leaf.shape, inputs))
                self.built = True
            return self.call(inputs, state)

    def _remembered(self, getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        variable = getter(*args, **kwargs)
        if all(variable is not known for known in self._variables):
            self._variables.append(variable)
        return variable

    def build(self, inputs_shape: ShapeLike) -> None:
        """Make variables that depend on the inputs' shape.

        Called once, in the cell's scope.
        """

    def call(self, inputs: TensorLike, state: Structure) -> Structure:
        """Compute one step; subclasses override this."""
        raise NotImplementedError(f"{type(self).__name__} has no `call`")

    def get_initial_state(
        self, inputs: TensorLike | None = None, batch_size: Any = None, dtype: Any = None
    ) -> Structure:
        """Return `zero_state` for a batch size and dtype.

        inputs: [batch, ...], whose batch size and dtype count where given.
        """
        if inputs is not None:
            inputs = convert_to_tensor(inputs, name="inputs")
            rows = inputs.shape_tuple[0] if inputs.shape_tuple else None
            batch_size, dtype = shape_of(inputs)[0] if rows is None else rows, inputs.dtype
        if batch_size is None or dtype is None:
            raise ValueError(
                "batch_size and dtype cannot be None while constructing initial state: "
                f"batch_size={batch_size}, dtype={dtype}"
            )
        return self.zero_state(batch_size, dtype)

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Structure:
        """Return zeros [batch_size, *size] for each size in `state_size`."""
        with name_scope(None, type(self).__name__ + "ZeroState"):
            return _mapped(lambda size: _zeros(batch_size, size, dtype), self.state_size)

    def _dense(self, inputs: Tensor, kernel: Any, bias: Any) -> Tensor:
        return bias_add(matmul(inputs, kernel), bias)

    def _depth(self, inputs_shape: TensorShape) -> int:
        sizes = inputs_shape.dims_tuple
        if not sizes or sizes[-1] is None:
            raise ValueError(
                f"Expected inputs.shape[-1] to be known, received shape: {inputs_shape}"
            )
        return sizes[-1]

    def _get(
        self, name: str, shape: Sequence[int], initializer: InitializerLike | None = None
    ) -> Any:
        return get_variable(
            name, list(shape), dtype=self._dtype, initializer=initializer, trainable=self.trainable
        )


def _zeros(batch_size: Any, size: Any, dtype: DTypeLike) -> Tensor:
    made = zeros(with_batch(batch_size, size), dtype)
    rows = constant_value(batch_size) if isinstance(batch_size, Tensor) else batch_size
    made.set_shape(
        [
            None if rows is None else int(rows),
            *(as_shape([size] if isinstance(size, int) else size) or ()),
        ]
    )
    return made


def _mapped(function: Callable[[Any], Any], sizes: object) -> Any:
    """Map a function over sizes; a TensorShape is one size."""
    return nest.map_structure(function, sizes)


class BasicRNNCell(RNNCell):
    """A basic cell: output and new state are one value.

    output = state = activation(concat(inputs, state) kernel + bias). activation: tanh without one.
    """

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: object = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._activation = activation or tanh

    @property
    def state_size(self) -> int:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        self._kernel = self._get(
            "kernel", [self._depth(inputs_shape) + self._num_units, self._num_units]
        )
        self._bias = self._get("bias", [self._num_units], Zeros())

    def call(self, inputs: TensorLike, state: Structure) -> Structure:
        output = self._activation(self._dense(concat([inputs, state], 1), self._kernel, self._bias))
        return output, output


class GRUCell(RNNCell):
    """Gated recurrent unit. Source: Cho et al., 2014.

    r, u = sigmoid(gates); h = u h + (1 - u) activation(of inputs and r h).
    """

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: object = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._activation = activation or tanh
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer

    @property
    def state_size(self) -> int:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        n, rows = self._num_units, self._depth(inputs_shape) + self._num_units
        given = self._bias_initializer
        self._gate_kernel = self._get("gates/kernel", [rows, 2 * n], self._kernel_initializer)
        self._gate_bias = self._get(
            "gates/bias", [2 * n], given if given is not None else Constant(1.0)
        )
        self._candidate_kernel = self._get("candidate/kernel", [rows, n], self._kernel_initializer)
        self._candidate_bias = self._get(
            "candidate/bias", [n], given if given is not None else Zeros()
        )

    def call(self, inputs: TensorLike, state: Structure) -> Structure:
        gates = sigmoid(self._dense(concat([inputs, state], 1), self._gate_kernel, self._gate_bias))
        r, u = split(value=gates, num_or_size_splits=2, axis=1)
        candidate = self._activation(
            self._dense(
                concat([inputs, r * state], 1), self._candidate_kernel, self._candidate_bias
            )
        )
        new = u * state + (1 - u) * candidate
        return new, new


class BasicLSTMCell(RNNCell):
    """Long short-term memory. Source: Zaremba et al., 2014.

    Gates i, j, f, o of one product; c = c sigmoid(f + forget_bias) + sigmoid(i) act(j); h = act(c)
    sigmoid(o). state_is_tuple: the state is an LSTMStateTuple; else [batch, 2 units], c before h.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: object = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = activation or tanh

    @property
    def state_size(self) -> Structure:
        return (
            LSTMStateTuple(self._num_units, self._num_units)
            if self._state_is_tuple
            else 2 * self._num_units
        )

    @property
    def output_size(self) -> int:
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        n = self._num_units
        self._kernel = self._get("kernel", [self._depth(inputs_shape) + n, 4 * n])
        self._bias = self._get("bias", [4 * n], Zeros())

    def call(self, inputs: TensorLike, state: Structure) -> Structure:
        c, h = state if self._state_is_tuple else split(value=state, num_or_size_splits=2, axis=1)
        i, j, f, o = split(
            value=self._dense(concat([inputs, h], 1), self._kernel, self._bias),
            num_or_size_splits=4,
            axis=1,
        )
        new_c = c * sigmoid(f + self._forget_bias) + sigmoid(i) * self._activation(j)
        new_h = self._activation(new_c) * sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h) if self._state_is_tuple else concat(
            [new_c, new_h], 1
        )


class LSTMCell(RNNCell):
    """`BasicLSTMCell` with options. Source: Sak et al., 2014.

    They are peepholes (gates see c), clipping of c to +-cell_clip, and a projection of h to
    num_proj, clipped to +-proj_clip.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: Any = None,
        num_proj_shards: Any = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: object = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = initializer
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = activation or tanh

    @property
    def state_size(self) -> Structure:
        n = self._num_units
        return LSTMStateTuple(n, self.output_size) if self._state_is_tuple else n + self.output_size

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def build(self, inputs_shape: Any) -> None:
        n = self._num_units
        self._kernel = self._get(
            "kernel", [self._depth(inputs_shape) + self.output_size, 4 * n], self._initializer
        )
        self._bias = self._get("bias", [4 * n], Zeros())
        if self._use_peepholes:
            self._seen = [
                self._get(f"w_{gate}_diag", [n], self._initializer) for gate in ("f", "i", "o")
            ]
        if self._num_proj is not None:
            self._projection = self._get(
                "projection/kernel", [n, self._num_proj], self._initializer
            )

    def call(self, inputs: TensorLike, state: Structure) -> Structure:
        n = self._num_units
        c, h = (
            state
            if self._state_is_tuple
            else (slice_of(state, [0, 0], [-1, n]), slice_of(state, [0, n], [-1, self.output_size]))
        )
        i, j, f, o = split(
            value=self._dense(concat([inputs, h], 1), self._kernel, self._bias),
            num_or_size_splits=4,
            axis=1,
        )
        f = f + self._forget_bias
        if self._use_peepholes:
            f, i = f + self._seen[0] * c, i + self._seen[1] * c
        new_c = sigmoid(f) * c + sigmoid(i) * self._activation(j)
        if self._cell_clip is not None:
            new_c = clip_by_value(new_c, -self._cell_clip, self._cell_clip)
        if self._use_peepholes:
            o = o + self._seen[2] * new_c
        new_h = sigmoid(o) * self._activation(new_c)
        if self._num_proj is not None:
            new_h = matmul(new_h, self._projection)
            if self._proj_clip is not None:
                new_h = clip_by_value(new_h, -self._proj_clip, self._proj_clip)
        return new_h, LSTMStateTuple(new_c, new_h) if self._state_is_tuple else concat(
            [new_c, new_h], 1
        )


class MultiRNNCell(RNNCell):
    """Cells one on top of the other.

    The output of each is the input of the next. state_is_tuple: a state for each; else side by
    side.
    """

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not isinstance(cells, (list, tuple)):
            raise TypeError(f"cells must be a list or tuple, but saw: {cells}.")
        if not state_is_tuple and any(nest.is_nested(cell.state_size) for cell in cells):
            raise ValueError(
                "Some cells return tuples of states, but the flag state_is_tuple is not set.  "
                "State sizes are: "
                f"{[cell.state_size for cell in cells]}"
            )
        self._cells = list(cells)
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self) -> Structure:
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Structure:
        return self._cells[-1].output_size

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Structure:
        if not self._state_is_tuple:
            return super().zero_state(batch_size, dtype)
        with name_scope(None, type(self).__name__ + "ZeroState"):
            return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)

    def call(self, inputs: TensorLike, state: Structure) -> Structure:
        if self._state_is_tuple and not nest.is_nested(state):
            raise ValueError(
                f"Expected state to be a tuple of length {len(self.state_size)}, but received: "
                f"{state}"
            )
        position, states = 0, []
        for i, cell in enumerate(self._cells):
            with variable_scope(f"cell_{i}"):
                if self._state_is_tuple:
                    own = state[i]
                else:
                    own = slice_of(state, [0, position], [-1, cell.state_size])
                    position += cell.state_size
                inputs, new = cell(inputs, own)
                states.append(new)
        return inputs, tuple(states) if self._state_is_tuple else concat(states, 1)

"""Layers with one product of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.client.network.identifiers import (
    find_activation,
    find_constraint,
    find_initializer,
    find_regularizer,
)
from tfjit.client.network.input_spec import InputSpec
from tfjit.client.network.layer import Layer
from tfjit.client.variables.initializers import Zeros
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.dtypes import float32
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.arithmetic.elementwise_functions import cast
from tfjit.ops.arithmetic.matrix_product import matmul, tensordot
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.layers.normalization_functions import bias_add

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import ConstraintLike, Structure, TensorLike

_ZEROS = Zeros()


class Dense(Layer):
    """activation(inputs kernel + bias) over the last axis.

    inputs [..., n] -> [..., units]. Variables: kernel [n, units], bias [units]. activation: a
    function or its name; None is the identity. kernel_initializer: None is the scope's. Raises
    ValueError for units below 1, in the first call for inputs below rank 2 or of unknown last size,
    TypeError there for inputs that are no floats.
    """

    def __init__(
        self,
        units: int,
        activation: Structure = None,
        use_bias: bool = True,
        kernel_initializer: Structure = None,
        bias_initializer: Structure = _ZEROS,
        kernel_regularizer: Structure = None,
        bias_regularizer: Structure = None,
        activity_regularizer: Structure = None,
        kernel_constraint: ConstraintLike | str | None = None,
        bias_constraint: ConstraintLike | str | None = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Structure,
    ) -> None:
        super().__init__(
            trainable, name, activity_regularizer=find_regularizer(activity_regularizer), **kwargs
        )
        self.units = units if isinstance(units, int) else int(units)
        if self.units <= 0:
            raise ValueError(
                "Received an invalid value for `units`, expected a positive integer. Received: "
                f"units={units}"
            )
        self.activation = find_activation(activation)
        self.use_bias = use_bias
        self.kernel_initializer = find_initializer(kernel_initializer)
        self.bias_initializer = find_initializer(bias_initializer)
        self.kernel_regularizer = find_regularizer(kernel_regularizer)
        self.bias_regularizer = find_regularizer(bias_regularizer)
        self.kernel_constraint = find_constraint(kernel_constraint)
        self.bias_constraint = find_constraint(bias_constraint)
        self.input_spec = InputSpec(min_ndim=2)
        self.kernel: Structure = None
        self.bias: Structure = None

    def build(self, input_shape: Structure) -> None:
        """Make kernel and bias."""
        dtype = self._dtype or float32
        if not (dtype.is_floating or dtype.is_complex):
            raise TypeError(
                "A Dense layer can only be built with a floating-point dtype. Received: "
                f"dtype={dtype}"
            )
        shape = TensorShape(input_shape)
        size = shape.dims_tuple[-1] if shape.dims_tuple else None
        if size is None:
            raise ValueError(
                "The last dimension of the inputs to a Dense layer should be defined. Found None. "
                f"Full input shape received: {shape}"
            )
        self.input_spec = InputSpec(min_ndim=2, axes={-1: size})
        self.kernel = self.add_weight(
            "kernel",
            [size, self.units],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                [self.units],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        self.built = True

    def call(self, inputs: TensorLike) -> Tensor:
        value = convert_to_tensor(inputs)
        if self._dtype is not None and value.dtype.base_dtype is not self._dtype:
            value = cast(value, self._dtype)
        rank = value.shape.rank
        if rank is None or rank == 2:
            product = matmul(value, self.kernel)
        else:
            axes: Structure = [[rank - 1], [0]]
            product = tensordot(value, self.kernel, axes)
            product.set_shape([*value.shape.as_list()[:-1], self.units])
        if self.use_bias:
            product = bias_add(product, self.bias)
        made: Tensor = self.activation(product)
        return made

    def compute_output_shape(self, input_shape: Structure) -> TensorShape:
        """Return the input's shape with `units` last.

        Raises ValueError for an unknown last size.
        """
        shape = TensorShape(input_shape)
        sizes = shape.as_list()
        if len(sizes) < 2:
            raise ValueError(f"Shape {shape} must have rank at least 2")
        if sizes[-1] is None:
            raise ValueError(
                "The last dimension of the input shape of a Dense layer should be defined. Found "
                f"None. Received: input_shape={shape}"
            )
        return TensorShape([*sizes[:-1], self.units])


def dense(
    inputs: TensorLike,
    units: int,
    activation: Structure = None,
    use_bias: bool = True,
    kernel_initializer: Structure = None,
    bias_initializer: Structure = _ZEROS,
    kernel_regularizer: Structure = None,
    bias_regularizer: Structure = None,
    activity_regularizer: Structure = None,
    kernel_constraint: ConstraintLike | str | None = None,
    bias_constraint: ConstraintLike | str | None = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: object = None,
) -> Tensor:
    """Return `Dense` of the inputs [..., n] -> [..., units].

    name: of the variables' scope. reuse: True for variables that exist there, AUTO_REUSE.
    """
    layer = Dense(
        units,
        activation,
        use_bias,
        kernel_initializer,
        bias_initializer,
        kernel_regularizer,
        bias_regularizer,
        activity_regularizer,
        kernel_constraint,
        bias_constraint,
        trainable,
        name,
        _scope=name,
        _reuse=reuse,
    )
    made: Tensor = layer(inputs)
    return made

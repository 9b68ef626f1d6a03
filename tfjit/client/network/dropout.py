"""Layers that drop elements at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.client.network.layer import Layer
from tfjit.client.network.static_choice import choose
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.arrays.array import identity
from tfjit.ops.arrays.array import shape as shape_of
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.layers import layer_functions

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import ShapeLike, Structure, TensorLike


class Dropout(Layer):
    """Elements that are zero with probability `rate`.

    The others are 1 / (1 - rate) times the input. noise_shape: the shape of the choice, 1 for an
    axis along which elements are dropped as one, None for the input's size. Raises ValueError for a
    rate outside [0, 1].
    """

    def __init__(
        self,
        rate: Structure = 0.5,
        noise_shape: ShapeLike | None = None,
        seed: int | None = None,
        name: str | None = None,
        **kwargs: Structure,
    ) -> None:
        super().__init__(name=name, **kwargs)
        if isinstance(rate, (int, float)) and not 0 <= rate <= 1:
            raise ValueError(
                f"Invalid value {rate} received for `rate`, expected a value between 0 and 1."
            )
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed

    def _noise_shape(self, inputs: Tensor) -> Structure:
        if not isinstance(self.noise_shape, (list, tuple)):
            return self.noise_shape
        if all(size is not None for size in self.noise_shape):
            return self.noise_shape
        sizes = shape_of(inputs)
        return [sizes[i] if size is None else size for i, size in enumerate(self.noise_shape)]

    def call(self, inputs: TensorLike, training: object = False) -> Tensor:
        value = convert_to_tensor(inputs)

        def dropped() -> Tensor:
            shape = self._noise_shape(value)
            made = layer_functions.dropout(value, noise_shape=shape, seed=self.seed, rate=self.rate)
            return identity(value) if made is value else made

        chosen: Tensor = choose(training, dropped, lambda: identity(value))
        return chosen

    def compute_output_shape(self, input_shape: Structure) -> Structure:
        """Return the input's shape."""
        return input_shape


def dropout(
    inputs: TensorLike,
    rate: Structure = 0.5,
    noise_shape: ShapeLike | None = None,
    seed: int | None = None,
    training: object = False,
    name: str | None = None,
) -> Tensor:
    """Return `Dropout` of the inputs while training, else the inputs.

    training: a bool, or a bool scalar tensor.
    """
    made: Tensor = Dropout(rate, noise_shape, seed, name)(inputs, training=training)
    return made

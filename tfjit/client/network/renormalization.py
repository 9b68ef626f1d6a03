"""Batch renormalization: the corrections of a batch's statistics by moving ones.

Source: Ioffe, "Batch Renormalization", 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from tfjit.client.network.moving_average import assign_moving_average
from tfjit.client.network.static_choice import choose
from tfjit.client.variables.assignments import assign
from tfjit.framework.graphs.default_graph import control_dependencies
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.arithmetic.elementwise_functions import maximum, minimum, sqrt
from tfjit.ops.arrays.array import identity, stop_gradient
from tfjit.ops.arrays.creation import ones_like, zeros_like
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.layers.activation import relu

if TYPE_CHECKING:
    from tfjit.client.network.batch_normalization import BatchNormalization
    from tfjit.framework.graphs.typing import Structure, TensorLike

_LIMITS: Final = ("rmax", "rmin", "dmax")


class Renormalization:
    """Corrections r and d of (x - mean) / stddev.

    The corrected value is (x - mean) / stddev * r + d. r = stddev / renorm_stddev within rmin and
    rmax, d = (mean - renorm_mean) / renorm_stddev within -dmax and dmax. Raises ValueError for
    another limit.
    """

    def __init__(self, limits: Mapping[str, TensorLike] | None, momentum: Structure) -> None:
        limits = limits or {}
        unknown = {key: value for key, value in limits.items() if key not in _LIMITS}
        if unknown:
            raise ValueError(
                f"Received invalid keys for `renorm_clipping` argument: {unknown}. Supported "
                f"values: {list(_LIMITS)}."
            )
        self.limits = dict(limits)
        self.momentum = momentum
        self.mean: Structure = None
        self.stddev: Structure = None
        self.moving_stddev: Structure = None

    def build(
        self,
        layer: BatchNormalization,
        shape: list[int],
        add: Callable[[str, list[int], Structure], Structure],
    ) -> None:
        """Make the moving deviation, and the mean and deviation of the corrections."""
        initial = layer.moving_variance_initializer

        def deviation(shape: Structure, dtype: Structure = None, **given: Structure) -> Tensor:
            return sqrt(initial(shape, dtype=dtype))

        self.moving_stddev = add("moving_stddev", shape, deviation)
        self.mean = add("renorm_mean", shape, layer.moving_mean_initializer)
        self.stddev = add("renorm_stddev", shape, deviation)

    def corrections(
        self, layer: BatchNormalization, mean: Tensor, variance: Tensor, training: object
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return (r, d, mean, variance).

        The latter two wait until the variables behind r and d have moved.
        """
        deviation = sqrt(variance + layer.epsilon)
        at_least = maximum(self.stddev, sqrt(convert_to_tensor(layer.epsilon, variance.dtype)))
        r = deviation / at_least
        d = (mean - self.mean) / at_least
        with control_dependencies([r, d]):  # they read the variables that move below
            mean, deviation = identity(mean), identity(deviation)
        if "rmin" in self.limits:
            r = maximum(r, self.limits["rmin"])
        if "rmax" in self.limits:
            r = minimum(r, self.limits["rmax"])
        if "dmax" in self.limits:
            d = minimum(maximum(d, -convert_to_tensor(self.limits["dmax"])), self.limits["dmax"])
        r = choose(training, lambda: r, lambda: ones_like(r))
        d = choose(training, lambda: d, lambda: zeros_like(d))
        moved = [
            self._move(variable, value, training)
            for variable, value in ((self.mean, mean), (self.stddev, deviation))
        ]
        with control_dependencies(moved):
            mean, variance = identity(mean), identity(variance)
        return stop_gradient(r, "renorm_r"), stop_gradient(d, "renorm_d"), mean, variance

    def _move(self, variable: Structure, value: Tensor, training: object) -> Tensor:
        return convert_to_tensor(
            choose(
                training,
                lambda: assign_moving_average(variable, value, self.momentum),
                lambda: identity(variable),
            )
        )

    def move_variance(
        self, layer: BatchNormalization, variance: Tensor, training: object
    ) -> Structure:
        """Move the deviation, and set the variance to its square."""

        def moved() -> Structure:
            deviation = assign_moving_average(
                self.moving_stddev, sqrt(variance + layer.epsilon), layer.momentum
            )
            square = convert_to_tensor(deviation) * convert_to_tensor(deviation)
            return assign(
                layer.moving_variance, relu(square - layer.epsilon), name="AssignNewValue"
            )

        return choose(training, moved, lambda: convert_to_tensor(layer.moving_variance))

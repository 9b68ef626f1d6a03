"""The gamma and the exponential distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfjit import ops
from tfjit.client.probability.distribution import FULLY_REPARAMETERIZED, ScalarDistribution
from tfjit.client.probability.divergence import RegisterKL
from tfjit.client.probability.location_scale import tensors
from tfjit.client.probability.parameters import param_shapes, select
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.shape import TensorShape
from tfjit.ops import math
from tfjit.ops.control_flow.control_flow import with_dependencies
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


class Gamma(ScalarDistribution):
    """The gamma distribution of a concentration and a rate (1 / scale).

    Both are positive floats of one dtype and broadcast to the shape of the batch.
    """

    def __init__(
        self,
        concentration: TensorLike,
        rate: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Gamma",
    ) -> None:
        given = {"concentration": concentration, "rate": rate, "validate_args": validate_args}
        given.update(allow_nan_stats=allow_nan_stats, name=name)
        values = (concentration, rate)
        with name_scope(name, values=values) as scope:
            checks = [ops.assert_positive(value) for value in values if validate_args]
            self._concentration, self._rate = tensors(("concentration", "rate"), values, checks)
        super().__init__(
            self._concentration.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._concentration, self._rate],
            scope,
        )

    @staticmethod
    def _param_shapes(sample_shape: TensorLike) -> dict[str, Tensor]:
        return param_shapes(sample_shape, ("concentration", "rate"))

    @property
    def concentration(self) -> Tensor:
        """The concentration."""
        return self._concentration

    @property
    def rate(self) -> Tensor:
        """The rate."""
        return self._rate

    def _batch_shape_tensor(self) -> Tensor:
        return ops.broadcast_dynamic_shape(ops.shape(self.concentration), ops.shape(self.rate))

    def _batch_shape(self) -> TensorShape:
        return ops.broadcast_static_shape(self.concentration.shape, self.rate.shape)

    def _sample_n(self, n: TensorLike, seed: int | None = None) -> Tensor:
        return ops.random_gamma([n], self.concentration, self.rate, self.dtype, seed)

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._log_unnormalized_prob(value) - self._log_normalization()

    def _cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return ops.igamma(self.concentration, self.rate * value)

    def _log_unnormalized_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return math.xlogy(self.concentration - 1.0, value) - self.rate * value

    def _log_normalization(self) -> Tensor:
        return ops.lgamma(self.concentration) - self.concentration * ops.log(self.rate)

    def _entropy(self) -> Tensor:
        return (
            self.concentration
            - ops.log(self.rate)
            + ops.lgamma(self.concentration)
            + (1.0 - self.concentration) * ops.digamma(self.concentration)
        )

    def _mean(self) -> Tensor:
        return self.concentration / self.rate

    def _variance(self) -> Tensor:
        return self.concentration / ops.square(self.rate)

    def _stddev(self) -> Tensor:
        return ops.sqrt(self.concentration) / self.rate

    def _mode(self) -> Tensor:
        mode = (self.concentration - 1.0) / self.rate
        if self.allow_nan_stats:
            nan = np.array(np.nan, self.dtype.as_numpy_dtype)
            nans = ops.fill(self.batch_shape_tensor(), nan, name="nan")
            return select(ops.greater(self.concentration, 1.0), mode, nans)
        message = "mode not defined when any concentration <= 1"
        one = ops.ones([], self.dtype)
        check = ops.assert_less(one, self.concentration, message=message)
        return with_dependencies([check], mode)

    def _checked(self, value: Tensor) -> Tensor:
        ops.assert_same_float_dtype([value], self.dtype)
        if not self.validate_args:
            return value
        return with_dependencies([ops.assert_positive(value)], value)


@RegisterKL(Gamma, Gamma)
def _kl_gamma(a: Gamma, b: Gamma, name: str | None = None) -> Tensor:
    parents = [a.concentration, a.rate, b.concentration, b.rate]
    with name_scope(name, "kl_gamma_gamma", parents):
        return (
            (a.concentration - b.concentration) * ops.digamma(a.concentration)
            + ops.lgamma(b.concentration)
            - ops.lgamma(a.concentration)
            + b.concentration * ops.log(a.rate)
            - b.concentration * ops.log(b.rate)
            + a.concentration * (b.rate / a.rate - 1.0)
        )


class Exponential(Gamma):
    """The exponential distribution of a rate: a gamma distribution of concentration 1."""

    def __init__(
        self,
        rate: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Exponential",
    ) -> None:
        given = {"rate": rate, "validate_args": validate_args}
        given.update(allow_nan_stats=allow_nan_stats, name=name)
        with name_scope(name, values=[rate]) as scope:
            self._rate = convert_to_tensor(rate, name="rate")
        one = ops.ones([], dtype=self._rate.dtype)
        super().__init__(one, self._rate, validate_args, allow_nan_stats, scope)
        self._parameters = given
        self._graph_parents.append(self._rate)

    @staticmethod
    def _param_shapes(sample_shape: TensorLike) -> dict[str, Tensor]:
        return param_shapes(sample_shape, ("rate",))

    def _log_survival_function(self, value: Tensor) -> Tensor:
        return self._log_prob(value) - ops.log(self._rate)

    def _sample_n(self, n: TensorLike, seed: int | None = None) -> Tensor:
        shape = ops.concat([[n], ops.shape(self._rate)], 0)
        # 0 itself would be infinite
        tiny = np.finfo(self.dtype.as_numpy_dtype).tiny
        drawn = ops.random_uniform(shape, tiny, 1.0, self.dtype, seed)
        return -ops.log(drawn) / self._rate

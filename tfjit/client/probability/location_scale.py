"""Distributions with a location and a scale, or with two ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfjit import ops
from tfjit.client.probability.distribution import FULLY_REPARAMETERIZED, ScalarDistribution
from tfjit.client.probability.divergence import RegisterKL
from tfjit.client.probability.normal_functions import log_cdf_laplace, log_ndtr, ndtr, ndtri
from tfjit.client.probability.parameters import param_shapes, select
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types.shape import TensorShape

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def tensors(
    names: Sequence[str], values: Sequence[TensorLike], checks: Sequence[Operation]
) -> list[Tensor]:
    """Return parameters as tensors of their names, after the checks.

    Raises ValueError or TypeError for dtypes that differ or are no floats.
    """
    with control_dependencies(list(checks)):
        found = [ops.identity(value, name=name) for name, value in zip(names, values, strict=True)]
        ops.assert_same_float_dtype(found)
    return found


class _LocationScale(ScalarDistribution):
    """Base of distributions of a standard number, scaled and moved."""

    _loc: Tensor
    _scale: Tensor

    @staticmethod
    def _param_shapes(sample_shape: TensorLike) -> dict[str, Tensor]:
        return param_shapes(sample_shape, ("loc", "scale"))

    @property
    def loc(self) -> Tensor:
        """The location."""
        return self._loc

    @property
    def scale(self) -> Tensor:
        """The scale."""
        return self._scale

    def _batch_shape_tensor(self) -> Tensor:
        return ops.broadcast_dynamic_shape(ops.shape(self.loc), ops.shape(self.scale))

    def _batch_shape(self) -> TensorShape:
        return ops.broadcast_static_shape(self.loc.shape, self.scale.shape)


class Normal(_LocationScale):
    """The normal distribution of mean `loc` and standard deviation `scale`.

    Both are floats of one dtype and broadcast to the shape of the batch.
    """

    def __init__(
        self,
        loc: TensorLike,
        scale: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Normal",
    ) -> None:
        given = {"loc": loc, "scale": scale, "validate_args": validate_args}
        given.update(allow_nan_stats=allow_nan_stats, name=name)
        with name_scope(name, values=[loc, scale]) as scope:
            checks = [ops.assert_positive(scale)] if validate_args else []
            self._loc, self._scale = tensors(("loc", "scale"), (loc, scale), checks)
        super().__init__(
            self._scale.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._loc, self._scale],
            scope,
        )

    def _sample_n(self, n: TensorLike, seed: int | None = None) -> Tensor:
        shape = ops.concat([[n], self.batch_shape_tensor()], 0)
        drawn = ops.random_normal(shape, 0.0, 1.0, self.loc.dtype, seed)
        return drawn * self.scale + self.loc

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._log_unnormalized_prob(value) - self._log_normalization()

    def _log_unnormalized_prob(self, value: Tensor) -> Tensor:
        return -0.5 * ops.square(self._standard(value))

    def _log_normalization(self) -> Tensor:
        return 0.5 * math.log(2.0 * math.pi) + ops.log(self.scale)

    def _log_cdf(self, value: Tensor) -> Tensor:
        return log_ndtr(self._standard(value))

    def _cdf(self, value: Tensor) -> Tensor:
        return ndtr(self._standard(value))

    def _log_survival_function(self, value: Tensor) -> Tensor:
        return log_ndtr(-self._standard(value))

    def _survival_function(self, value: Tensor) -> Tensor:
        return ndtr(-self._standard(value))

    def _quantile(self, value: Tensor) -> Tensor:
        found = ndtri(value)
        with name_scope("reconstruct", values=[found]):
            return found * self.scale + self.loc

    def _entropy(self) -> Tensor:
        scale = self.scale * ops.ones_like(self.loc)
        return 0.5 * math.log(2.0 * math.pi * math.e) + ops.log(scale)

    def _mean(self) -> Tensor:
        return self.loc * ops.ones_like(self.scale)

    def _stddev(self) -> Tensor:
        return self.scale * ops.ones_like(self.loc)

    def _mode(self) -> Tensor:
        return self._mean()

    def _standard(self, value: Tensor) -> Tensor:
        with name_scope("standardize", values=[value]):
            return (value - self.loc) / self.scale


@RegisterKL(Normal, Normal)
def _kl_normal(a: Normal, b: Normal, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_normal_normal", [a.loc, b.loc]):
        one, two, half = (ops.constant(number, a.dtype) for number in (1, 2, 0.5))
        first, second = ops.square(a.scale), ops.square(b.scale)
        ratio = first / second
        apart = ops.squared_difference(a.loc, b.loc)
        return apart / (two * second) + half * (ratio - one - ops.log(ratio))


class Laplace(_LocationScale):
    """The Laplace distribution: both sides of `loc` are exponential, of mean `scale`.

    Both are floats of one dtype and broadcast to the shape of the batch.
    """

    def __init__(
        self,
        loc: TensorLike,
        scale: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Laplace",
    ) -> None:
        given = {"loc": loc, "scale": scale, "validate_args": validate_args}
        given.update(allow_nan_stats=allow_nan_stats, name=name)
        with name_scope(name, values=[loc, scale]) as scope:
            checks = [ops.assert_positive(scale)] if validate_args else []
            self._loc, self._scale = tensors(("loc", "scale"), (loc, scale), checks)
            super().__init__(
                self._loc.dtype,
                FULLY_REPARAMETERIZED,
                validate_args,
                allow_nan_stats,
                given,
                [self._loc, self._scale],
                scope,
            )

    def _sample_n(self, n: TensorLike, seed: int | None = None) -> Tensor:
        shape = ops.concat([[n], self.batch_shape_tensor()], 0)
        number = self.dtype.as_numpy_dtype
        # -1 itself would be infinite
        above = np.nextafter(number(-1.0), number(0.0))
        drawn = ops.random_uniform(shape, above, 1.0, self.dtype, seed)
        return self.loc - self.scale * ops.sign(drawn) * ops.log1p(-ops.abs(drawn))

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._log_unnormalized_prob(value) - self._log_normalization()

    def _prob(self, value: Tensor) -> Tensor:
        return ops.exp(self._log_prob(value))

    def _log_unnormalized_prob(self, value: Tensor) -> Tensor:
        return -ops.abs(self._standard(value))

    def _log_normalization(self) -> Tensor:
        return math.log(2.0) + ops.log(self.scale)

    def _log_cdf(self, value: Tensor) -> Tensor:
        return log_cdf_laplace(self._standard(value))

    def _log_survival_function(self, value: Tensor) -> Tensor:
        return log_cdf_laplace(-self._standard(value))

    def _cdf(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return 0.5 + 0.5 * ops.sign(z) * (1.0 - ops.exp(-ops.abs(z)))

    def _entropy(self) -> Tensor:
        scale = self.scale + ops.zeros_like(self.loc)
        return math.log(2.0) + 1.0 + ops.log(scale)

    def _mean(self) -> Tensor:
        return self.loc + ops.zeros_like(self.scale)

    def _stddev(self) -> Tensor:
        return math.sqrt(2.0) * self.scale + ops.zeros_like(self.loc)

    def _mode(self) -> Tensor:
        return self._mean()

    def _standard(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale


class Uniform(ScalarDistribution):
    """The uniform distribution over [low, high).

    Both are floats of one dtype and broadcast to the shape of the batch.
    """

    def __init__(
        self,
        low: TensorLike = 0.0,
        high: TensorLike = 1.0,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Uniform",
    ) -> None:
        given = {"low": low, "high": high, "validate_args": validate_args}
        given.update(allow_nan_stats=allow_nan_stats, name=name)
        with name_scope(name, values=[low, high]) as scope:
            message = "uniform not defined when low >= high."
            checks = [ops.assert_less(low, high, message=message)] if validate_args else []
            self._low, self._high = tensors(("low", "high"), (low, high), checks)
        super().__init__(
            self._low.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._low, self._high],
            scope,
        )

    @staticmethod
    def _param_shapes(sample_shape: TensorLike) -> dict[str, Tensor]:
        return param_shapes(sample_shape, ("low", "high"))

    @property
    def low(self) -> Tensor:
        """The lower end."""
        return self._low

    @property
    def high(self) -> Tensor:
        """The upper end, which no sample is."""
        return self._high

    def range(self, name: str = "range") -> Tensor:
        """Return high - low."""
        with self._name_scope(name):
            return self.high - self.low

    def _batch_shape_tensor(self) -> Tensor:
        return ops.broadcast_dynamic_shape(ops.shape(self.low), ops.shape(self.high))

    def _batch_shape(self) -> TensorShape:
        return ops.broadcast_static_shape(self.low.shape, self.high.shape)

    def _sample_n(self, n: TensorLike, seed: int | None = None) -> Tensor:
        shape = ops.concat([[n], self.batch_shape_tensor()], 0)
        drawn = ops.random_uniform(shape, dtype=self.dtype, seed=seed)
        return self.low + self.range() * drawn

    def _prob(self, value: Tensor) -> Tensor:
        wide = value * ops.ones(self.batch_shape_tensor(), dtype=value.dtype)
        is_nan = ops.is_nan(wide)
        outside = ops.logical_or(ops.less(wide, self.low), ops.greater_equal(wide, self.high))
        zeros, inside = ops.zeros_like(wide), ops.ones_like(wide) / self.range()
        return select(is_nan, wide, select(outside, zeros, inside))

    def _cdf(self, value: Tensor) -> Tensor:
        shape = ops.broadcast_dynamic_shape(ops.shape(value), self.batch_shape_tensor())
        zeros = ops.zeros(shape, dtype=self.dtype)
        ones = ops.ones(shape, dtype=self.dtype)
        wide = value * ones
        below = select(ops.less(value, self.low), zeros, (wide - self.low) / self.range())
        return select(ops.greater_equal(value, self.high), ones, below)

    def _entropy(self) -> Tensor:
        return ops.log(self.range())

    def _mean(self) -> Tensor:
        return (self.low + self.high) / 2.0

    def _variance(self) -> Tensor:
        return ops.square(self.range()) / 12.0

    def _stddev(self) -> Tensor:
        return self.range() / math.sqrt(12.0)

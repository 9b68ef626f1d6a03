"""Student's t distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfjit import ops
from tfjit.client.probability.distribution import FULLY_REPARAMETERIZED, ScalarDistribution
from tfjit.client.probability.location_scale import tensors
from tfjit.client.probability.parameters import new_seed, param_shapes, select
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.control_flow.control_flow import with_dependencies

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


class StudentT(ScalarDistribution):
    """Student's t distribution of `df` degrees of freedom, times `scale`, plus `loc`.

    All are floats of one dtype and broadcast to the shape of the batch. The mean is NaN where df is
    at most 1, the variance infinite where it is at most 2.
    """

    def __init__(
        self,
        df: TensorLike,
        loc: TensorLike,
        scale: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "StudentT",
    ) -> None:
        given = {"df": df, "loc": loc, "scale": scale, "validate_args": validate_args}
        given.update(allow_nan_stats=allow_nan_stats, name=name)
        with name_scope(name, values=[df, loc, scale]) as scope:
            checks = [ops.assert_positive(df)] if validate_args else []
            names = ("df", "loc", "scale")
            self._df, self._loc, self._scale = tensors(names, (df, loc, scale), checks)
        super().__init__(
            self._scale.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._df, self._loc, self._scale],
            scope,
        )

    @staticmethod
    def _param_shapes(sample_shape: TensorLike) -> dict[str, Tensor]:
        return param_shapes(sample_shape, ("df", "loc", "scale"))

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self._df

    @property
    def loc(self) -> Tensor:
        """The location."""
        return self._loc

    @property
    def scale(self) -> Tensor:
        """The scale."""
        return self._scale

    def _batch_shape_tensor(self) -> Tensor:
        degrees = ops.shape(self.df)
        inner = ops.broadcast_dynamic_shape(ops.shape(self.loc), ops.shape(self.scale))
        return ops.broadcast_dynamic_shape(degrees, inner)

    def _batch_shape(self) -> TensorShape:
        outer = ops.broadcast_static_shape(self.df.shape, self.loc.shape)
        return ops.broadcast_static_shape(outer, self.scale.shape)

    def _sample_n(self, n: TensorLike, seed: int | None = None) -> Tensor:
        shape = ops.concat([[n], self.batch_shape_tensor()], 0)
        normal = ops.random_normal(shape, dtype=self.dtype, seed=seed)
        degrees = self.df * ops.ones(self.batch_shape_tensor(), dtype=self.dtype)
        gamma = ops.random_gamma(
            [n], 0.5 * degrees, beta=0.5, dtype=self.dtype, seed=new_seed(seed, "student_t")
        )
        return normal * ops.rsqrt(gamma / degrees) * self.scale + self.loc

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._log_unnormalized_prob(value) - self._log_normalization()

    def _log_unnormalized_prob(self, value: Tensor) -> Tensor:
        y = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1.0) * ops.log1p(y**2.0 / self.df)

    def _log_normalization(self) -> Tensor:
        return (
            ops.log(ops.abs(self.scale))
            + 0.5 * ops.log(self.df)
            + 0.5 * np.log(np.pi)
            + ops.lgamma(0.5 * self.df)
            - ops.lgamma(0.5 * (self.df + 1.0))
        )

    def _cdf(self, value: Tensor) -> Tensor:
        y = (value - self.loc) / ops.abs(self.scale)
        x = self.df / (y**2.0 + self.df)
        tail = 0.5 * ops.betainc(0.5 * self.df, 0.5, x)
        return select(ops.less(y, 0.0), tail, 1.0 - tail)

    def _entropy(self) -> Tensor:
        ones = ops.ones(self.batch_shape_tensor(), dtype=self.dtype)[..., None]
        degrees = ones * self.df[..., None]
        both = ops.concat([degrees, ones], -1) / 2.0
        return (
            ops.log(ops.abs(self.scale))
            + 0.5 * ops.log(self.df)
            + ops.lbeta(both)
            + 0.5
            * (self.df + 1.0)
            * (ops.digamma(0.5 * (self.df + 1.0)) - ops.digamma(0.5 * self.df))
        )

    def _mean(self) -> Tensor:
        mean = self.loc * ops.ones(self.batch_shape_tensor(), dtype=self.dtype)
        return self._where_defined(mean, "mean")

    def _where_defined(self, value: Tensor, what: str) -> Tensor:
        """Return the value where df is above 1.

        Elsewhere it is NaN, or the run fails.
        """
        if self.allow_nan_stats:
            nan = np.array(np.nan, self.dtype.as_numpy_dtype)
            ones = ops.ones(self.batch_shape_tensor(), dtype=self.dtype)
            defined = ops.greater(self.df, ones)
            return select(defined, value, ops.fill(self.batch_shape_tensor(), nan, name="nan"))
        message = f"{what} not defined for components of df <= 1"
        one = ops.ones([], dtype=self.dtype)
        return with_dependencies([ops.assert_less(one, self.df, message=message)], value)

    def _variance(self) -> Tensor:
        wide = ops.greater(self.df, 2.0)
        divisor = select(wide, self.df - 2.0, ops.ones_like(self.df))
        ones = ops.ones(self.batch_shape_tensor(), dtype=self.dtype)
        finite = ones * ops.square(self.scale) * self.df / divisor
        is_finite = self.df > ops.fill(self.batch_shape_tensor(), 2.0)
        infinity = np.array(np.inf, self.dtype.as_numpy_dtype)
        infinite = ops.fill(self.batch_shape_tensor(), infinity, name="inf")
        return self._where_defined(select(is_finite, finite, infinite), "variance")

    def _mode(self) -> Tensor:
        return ops.identity(self.loc)

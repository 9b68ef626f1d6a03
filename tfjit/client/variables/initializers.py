"""Initializers: initial values of variables, given shape and dtype."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tfjit.client.variables.variable_collections import (
    global_variables_initializer,
    local_variables_initializer,
    variables_initializer,
)
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.ops.arrays import array, creation
from tfjit.ops.arrays.movement_functions import matrix_transpose
from tfjit.ops.arrays.slicing import slice as slice_of
from tfjit.ops.core import convert
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.random_values import stateful_random

if TYPE_CHECKING:
    from tfjit.client.variables.slice_info import PartitionInfo
    from tfjit.framework.graphs.typing import DTypeLike, ShapeLike

# The standard deviation of a normal distribution truncated at two of these deviations.
_TRUNCATED_STDDEV = 0.87962566103423978


class Initializer:
    """A callable (shape, dtype) -> tensor, described by its configuration."""

    _fields: ClassVar[tuple[str, ...]] = ()

    def __call__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        partition_info: PartitionInfo | None = None,
    ) -> Tensor:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Return the arguments to make this initializer again, as JSON has them."""
        values = {name: getattr(self, name) for name in self._fields}
        return {
            name: value.name if isinstance(value, DType) else value
            for name, value in values.items()
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Return the initializer of a configuration."""
        return cls(**config)


def _sizes(shape: Any) -> list[int]:
    return [int(size) for size in shape]


class Zeros(Initializer):
    """Zeros."""

    _fields = ("dtype",)

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = as_dtype(dtype)

    def __call__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        partition_info: PartitionInfo | None = None,
    ) -> Tensor:
        return creation.zeros(shape, self.dtype if dtype is None else dtype)


class Ones(Initializer):
    """Ones."""

    _fields = ("dtype",)

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = as_dtype(dtype)

    def __call__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        partition_info: PartitionInfo | None = None,
    ) -> Tensor:
        return creation.ones(shape, self.dtype if dtype is None else dtype)


class Constant(Initializer):
    """Given values.

    Too few are filled up with the last one, unless verify_shape is set.
    """

    _fields = ("value", "dtype")

    def __init__(
        self, value: Any = 0, dtype: Any = dtypes.float32, verify_shape: bool = False
    ) -> None:
        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError(
                f"Invalid type for initial value={value} of type: {type(value).__name__}. Expected "
                "Python scalar, list or tuple of values, "
                "or numpy.ndarray."
            )
        self.value = value
        self.dtype = as_dtype(dtype)
        self._verify_shape = verify_shape

    def __call__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        partition_info: PartitionInfo | None = None,
        verify_shape: bool | None = None,
    ) -> Tensor:
        verify = self._verify_shape if verify_shape is None else verify_shape
        return convert.constant(
            self.value,
            dtype=self.dtype if dtype is None else dtype,
            shape=shape,
            verify_shape=verify,
        )


class RandomUniform(Initializer):
    """Evenly from [minval, maxval); for integers maxval has to be given."""

    _fields = ("minval", "maxval", "seed", "dtype")

    def __init__(
        self,
        minval: Any = 0.0,
        maxval: Any = None,
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        self.minval = minval
        self.maxval = maxval
        self.seed = seed
        self.dtype = as_dtype(dtype)

    def __call__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        partition_info: PartitionInfo | None = None,
    ) -> Tensor:
        return stateful_random.random_uniform(
            shape, self.minval, self.maxval, self.dtype if dtype is None else dtype, seed=self.seed
        )


class RandomNormal(Initializer):
    """From a normal distribution."""

    _fields = ("mean", "stddev", "seed", "dtype")

    def __init__(
        self,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        self.mean = mean
        self.stddev = stddev
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        partition_info: PartitionInfo | None = None,
    ) -> Tensor:
        return stateful_random.random_normal(
            shape, self.mean, self.stddev, self.dtype if dtype is None else dtype, seed=self.seed
        )


class TruncatedNormal(Initializer):
    """Values from a normal distribution, cut at two standard deviations."""

    _fields = ("mean", "stddev", "seed", "dtype")

    def __init__(
        self,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        self.mean = mean
        self.stddev = stddev
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        partition_info: PartitionInfo | None = None,
    ) -> Tensor:
        return stateful_random.truncated_normal(
            shape, self.mean, self.stddev, self.dtype if dtype is None else dtype, seed=self.seed
        )


class UniformUnitScaling(Initializer):
    """Values drawn evenly, which keep the scale of the input.

    They are from ±sqrt(3 / inputs) * factor.
    """

    _fields = ("factor", "seed", "dtype")

    def __init__(
        self, factor: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.factor = factor
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        partition_info: PartitionInfo | None = None,
    ) -> Tensor:
        inputs = 1.0
        whole = shape if partition_info is None else partition_info.full_shape
        for size in _sizes(whole)[:-1]:
            inputs *= float(size)
        bound = math.sqrt(3 / max(inputs, 1.0)) * self.factor
        return stateful_random.random_uniform(
            shape, -bound, bound, self.dtype if dtype is None else dtype, seed=self.seed
        )


class VarianceScaling(Initializer):
    """Random values whose variance is scale / n.

    mode: n is the number of inputs ("fan_in"), outputs ("fan_out") or their mean ("fan_avg") of a
    weight of this shape. distribution: "truncated_normal" ("normal" is its old name),
    "untruncated_normal" or "uniform". Raises ValueError for other values and a scale not above 0.
    """

    _fields: ClassVar[tuple[str, ...]] = ("scale", "mode", "distribution", "seed", "dtype")

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        if scale <= 0.0:
            raise ValueError(f"Argument `scale` must be a positive float. Received: {scale}")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(
                "Argument `mode` should be one of ('fan_in', 'fan_out', 'fan_avg'). Received: "
                f"{mode}"
            )
        distribution = distribution.lower()
        if distribution not in ("normal", "uniform", "truncated_normal", "untruncated_normal"):
            raise ValueError(
                "Argument `distribution` should be one of ('normal', 'uniform', "
                "'truncated_normal', 'untruncated_normal'). "
                f"Received: {distribution}"
            )
        self.scale = scale
        self.mode = mode
        self.distribution = distribution
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        partition_info: PartitionInfo | None = None,
    ) -> Tensor:
        wanted = self.dtype if dtype is None else dtype
        whole = shape if partition_info is None else partition_info.full_shape
        fan_in, fan_out = _fans(_sizes(whole))
        count = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}[
            self.mode
        ]
        variance = self.scale / max(1.0, count)
        if self.distribution in ("normal", "truncated_normal"):
            return stateful_random.truncated_normal(
                shape, 0.0, math.sqrt(variance) / _TRUNCATED_STDDEV, wanted, seed=self.seed
            )
        if self.distribution == "untruncated_normal":
            return stateful_random.random_normal(
                shape, 0.0, math.sqrt(variance), wanted, seed=self.seed
            )
        limit = math.sqrt(3.0 * variance)
        return stateful_random.random_uniform(shape, -limit, limit, wanted, seed=self.seed)


def _fans(shape: list[int]) -> tuple[float, float]:
    """Return (inputs, outputs) of a weight.

    Its shape is [inputs, outputs] behind the sizes of a kernel.
    """
    if not shape:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    field = math.prod(shape[:-2])
    return shape[-2] * field, shape[-1] * field


class Orthogonal(Initializer):
    """gain times an orthogonal matrix.

    The matrix has the shape flattened to two dimensions. Raises ValueError below two dimensions.
    """

    _fields = ("gain", "seed", "dtype")

    def __init__(
        self, gain: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.gain = gain
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        partition_info: PartitionInfo | None = None,
    ) -> Tensor:
        sizes = _sizes(shape)
        if len(sizes) < 2:
            raise ValueError(
                "The tensor to initialize, specified by argument `shape` must be at least "
                f"two-dimensional. Received shape={shape}"
            )
        rows, columns = math.prod(sizes[:-1]), sizes[-1]
        flat = (columns, rows) if rows < columns else (rows, columns)
        draw = stateful_random.random_normal(
            flat, dtype=self.dtype if dtype is None else dtype, seed=self.seed
        )
        q, r = call("Qr", input=draw, full_matrices=False)
        # This makes the distribution even over all orthogonal matrices.
        q = q * tensor("Sign", x=creation.diag_part(r))
        if rows < columns:
            q = matrix_transpose(q)
        matrix: Any = array.reshape(q, sizes)
        return self.gain * matrix


class Identity(Initializer):
    """gain times the identity matrix. Raises ValueError for other ranks."""

    _fields = ("gain", "dtype")

    def __init__(self, gain: float = 1.0, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.dtype = _floating(dtype)

    def __call__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        partition_info: PartitionInfo | None = None,
    ) -> Tensor:
        sizes = _sizes(shape if partition_info is None else partition_info.full_shape)
        if len(sizes) != 2:
            raise ValueError(
                "The tensor to initialize, specified by argument `shape` must be two-dimensional. "
                f"Received shape={shape}"
            )
        matrix: Any = creation.eye(sizes[0], sizes[1], dtype=self.dtype if dtype is None else dtype)
        if partition_info is not None:
            matrix = slice_of(matrix, partition_info.var_offset, _sizes(shape))
        return matrix if self.gain is None else self.gain * matrix


class GlorotUniform(VarianceScaling):
    """Even values, with variance 1 over the mean fan.

    The mean fan is the mean of inputs and outputs. Source: Glorot and Bengio (2010).
    """

    _fields = ("seed", "dtype")

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)


class GlorotNormal(VarianceScaling):
    """Normal values, with variance 1 over the mean fan.

    The mean fan is the mean of inputs and outputs. Source: Glorot and Bengio (2010).
    """

    _fields = ("seed", "dtype")

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)


def lecun_normal(seed: int | None = None) -> VarianceScaling:
    """Return normal values, with variance 1 / inputs."""
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


def lecun_uniform(seed: int | None = None) -> VarianceScaling:
    """Return even values, with variance 1 / inputs."""
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


def he_normal(seed: int | None = None) -> VarianceScaling:
    """Return normal values, with variance 2 / inputs (He et al. 2015)."""
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


def he_uniform(seed: int | None = None) -> VarianceScaling:
    """Return even values, with variance 2 / inputs (He et al. 2015)."""
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


def _floating(dtype: DTypeLike) -> DType:
    found = as_dtype(dtype)
    if not found.is_floating:
        raise ValueError(f"Argument `dtype` is expected to be floating point. Received: {found}.")
    return found


# TF1's names: at the top level, and in `tf.initializers`.
zeros_initializer = zeros = Zeros
ones_initializer = ones = Ones
constant_initializer = constant = Constant
random_uniform_initializer = random_uniform = RandomUniform
random_normal_initializer = random_normal = RandomNormal
truncated_normal_initializer = truncated_normal = TruncatedNormal
uniform_unit_scaling_initializer = uniform_unit_scaling = UniformUnitScaling
variance_scaling_initializer = variance_scaling = VarianceScaling
orthogonal_initializer = orthogonal = Orthogonal
glorot_uniform_initializer = glorot_uniform = GlorotUniform
glorot_normal_initializer = glorot_normal = GlorotNormal
identity = Identity
global_variables = global_variables_initializer
local_variables = local_variables_initializer
variables = variables_initializer

"""Learning rates that fall with the step.

Each function adds its nodes to a new name scope and returns the rate as a scalar tensor of
the dtype of `learning_rate`. `global_step` is a scalar tensor, a variable or a number.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes, nest
from tfjit.ops.arithmetic.elementwise_functions import (
    add,
    cast,
    ceil,
    cos,
    divide,
    equal,
    exp,
    floor,
    log,
    minimum,
    multiply,
    negative,
    pow,
    sqrt,
)
from tfjit.ops.arrays.indexing_functions import where_v2
from tfjit.ops.control_flow.conditionals import case, cond
from tfjit.ops.core.convert import constant, convert_to_tensor
from tfjit.ops.random_values.stateful_random import random_normal

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike


@contextmanager
def _schedule(
    name: str | None, default: str, learning_rate: TensorLike
) -> Iterator[tuple[str, Tensor]]:
    """Open the scope of a schedule; give it and the initial rate."""
    with name_scope(name or default) as scope:
        yield scope, convert_to_tensor(learning_rate, name="initial_learning_rate")


def exponential_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    decay_rate: TensorLike,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return learning_rate * decay_rate ** (global_step / decay_steps).

    staircase: round the exponent down.
    """
    with _schedule(name, "ExponentialDecay", learning_rate) as (scope, rate):
        steps, base = cast(decay_steps, rate.dtype), cast(decay_rate, rate.dtype)
        return multiply(rate, pow(base, _periods(global_step, steps, staircase)), name=scope)


def natural_exp_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    decay_rate: TensorLike,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return learning_rate * exp(-decay_rate * global_step / decay_steps).

    staircase: round global_step / decay_steps down.
    """
    base = exp(negative(decay_rate))
    return exponential_decay(learning_rate, global_step, decay_steps, base, staircase, name)


def inverse_time_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    decay_rate: TensorLike,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return learning_rate / (1 + decay_rate * global_step / decay_steps).

    staircase: round global_step / decay_steps down.
    """
    with _schedule(name, "InverseTimeDecay", learning_rate) as (scope, rate):
        steps, slope = cast(decay_steps, rate.dtype), cast(decay_rate, rate.dtype)
        periods = _periods(global_step, steps, staircase)
        one = cast(constant(1), rate.dtype)
        return divide(rate, add(one, multiply(slope, periods)), name=scope)


def _periods(global_step: TensorLike, decay_steps: Tensor, staircase: bool) -> Tensor:
    """Return the step in units of `decay_steps`."""
    periods = cast(global_step, decay_steps.dtype) / decay_steps
    return floor(periods) if staircase else periods


def polynomial_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    end_learning_rate: TensorLike = 0.0001,
    power: TensorLike = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return a rate that falls to end_learning_rate within decay_steps.

    It is (learning_rate - end_learning_rate) * (1 - step / decay_steps) ** power +
    end_learning_rate. The step stays at decay_steps; with `cycle`, decay_steps becomes its first
    multiple that the step has not passed.
    """
    with _schedule(name, "PolynomialDecay", learning_rate) as (scope, rate):
        end, exponent = cast(end_learning_rate, rate.dtype), cast(power, rate.dtype)
        step, steps = cast(global_step, rate.dtype), cast(decay_steps, rate.dtype)
        if cycle:
            cycles = where_v2(equal(step, 0), 1.0, ceil(step / decay_steps))
            steps = multiply(steps, cycles)
        else:
            step = minimum(step, steps)
        fraction = divide(step, steps)
        return add(multiply(rate - end, pow(1 - fraction, exponent)), end, name=scope)


def piecewise_constant(
    x: TensorLike, boundaries: Structure, values: Structure, name: str | None = None
) -> Tensor:
    """Return the value of the interval between boundaries that has `x`.

    values[0] where x <= boundaries[0], values[i] where boundaries[i - 1] < x <= boundaries[i],
    values[-1] beyond the last boundary. Raises ValueError for boundaries of another dtype than x
    (int32 ones serve an int64 x), values of several dtypes, and unless there is one more value than
    boundaries.
    """
    bounds = [convert_to_tensor(bound) for bound in nest.flatten(boundaries)]
    rates = [convert_to_tensor(value) for value in nest.flatten(values)]
    dtype = convert_to_tensor(x).dtype.base_dtype
    for k, bound in enumerate(bounds):
        if bound.dtype.base_dtype is dtypes.int32 and dtype is dtypes.int64:
            bounds[k] = cast(bound, dtype)
        elif bound.dtype.base_dtype is not dtype:
            raise ValueError(
                f"Boundaries ({bound.dtype.base_dtype}) must have the same dtype as x ({dtype})."
            )
    for rate in rates[1:]:
        if rate.dtype.base_dtype is not rates[0].dtype.base_dtype:
            raise ValueError(
                "Values must have elements all with the same dtype "
                f"({rates[0].dtype.base_dtype} vs {rate.dtype.base_dtype})."
            )
    if len(bounds) != len(rates) - 1:
        raise ValueError("The length of boundaries should be 1 less than the length of values")
    with name_scope(name or "PiecewiseConstant"):
        chosen: Tensor = _by_interval(convert_to_tensor(x), bounds, rates)
        return chosen


piecewise_constant_decay = piecewise_constant


def _by_interval(x: Structure, bounds: Sequence[Tensor], rates: Sequence[Tensor]) -> Structure:
    """Return the rate of the interval of `x` as a `case`."""

    def inside(low: Tensor, high: Tensor) -> Tensor:
        found: Tensor = (x > low) & (x <= high)
        return found

    def identical(rate: Tensor) -> Tensor:
        return rate

    cases = [(x <= bounds[0], lambda: rates[0]), (x > bounds[-1], lambda: rates[-1])]
    for low, high, rate in zip(bounds[:-1], bounds[1:], rates[1:-1], strict=True):
        cases.append((inside(low, high), functools.partial(identical, rate)))
    return case(cases, lambda: rates[0], exclusive=True)


def cosine_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    alpha: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Return a rate that falls by half a cosine within decay_steps.

    alpha: the least rate as a fraction of learning_rate. Source: Loshchilov and Hutter, "SGDR"
    (2016).
    """
    with _schedule(name, "CosineDecay", learning_rate) as (_, rate):
        steps = cast(decay_steps, rate.dtype)
        step = minimum(cast(global_step, rate.dtype), steps)
        return multiply(rate, (1 - alpha) * (0.5 * _raised_cosine(step / steps)) + alpha)


def cosine_decay_restarts(
    learning_rate: TensorLike,
    global_step: TensorLike,
    first_decay_steps: TensorLike,
    t_mul: TensorLike = 2.0,
    m_mul: TensorLike = 1.0,
    alpha: TensorLike = 0.0,
    name: str | None = None,
) -> Tensor:
    """Return a rate that falls by half a cosine again and again.

    t_mul: the factor from one period's length to the next. m_mul: the factor from one period's
    first rate to the next. alpha: the least rate as a fraction of learning_rate. Source: Loshchilov
    and Hutter, "SGDR" (2016).
    """
    with _schedule(name, "SGDRDecay", learning_rate) as (scope, rate):
        dtype = rate.dtype
        steps, least = cast(first_decay_steps, dtype), cast(alpha, dtype)
        longer, lower = cast(t_mul, dtype), cast(m_mul, dtype)
        elapsed = cast(global_step, dtype) / steps  # in lengths of the first period

        def even() -> tuple[Tensor, Tensor]:
            restarts = floor(elapsed)
            return restarts, elapsed - restarts

        def geometric() -> tuple[Tensor, Tensor]:
            restarts = floor(log(1.0 - elapsed * (1.0 - longer)) / log(longer))
            begin = (1.0 - longer**restarts) / (1.0 - longer)
            return restarts, (elapsed - begin) / longer**restarts

        restarts, fraction = cond(equal(longer, 1.0), even, geometric)
        cosine = 0.5 * lower**restarts * _raised_cosine(fraction)
        return multiply(rate, (1 - least) * cosine + least, name=scope)


def linear_cosine_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    num_periods: TensorLike = 0.5,
    alpha: TensorLike = 0.0,
    beta: TensorLike = 0.001,
    name: str | None = None,
) -> Tensor:
    """Return a rate that falls by a line times a cosine.

    It is learning_rate * ((alpha + 1 - t) * (1 + cos(2 pi num_periods t)) / 2 + beta), where t is
    the fraction of decay_steps that have passed. Source: Bello et al., "Neural Optimizer Search
    with Reinforcement Learning" (2017).
    """
    with _schedule(name, "LinearCosineDecay", learning_rate) as (scope, rate):
        dtype = rate.dtype
        steps, periods = cast(decay_steps, dtype), cast(num_periods, dtype)
        offset, least = cast(alpha, dtype), cast(beta, dtype)
        step = minimum(cast(global_step, dtype), steps)
        line = (steps - step) / steps
        cosine = 0.5 * _raised_cosine(2.0 * periods * (step / steps))
        return multiply(rate, (offset + line) * cosine + least, name=scope)


def noisy_linear_cosine_decay(
    learning_rate: TensorLike,
    global_step: TensorLike,
    decay_steps: TensorLike,
    initial_variance: TensorLike = 1.0,
    variance_decay: TensorLike = 0.55,
    num_periods: TensorLike = 0.5,
    alpha: TensorLike = 0.0,
    beta: TensorLike = 0.001,
    name: str | None = None,
) -> Tensor:
    """Do as `linear_cosine_decay` with normal noise added to the line.

    The noise has the variance initial_variance / (1 + step) ** variance_decay. Source: Bello et
    al., "Neural Optimizer Search with Reinforcement Learning" (2017).
    """
    with _schedule(name, "NoisyLinearCosineDecay", learning_rate) as (scope, rate):
        dtype = rate.dtype
        steps = cast(decay_steps, dtype)
        first, slowing = cast(initial_variance, dtype), cast(variance_decay, dtype)
        periods, offset, least = cast(num_periods, dtype), cast(alpha, dtype), cast(beta, dtype)
        step = minimum(cast(global_step, dtype), steps)
        line = (steps - step) / steps
        deviation = sqrt(first / pow(1.0 + step, slowing))
        noisy = line + random_normal(line.shape, stddev=deviation)
        cosine = 0.5 * _raised_cosine(2.0 * periods * (step / steps))
        return multiply(rate, (offset + noisy) * cosine + least, name=scope)


def _raised_cosine(halves: Tensor) -> Tensor:
    """Return 1 + cos(pi * halves)."""
    return 1.0 + cos(constant(math.pi) * halves)

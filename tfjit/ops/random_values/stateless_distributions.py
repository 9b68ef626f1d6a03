"""Define draws of more distributions by seeds, and seeds made of seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value_as_shape
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.random_values.stateless_random import (
    generator_inputs,
    shape_tensor,
    stateless_random_uniform,
)

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, ShapeLike, TensorLike

_SHUFFLE_KEY = 498247692  # the first of three words of a key, before a pair of seeds


def _sized(drawn: Tensor, sizes: Tensor) -> Tensor:
    """Give a tensor the static shape that `sizes` holds, where known."""
    drawn.set_shape(constant_value_as_shape(sizes))
    return drawn


def stateless_random_binomial(
    shape: ShapeLike,
    seed: TensorLike,
    counts: TensorLike,
    probs: TensorLike,
    output_dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Draw the number of successes; two seeds determine the values.

    counts, probs: the trials and their probability, which broadcast to the last axes of `shape`.
    """
    with name_scope(name, "stateless_random_binomial", [shape, seed, counts, probs]):
        sizes = shape_tensor(shape)
        chance = convert_to_tensor(probs, preferred_dtype=dtypes.float32, name="probs")
        trials = convert_to_tensor(counts, preferred_dtype=chance.dtype, name="counts")
        result = tensor(
            "StatelessRandomBinomial",
            None,
            shape=sizes,
            seed=seed,
            counts=trials,
            probs=chance,
            dtype=output_dtype,
        )
        return _sized(result, sizes)


def stateless_random_gamma(
    shape: ShapeLike,
    seed: TensorLike,
    alpha: TensorLike,
    beta: TensorLike | None = None,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Draw from gamma distributions; two seeds determine the values.

    alpha: the shape parameters. beta: the inverse scales, 1 by default. Both broadcast to the last
    axes of `shape`.
    """
    with name_scope(name, "stateless_random_gamma", [shape, seed, alpha, beta]):
        sizes = shape_tensor(shape)
        form = convert_to_tensor(alpha, dtype=dtype, name="alpha")
        rate = convert_to_tensor(1 if beta is None else beta, name="beta", dtype=dtype)
        common = tensor(
            "BroadcastArgs",
            None,
            s0=tensor("Shape", None, input=form),
            s1=tensor("Shape", None, input=rate),
        )
        wide = tensor("BroadcastTo", None, input=form, shape=common)
        drawn = tensor(
            "StatelessRandomGammaV3",
            None,
            shape=sizes,
            **generator_inputs(seed, "auto_select"),
            alpha=wide,
        )
        least = np.finfo(form.dtype.as_numpy_dtype).tiny
        return _sized(tensor("Maximum", None, x=least, y=drawn / rate), sizes)


def stateless_random_poisson(
    shape: ShapeLike,
    seed: TensorLike,
    lam: TensorLike,
    dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Draw from Poisson distributions; two seeds determine the values.

    lam: the means, which broadcast to the last axes of `shape`.
    """
    with name_scope(name, "stateless_random_poisson", [shape, seed, lam]):
        sizes = shape_tensor(shape)
        drawn = tensor("StatelessRandomPoisson", None, shape=sizes, seed=seed, lam=lam, dtype=dtype)
        return _sized(drawn, sizes)


def stateless_shuffle(
    value: TensorLike, seed: TensorLike, alg: TensorLike = "auto_select", name: str | None = None
) -> Tensor:
    """Return rows in an order that two seeds determine."""
    with name_scope(name, "stateless_shuffle", [value, seed]):
        return tensor("StatelessShuffle", None, value=value, **generator_inputs(seed, alg))


def split(seed: TensorLike, num: int = 2, alg: TensorLike = "auto_select") -> Tensor:
    """Return `num` new pairs of seeds, [num, 2], made of one."""
    pair = convert_to_tensor(seed)
    return stateless_random_uniform(
        shape=[num, 2], seed=pair, minval=None, maxval=None, dtype=pair.dtype, alg=alg
    )


def fold_in(seed: TensorLike, data: TensorLike, alg: TensorLike = "auto_select") -> Tensor:
    """Return a pair of seeds made of one and of an integer."""
    number = convert_to_tensor(data)
    drawn = stateless_random_uniform(
        shape=[], seed=seed, minval=None, maxval=None, dtype=number.dtype, alg=alg
    )
    return tensor("Pack", "stack", values=[drawn, number])


def index_shuffle(index: TensorLike, seed: TensorLike, max_index: TensorLike) -> Tensor:
    """Return the place of each index in a permutation of 0..max_index.

    index, max_index: integers, scalars or [n]. seed: two integers.
    """
    pair = convert_to_tensor(seed)
    rank = pair.shape.rank
    before = [[1, 0]] + [[0, 0]] * ((rank or 1) - 1)
    key = tensor("PadV2", None, input=pair, paddings=before, constant_values=_SHUFFLE_KEY)
    return tensor("RandomIndexShuffle", None, index=index, seed=key, max_index=max_index, rounds=4)


def random_index_shuffle(
    index: TensorLike,
    seed: TensorLike,
    max_index: TensorLike,
    rounds: int = 4,
    name: str | None = None,
) -> Tensor:
    """Return the place of each index, as `index_shuffle`.

    seed: a key of three words, [3] or [n, 3]. rounds: of the cipher, an even number from 4 on.
    """
    return tensor(
        "RandomIndexShuffle", name, index=index, seed=seed, max_index=max_index, rounds=rounds
    )

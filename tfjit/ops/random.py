"""Present tf.random.

Random values, from a graph's or an explicit seed.
"""

from tfjit.framework.graphs.random_seed import get_seed, set_random_seed
from tfjit.ops.random_values.stateful_random import categorical, multinomial, truncated_normal
from tfjit.ops.random_values.stateful_random import random_gamma as gamma
from tfjit.ops.random_values.stateful_random import random_normal as normal
from tfjit.ops.random_values.stateful_random import random_poisson as poisson
from tfjit.ops.random_values.stateful_random import random_shuffle as shuffle
from tfjit.ops.random_values.stateful_random import random_uniform as uniform
from tfjit.ops.random_values.stateless_random import (
    stateless_categorical,
    stateless_multinomial,
    stateless_truncated_normal,
)
from tfjit.ops.random_values.stateless_random import stateless_random_normal as stateless_normal
from tfjit.ops.random_values.stateless_random import stateless_random_uniform as stateless_uniform

__all__ = [
    "categorical",
    "gamma",
    "get_seed",
    "multinomial",
    "normal",
    "poisson",
    "set_random_seed",
    "shuffle",
    "stateless_categorical",
    "stateless_multinomial",
    "stateless_normal",
    "stateless_truncated_normal",
    "stateless_uniform",
    "truncated_normal",
    "uniform",
]

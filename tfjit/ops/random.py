"""Present tf.random.

Random values, from a graph's or an explicit seed.
"""

from tfjit.framework.graphs.random_seed import get_seed, set_random_seed
from tfjit.ops import random_experimental as experimental
from tfjit.ops.random_values.candidate_sampling import (
    all_candidate_sampler,
    fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from tfjit.ops.random_values.stateful_random import categorical, multinomial, truncated_normal
from tfjit.ops.random_values.stateful_random import random_gamma as gamma
from tfjit.ops.random_values.stateful_random import random_normal as normal
from tfjit.ops.random_values.stateful_random import random_poisson as poisson
from tfjit.ops.random_values.stateful_random import random_shuffle as shuffle
from tfjit.ops.random_values.stateful_random import random_uniform as uniform
from tfjit.ops.random_values.stateless_distributions import (
    fold_in,
    split,
)
from tfjit.ops.random_values.stateless_distributions import (
    stateless_random_binomial as stateless_binomial,
)
from tfjit.ops.random_values.stateless_distributions import (
    stateless_random_gamma as stateless_gamma,
)
from tfjit.ops.random_values.stateless_distributions import (
    stateless_random_poisson as stateless_poisson,
)
from tfjit.ops.random_values.stateless_random import (
    stateless_categorical,
    stateless_multinomial,
    stateless_truncated_normal,
)
from tfjit.ops.random_values.stateless_random import stateless_random_normal as stateless_normal
from tfjit.ops.random_values.stateless_random import stateless_random_uniform as stateless_uniform

__all__ = [
    "all_candidate_sampler",
    "categorical",
    "experimental",
    "fixed_unigram_candidate_sampler",
    "fold_in",
    "gamma",
    "get_seed",
    "learned_unigram_candidate_sampler",
    "log_uniform_candidate_sampler",
    "multinomial",
    "normal",
    "poisson",
    "set_random_seed",
    "shuffle",
    "split",
    "stateless_binomial",
    "stateless_categorical",
    "stateless_gamma",
    "stateless_multinomial",
    "stateless_normal",
    "stateless_poisson",
    "stateless_truncated_normal",
    "stateless_uniform",
    "truncated_normal",
    "uniform",
    "uniform_candidate_sampler",
]

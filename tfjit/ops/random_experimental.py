"""Present tf.random.experimental: shuffles by seeds, and seeds made of seeds."""

from tfjit.ops.random_values.stateless_distributions import fold_in as stateless_fold_in
from tfjit.ops.random_values.stateless_distributions import index_shuffle, stateless_shuffle
from tfjit.ops.random_values.stateless_distributions import split as stateless_split

__all__ = ["index_shuffle", "stateless_fold_in", "stateless_shuffle", "stateless_split"]

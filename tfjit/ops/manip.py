"""Present tf.manip: functions that move elements."""

from tfjit.ops.arrays.array import reshape
from tfjit.ops.arrays.indexing_functions import gather_nd, scatter_nd
from tfjit.ops.arrays.movement_functions import reverse, roll, tile
from tfjit.ops.arrays.space import batch_to_space_nd, space_to_batch_nd

__all__ = [
    "batch_to_space_nd",
    "gather_nd",
    "reshape",
    "reverse",
    "roll",
    "scatter_nd",
    "space_to_batch_nd",
    "tile",
]

"""`tfjit.ragged`: functions of ragged tensors, with TensorFlow 1's names and argument names."""

from tfjit.client.ragged import (
    arrays,
    embeddings,
    mapping,
    operators,
    reductions,
    where,
)
from tfjit.client.ragged.concat import stack
from tfjit.client.ragged.constants import constant, constant_value, placeholder
from tfjit.client.ragged.elementwise import map_flat_values
from tfjit.client.ragged.partitioning import (
    boolean_mask,
    cross,
    cross_hashed,
    stack_dynamic_partitions,
)
from tfjit.client.ragged.partitioning import range_of_rows as range
from tfjit.client.ragged.ragged_tensor import RaggedTensor as RaggedTensor  # not in __all__
from tfjit.client.ragged.ragged_value import RaggedTensorValue
from tfjit.client.ragged.row_partition import row_splits_to_segment_ids, segment_ids_to_row_splits
from tfjit.client.ragged.spec import RaggedTensorSpec as RaggedTensorSpec

# Imported for what they register: handlers of public functions, operators.
_REGISTERING = (arrays, embeddings, mapping, operators, reductions, where)

__all__ = [
    "RaggedTensorValue",
    "boolean_mask",
    "constant",
    "constant_value",
    "cross",
    "cross_hashed",
    "map_flat_values",
    "placeholder",
    "range",
    "row_splits_to_segment_ids",
    "segment_ids_to_row_splits",
    "stack",
    "stack_dynamic_partitions",
]

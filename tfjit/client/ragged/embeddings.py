"""Look up the rows of tables by ragged ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.composites import embeddings
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.client.ragged.elementwise import map_flat_values
from tfjit.client.ragged.handlers import handles
from tfjit.client.ragged.ragged_tensor import RaggedTensor, dense_or_ragged
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrRagged, TensorLike


@handles(embeddings.embedding_lookup)
def embedding_lookup(
    params: TensorLike,
    ids: DenseOrRagged,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: TensorLike | None = None,
) -> DenseOrRagged:
    """Return the row of each id; see `tf.nn.embedding_lookup`."""
    if params is None:
        raise ValueError("params must be specified.")
    if isinstance(params, (list, tuple)) and not params:
        raise ValueError("params should not be empty.")
    ragged = dense_or_ragged(ids)
    if ragged.dtype not in (dtypes.int32, dtypes.int64):
        raise ValueError(
            f"The values contained by the inputs have type {ragged.dtype} and cannot be processed. "
            "All values should be indices, either of type `int32` or `int64`."
        )
    with name_scope(name, "embedding_lookup_ragged"):
        return map_flat_values(
            embeddings.embedding_lookup,
            params=params,
            ids=ragged,
            partition_strategy=partition_strategy,
            max_norm=max_norm,
        )


@handles(embeddings.embedding_lookup_sparse)
def embedding_lookup_sparse(
    params: TensorLike,
    sp_ids: DenseOrRagged,
    sp_weights: DenseOrRagged | None,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: TensorLike | None = None,
    allow_fast_lookup: bool = False,
) -> Tensor:
    """Combine the rows of each row of ids; see `tf.nn.embedding_lookup_sparse`.

    Raises TypeError for weights that are not ragged.
    """
    ids, weights = _matrices(sp_ids, sp_weights)
    return embeddings.embedding_lookup_sparse(
        params, ids, weights, partition_strategy, name, combiner, max_norm, allow_fast_lookup
    )


@handles(embeddings.safe_embedding_lookup_sparse)
def safe_embedding_lookup_sparse(
    embedding_weights: TensorLike,
    sparse_ids: DenseOrRagged,
    sparse_weights: DenseOrRagged | None = None,
    combiner: str = "mean",
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: TensorLike | None = None,
    allow_fast_lookup: bool = False,
) -> Tensor:
    """Combine the rows of valid ids; see `tf.nn.safe_embedding_lookup_sparse`."""
    ids, weights = _matrices(sparse_ids, sparse_weights)
    return embeddings.safe_embedding_lookup_sparse(
        embedding_weights,
        ids,
        weights,
        combiner,
        default_id,
        name,
        partition_strategy,
        max_norm,
        allow_fast_lookup,
    )


def _matrices(
    ids: DenseOrRagged, weights: DenseOrRagged | None
) -> tuple[SparseTensor, SparseTensor | None]:
    """Return ids and weights as sparse matrices of the same places."""
    if weights is not None and not isinstance(weights, RaggedTensor):
        raise TypeError(
            "sp_ids must be of the same type as sp_weights, received "
            f"{type(ids).__name__!r} for sp_ids and {type(weights).__name__!r} for sp_weights."
        )
    ragged = dense_or_ragged(ids)
    sparse = ragged.to_sparse()
    if weights is None:
        return sparse, None
    ragged.shape.assert_is_compatible_with(weights.shape)
    flat = ops.reshape(weights.flat_values, [-1])
    return sparse, SparseTensor(sparse.indices, flat, sparse.dense_shape)

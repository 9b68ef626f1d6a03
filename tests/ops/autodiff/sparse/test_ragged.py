"""Gradients of ragged tensors, beside TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow

import tfjit

tf1 = tensorflow.compat.v1
VALUES = np.random.default_rng(3).standard_normal((6, 2)).astype(np.float32)
SPLITS = np.array([0, 2, 2, 5, 6])
FACTORS = np.random.default_rng(4).standard_normal((200, 2)).astype(np.float32)


def gradients(lib: Any) -> list[np.ndarray]:
    """Return the gradients of gathers and of dense and sparse forms."""
    raw = lib.raw_ops
    with lib.Graph().as_default() as graph:
        values, default = lib.constant(VALUES), lib.constant([0.5, 0.25])
        one = lib.constant(0.5)
        gathered = raw.RaggedGather(
            params_nested_splits=[SPLITS],
            params_dense_values=values,
            indices=np.array([3, 0, 0, 2]),
            OUTPUT_RAGGED_RANK=1,
        )[-1]
        sparse = raw.RaggedTensorToSparse(
            rt_nested_splits=[SPLITS], rt_dense_values=values[:, 0]
        ).sparse_values

        def dense(fill: Any, flat: Any, size: list[int]) -> Any:
            return raw.RaggedTensorToTensor(
                shape=np.array(size),
                values=flat,
                default_value=fill,
                row_partition_tensors=[SPLITS],
                row_partition_types=["ROW_SPLITS"],
            )

        def weighted(y: Any) -> Any:
            factors = FACTORS.reshape(-1)[: int(np.prod(y.shape.as_list()))]
            return lib.reduce_sum(y * factors.reshape(y.shape.as_list()))

        def decoded(batched: bool) -> Any:
            variant = raw.RaggedTensorToVariant(
                rt_nested_splits=[SPLITS], rt_dense_values=values, batched_input=batched
            )
            return raw.RaggedTensorFromVariant(
                encoded_ragged=variant,
                input_ragged_rank=-1,
                output_ragged_rank=1,
                Tvalues=lib.float32,
            ).output_dense_values

        pairs = [
            *(
                (lib.reduce_sum(decoded(batched) * FACTORS[:6]), [values])
                for batched in (False, True)
            ),
            (lib.reduce_sum(gathered * FACTORS[:8]), [values]),
            (lib.reduce_sum(sparse * FACTORS[:6, 0]), [values]),
            (weighted(dense(default, values, [4, 5, 2])), [values, default]),
            (weighted(dense(one, values, [4, 5, 2])), [values, one]),
            (weighted(dense(one, values[:, 0], [3, 2])), [values, one]),
        ]
        found = [
            lib.convert_to_tensor(gradient) for y, xs in pairs for gradient in lib.gradients(y, xs)
        ]
    with lib.Session(graph=graph) as session:
        result: list[np.ndarray] = session.run(found)
        return result


def test_gradients_equal_tensorflows() -> None:
    for found, wanted in zip(gradients(tfjit), gradients(tf1), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)

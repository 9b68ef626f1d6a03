"""`tf.map_fn` over the rows of ragged tensors, and with ragged results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.ragged.handlers import handles
from tfjit.client.ragged.ragged_tensor import RaggedTensor, dense_or_ragged
from tfjit.client.ragged.spec import RaggedTensorSpec
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.types import nest
from tfjit.framework.types.dtypes import variant

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


@handles(ops.map_fn)
def map_fn(
    fn: Callable[..., Structure],
    elems: Structure,
    dtype: Structure = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Structure = None,
) -> Structure:
    """Return `fn` of each row of `elems`, stacked; see `tf.map_fn`.

    Rows are passed to the loop as variants. A result is ragged where fn_output_signature has a
    RaggedTensorSpec of the results of `fn`.
    """
    with name_scope(name, "map"):
        given = [dense_or_ragged(value) for value in nest.flatten(elems)]
        specs = [
            RaggedTensorSpec.from_value(value).of_rows()
            if isinstance(value, RaggedTensor)
            else None
            for value in given
        ]
        rows = [
            value._to_variant(batched_input=True) if isinstance(value, RaggedTensor) else value
            for value in given
        ]
        signature = fn_output_signature if fn_output_signature is not None else dtype
        if signature is None:
            results = [spec or value.dtype for spec, value in zip(specs, given)]
            signature = nest.pack_sequence_as(elems, results)
        wanted = nest.flatten(signature)
        ragged = [spec if isinstance(spec, RaggedTensorSpec) else None for spec in wanted]

        def compute(parts: Structure) -> Structure:
            row = [
                part if spec is None else spec.decoded(part)
                for part, spec in zip(nest.flatten(parts), specs, strict=True)
            ]
            made = fn(nest.pack_sequence_as(elems, row))
            nest.assert_same_structure(signature, made)
            return nest.pack_sequence_as(
                signature,
                [
                    value if spec is None else spec.encoded(value)
                    for value, spec in zip(nest.flatten(made), ragged, strict=True)
                ],
            )

        kinds = [
            getattr(kind, "dtype", kind) if spec is None else variant
            for kind, spec in zip(wanted, ragged, strict=True)
        ]
        found = ops.map_fn(
            compute,
            nest.pack_sequence_as(elems, rows),
            nest.pack_sequence_as(signature, kinds),
            parallel_iterations,
            back_prop,
            swap_memory,
            infer_shape,
        )
        return nest.pack_sequence_as(
            signature,
            [
                value if spec is None else spec.decoded(value, batches=1)
                for value, spec in zip(nest.flatten(found), ragged, strict=True)
            ],
        )

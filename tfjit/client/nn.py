"""`tfjit.nn`: the functions of tfjit.ops.nn, composites, recurrent networks, sampled losses."""

from __future__ import annotations

import importlib
from typing import Any, Final

# module -> its public names
_HOMES: Final = {
    "tfjit.client.composites.ctc": (
        "collapse_repeated ctc_beam_search_decoder ctc_beam_search_decoder_v2 ctc_greedy_decoder "
        "ctc_loss ctc_loss_v2 ctc_unique_labels"
    ),
    "tfjit.client.composites.embeddings": (
        "embedding_lookup embedding_lookup_sparse safe_embedding_lookup_sparse"
    ),
    "tfjit.client.composites.losses": (
        "compute_average_loss log_poisson_loss scale_regularization_loss"
    ),
    "tfjit.client.composites.spatial": (
        "atrous_conv2d_transpose avg_pool_v2 conv_transpose max_pool_v2 pool with_space_to_batch"
    ),
    "tfjit.client.composites.statistics": (
        "batch_norm_with_global_normalization normalize_moments sufficient_statistics "
        "weighted_moments"
    ),
    "tfjit.client.evaluation.sampled_losses": "nce_loss sampled_softmax_loss",
    "tfjit.client.rnn.raw_rnn": "raw_rnn",
    "tfjit.client.rnn.rnn": (
        "bidirectional_dynamic_rnn dynamic_rnn static_bidirectional_rnn static_rnn"
    ),
    "tfjit.client.rnn.saved_states": "static_state_saving_rnn",
}
_NAMES: Final = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [*_NAMES, "rnn_cell"]  # noqa: PLE0604, F822


def __getattr__(name: str) -> Any:
    if name == "rnn_cell":
        value: object = importlib.import_module("tfjit.client.rnn_cell")
    elif name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    else:
        ops = importlib.import_module("tfjit.ops.nn")
        if name.startswith("_") or name not in ops.__all__:
            raise AttributeError(f"module 'tfjit.nn' has no attribute {name!r}")
        return getattr(ops, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *importlib.import_module("tfjit.ops.nn").__all__})

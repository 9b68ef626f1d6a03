"""Implement ops that need the session: variables, queues, readers, functions.

In: an OpContext and inputs. Out: outputs, at once or through a callback. `load` registers the
kernels of one family. Not in here: state that outlives a run, which stands in `resources`.
"""

import importlib
from typing import Final

_DATASETS: Final = (
    "datasets.batch_ops",
    "datasets.cache_ops",
    "datasets.file_ops",
    "datasets.generator_ops",
    "datasets.group_ops",
    "datasets.iterator_ops",
    "datasets.map_ops",
    "datasets.parallel_ops",
    "datasets.parse_ops",
    "datasets.result_ops",
    "datasets.selection_ops",
    "datasets.sequence_ops",
    "datasets.shuffle_ops",
    "datasets.source_ops",
)
"""The modules of datasets, which most pipelines need together."""

_MODULES: Final = {
    "arrays.array": ("io.transfer_ops", "io.constant_ops"),
    "arrays.collective": ("io.collective_ops",),
    "arrays.session_handle": ("io.session_handle_ops",),
    "arrays.transfer": ("io.transfer_ops",),
    "containers.optional": ("containers.optional_ops",),
    "containers.tensor_array": ("containers.tensor_array_ops",),
    "containers.tensor_list": ("containers.tensor_list_ops", "containers.variant_ops"),
    "containers.tensor_map": ("containers.tensor_map_ops",),
    "control_flow.control_flow": ("control_flow.control_flow_ops",),
    "control_flow.functional": ("control_flow.functional_ops", "control_flow.map_defun"),
    "control_flow.py_func": ("control_flow.py_func",),
    "random_values.rng": ("state.rng_ops",),
    "records.dataset": _DATASETS,
    "records.dataset_option": _DATASETS,
    "records.io": ("io.io_ops", "io.saved_slices_ops"),
    "records.reader": ("io.reader_ops",),
    "records.summary": ("io.summary_ops",),
    "records.warm_start": ("io.warm_start_ops",),
    "sparse.ragged": ("containers.ragged_ops",),
    "sparse.sparse_matrix": ("containers.csr_matrix_ops",),
    "sparse.sparse": ("containers.sparse_map_ops",),
    "state.accumulator": ("state.accumulator_ops",),
    "state.barrier": ("state.barrier_ops",),
    "state.lookup": ("io.lookup_ops",),
    "state.queue": ("state.queue_ops",),
    "state.stack": ("state.stack_ops",),
    "state.staging": ("state.staging_ops", "io.record_input_ops"),
    "state.variable": ("state.variable_ops",),
}
"""Op family -> the modules that register its kernels.

A family that is not listed has none.
"""

_WITHOUT_FAMILY: Final = {
    "variants": ("containers.variant_ops", "containers.sparse_variant_ops"),
    "offload": ("control_flow.offload_ops",),
}


def load(family: str) -> None:
    """Import the kernels of an op family, of "variants" or of "offload"."""
    for module in _WITHOUT_FAMILY.get(family) or _MODULES.get(family, ()):
        importlib.import_module(f"{__name__}.{module}")


def load_all() -> None:
    """Import the kernels of all families."""
    for family in _MODULES:
        load(family)


__all__ = ["load", "load_all"]

"""tfjit runs TensorFlow 1 graphs, compiled with Numba.

`import tfjit as tf` gives the TF1-style names. They are fetched from the layers below when they are
first used: `import tfjit` loads neither Numba nor networkx.
"""

import importlib
import os
import sys
from typing import Any

newaxis = None  # in an index: a new axis of size 1

# module -> its public names
_HOMES = {
    "tfjit.client.session.base_session": "BaseSession",
    "tfjit.client.session.default_session": "get_default_session",
    "tfjit.client.session.session": "Session InteractiveSession",
    "tfjit.client.session.patch_tensorflow": "patch_tensorflow",
    "tfjit.client.session.fetches": "register_session_run_conversion_functions",
    "tfjit.client.variables.variables": "Variable",
    "tfjit.client.variables.synchronization": "VariableAggregation VariableSynchronization",
    "tfjit.client.variables.resource_default": (
        "disable_resource_variables enable_resource_variables resource_variables_enabled"
    ),
    "tfjit.client.variables.assignments": (
        "assign assign_add assign_sub count_up_to scatter_add scatter_div scatter_max scatter_min "
        "scatter_mul scatter_nd_add "
        "scatter_nd_sub scatter_nd_update scatter_sub scatter_update"
    ),
    "tfjit.client.variables.variable_scope": (
        "AUTO_REUSE VariableScope get_variable_scope no_regularizer variable_op_scope "
        "variable_scope"
    ),
    "tfjit.client.logging": "get_logger",
    "tfjit.client.printing": "print",
    "tfjit.client.version": (
        "GRAPH_DEF_VERSION GRAPH_DEF_VERSION_MIN_CONSUMER GRAPH_DEF_VERSION_MIN_PRODUCER VERSION"
    ),
    "tfjit.client.variables.template": "make_template",
    "tfjit.client.variables.variable_creators": "variable_creator_scope",
    "tfjit.framework.graphs.function_graph": "init_scope",
    "tfjit.client.variables.partitioners": (
        "create_partitioned_variables fixed_size_partitioner min_max_variable_partitioner "
        "variable_axis_size_partitioner"
    ),
    "tfjit.client.variables.get_variable": "get_local_variable get_variable",
    "tfjit.client.variables.variable_collections": (
        "all_variables assert_variables_initialized global_variables global_variables_initializer "
        "initialize_all_tables "
        "initialize_all_variables initialize_local_variables initialize_variables "
        "is_variable_initialized local_variables "
        "local_variables_initializer model_variables moving_average_variables "
        "report_uninitialized_variables tables_initializer "
        "trainable_variables variables_initializer"
    ),
    "tfjit.client.variables.initializers": (
        "constant_initializer glorot_normal_initializer glorot_uniform_initializer "
        "ones_initializer orthogonal_initializer "
        "random_normal_initializer random_uniform_initializer truncated_normal_initializer "
        "uniform_unit_scaling_initializer "
        "variance_scaling_initializer zeros_initializer"
    ),
    "tfjit.client.modes": (
        "disable_eager_execution disable_tensor_equality disable_v2_behavior "
        "disable_v2_tensorshape "
        "enable_v2_tensorshape executing_eagerly is_tensor"
    ),
    "tfjit.client.data.accumulators": (
        "ConditionalAccumulator ConditionalAccumulatorBase SparseConditionalAccumulator"
    ),
    "tfjit.client.composites.spectra": (
        "fft fft2d fft3d fftnd=plain_fftnd ifft ifft2d ifft3d ifftnd=plain_ifftnd "
        "irfftnd=plain_irfftnd rfftnd=plain_rfftnd"
    ),
    "tfjit.client.composites.sparse_batches": (
        "deserialize_many_sparse edit_distance serialize_many_sparse serialize_sparse "
        "sparse_reduce_max_sparse=reduce_max_sparse sparse_reduce_sum_sparse=reduce_sum_sparse"
    ),
    "tfjit.client.composites.recomputation": "recompute_grad",
    "tfjit.client.composites.histograms": "fingerprint histogram_fixed_width_bins",
    "tfjit.client.data.queues": "FIFOQueue PaddingFIFOQueue PriorityQueue QueueBase "
    "RandomShuffleQueue",
    "tfjit.client.data.features": (
        "FixedLenFeature FixedLenSequenceFeature SparseFeature VarLenFeature"
    ),
    "tfjit.client.data.example_parsing": (
        "parse_example parse_single_example parse_single_sequence_example"
    ),
    "tfjit.client.data.parsing": (
        "decode_csv decode_json_example decode_raw "
        "string_to_hash_bucket string_to_hash_bucket_fast string_to_hash_bucket_strong "
        "string_to_number"
    ),
    "tfjit.client.data.sparse_specs": "SparseTensorSpec",
    "tfjit.client.data.sparse_tensors": (
        "SparseTensor SparseTensorValue convert_to_tensor_or_sparse_tensor sparse_placeholder"
    ),
    "tfjit.client.ragged.ragged": "RaggedTensor RaggedTensorSpec",
    "tfjit.client.sparse": (
        "sparse_add sparse_concat sparse_fill_empty_rows sparse_mask sparse_maximum sparse_merge "
        "sparse_minimum sparse_reduce_max "
        "sparse_reduce_sum sparse_reorder sparse_reset_shape sparse_reshape sparse_retain "
        "sparse_slice sparse_softmax sparse_split "
        "sparse_tensor_dense_matmul sparse_tensor_to_dense sparse_to_dense sparse_to_indicator "
        "sparse_transpose"
    ),
    "tfjit.client.strings": (
        "as_string decode_base64 encode_base64 parse_tensor regex_replace serialize_tensor "
        "reduce_join string_join=join string_split "
        "string_strip=strip substr unicode_transcode"
    ),
    "tfjit.client.data.file_ops": "matching_files read_file write_file",
    "tfjit.client.data.readers": "FixedLengthRecordReader IdentityReader ReaderBase TFRecordReader "
    "TextLineReader WholeFileReader",
    "tfjit.client.images.cropping": "random_crop",
    "tfjit.client.images.patches": "extract_image_patches extract_volume_patches",
    "tfjit.client.user_ops": "register_op unregister_op",
    "tfjit.client.session.tensor_handles": "delete_session_tensor get_session_handle "
    "get_session_tensor",
    "tfjit.distributed.local_cluster": "LocalCluster local_cluster",
    "tfjit.framework.env": "Clock Env FileSystem",
    "tfjit.runtime.factory": "SessionFactory SessionOptions new_session try_new_session",
    "tfjit.runtime.session.compile_status": "compile_status",
    "tfjit.runtime.session.rewriter_config": "register_graph_optimizer",
    "tfjit.runtime.resources.variables_and_resources": "SessionResource",
    "tfjit.framework.graphs.default_graph": (
        "add_to_collection add_to_collections colocate_with container control_dependencies device "
        "get_all_collection_keys get_collection "
        "get_collection_ref get_default_graph get_name_scope name_scope op_scope "
        "reset_default_graph"
    ),
    "tfjit.framework.types.device_spec": "DeviceSpec",
    "tfjit.framework.types.dtypes": (
        "DType as_dtype bfloat16 bool complex128 complex64 double float16 float32 float64 half "
        "int16 int32 int64 int8 qint16 qint32 qint8 "
        "quint16 quint8 resource string uint16 uint32 uint64 uint8 variant"
    ),
    "tfjit.framework.errors": "OpError",
    "tfjit.framework.op_defs.gradient_registry": (
        "NoGradient NotDifferentiable RegisterGradient no_gradient=NoGradient"
    ),
    "tfjit.framework.graphs.graph": "Graph",
    "tfjit.framework.graphs.graph_def": "import_graph_def",
    "tfjit.framework.graphs.graph_keys": "GraphKeys",
    "tfjit.framework.graphs.indexed_slices": "IndexedSlices IndexedSlicesValue",
    "tfjit.framework.graphs.operation": "Operation Tensor",
    "tfjit.framework.graphs.random_seed": "get_seed set_random_seed",
    "tfjit.framework.types.dimension": "Dimension dimension_value",
    "tfjit.framework.types.shape": "TensorShape dimension_at_index",
    "tfjit.framework.graphs.static_value": "get_static_value",
    "tfjit.framework.graphs.tensor_spec": "TensorSpec",
    "tfjit.framework.types.constants": "make_tensor_proto",
    "tfjit.framework.types.tensors": "make_ndarray",
    "tfjit.protos": (
        "AttrValue ConfigProto Event GPUOptions GraphDef GraphOptions MetaGraphDef NameAttrList "
        "NodeDef OptimizerOptions RunMetadata "
        "RunOptions SavedModel Summary TensorInfo TensorProto"
    ),
}
_NAMES = {
    name.partition("=")[0]: (module, name.rpartition("=")[2])
    for module, names in _HOMES.items()
    for name in names.split()
}
# Names that are modules elsewhere.
_MODULES = {
    "app": "tfjit.client.app",
    "audio": "tfjit.client.audio",
    "compat": "tfjit.compat",
    "data": "tfjit.client.datasets.data",
    "distributions": "tfjit.client.distributions",
    "dtypes": "tfjit.framework.types.dtypes",
    "errors": "tfjit.framework.errors",
    "graph_util": "tfjit.client.graph_util",
    "initializers": "tfjit.client.variables.initializers",
    "feature_column": "tfjit.client.feature_column",
    "flags": "tfjit.client.flags",
    "gfile": "tfjit.client.gfile",
    "image": "tfjit.client.image",
    "io": "tfjit.client.io",
    "layers": "tfjit.client.layers",
    "linalg": "tfjit.client.linalg",
    "logging": "tfjit.client.logging",
    "lookup": "tfjit.client.lookup",
    "losses": "tfjit.client.losses",
    "metrics": "tfjit.client.metrics",
    "nest": "tfjit.client.nest",
    "nn": "tfjit.client.nn",
    "python_io": "tfjit.client.data.record_files",
    "queue": "tfjit.client.queue",
    "ragged": "tfjit.client.ragged.ragged",
    "saved_model": "tfjit.client.saving.saved_model",
    "resource_loader": "tfjit.client.resource_loader",
    "sets": "tfjit.client.data.sets",
    "signal": "tfjit.client.signal",
    "sparse": "tfjit.client.sparse",
    "spectral": "tfjit.client.spectral",
    "strings": "tfjit.client.strings",
    "summary": "tfjit.client.data.summary",
    "test": "tfjit.client.test",
    "train": "tfjit.client.train",
    "version": "tfjit.client.version",
}
_SUBMODULES = (
    *("cli", "client", "demo", "framework", "inspection", "kernels"),
    *("lab", "ops", "passes", "protos", "runtime"),
)
# Names of TF1 programs that are not supported yet, by feature.
_MISSING = {
    "eager gradients": "GradientTape",
    "eager execution": "enable_eager_execution enable_v2_behavior py_function wrap_function",
    "estimators": "estimator keras",
    "distributed sessions": "distribute",
    "contributed packages": "contrib",
}


class _SourceTree:
    """Finds tfjit.kernels, tfjit.passes and tfjit.protos beside this folder, in a source tree.

    There they are folders at the top of the tree; installation puts them inside the package. A
    program that is started in a clone imports the clone's `tfjit/`, also where a wheel is
    installed. Other names of the tree, `kernels` among them, are not made importable.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of one of the three packages, else None."""
        if name not in _BESIDE:
            return None
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, [self.root])


_BESIDE = ("tfjit.kernels", "tfjit.passes", "tfjit.protos")


def _map_source_tree() -> None:
    """Make the package whole where it runs from a source tree.

    An installed one is already.
    """
    folder = os.path.abspath(__path__[0])  # programs change their directory
    if os.path.isdir(os.path.join(folder, "kernels")):
        return
    root = os.path.dirname(folder)
    beside = (os.path.join(root, name.rpartition(".")[2], "__init__.py") for name in _BESIDE)
    # the package is imported anew
    known = any(getattr(finder, "root", None) == root for finder in sys.meta_path)
    if not known and all(map(os.path.isfile, beside)):
        sys.meta_path.append(_SourceTree(root))


_map_source_tree()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("tfjit.framework.version").__version__
    if name.startswith("__"):
        raise AttributeError(f"module 'tfjit' has no attribute {name!r}")
    if name in _SUBMODULES:
        return importlib.import_module(f"tfjit.{name}")
    value: Any
    if name in _NAMES:
        module, attribute = _NAMES[name]
        value = getattr(importlib.import_module(module), attribute)
    elif name in _MODULES:
        value = importlib.import_module(_MODULES[name])
    else:
        value = _operation(name)
    globals()[name] = value
    return value


def _operation(name: str) -> Any:
    """Return a function or namespace of tfjit.ops.

    Raises AttributeError, with the unsupported feature for a name that TensorFlow has.
    """
    ops = importlib.import_module("tfjit.ops")
    # Not getattr: the op families are submodules, and attributes once imported.
    if name in ops._NAMES or name in ops._NAMESPACES:
        return ops.__getattr__(name)
    feature = next((feature for feature, names in _MISSING.items() if name in names.split()), None)
    reason = f": {feature} are not supported yet" if feature else ""
    raise AttributeError(f"module 'tfjit' has no attribute {name!r}{reason}")


def __dir__() -> list[str]:
    ops = importlib.import_module("tfjit.ops")
    found = {*globals(), *_NAMES, *_MODULES, *_SUBMODULES, *ops._NAMES, *ops._NAMESPACES} - {
        "importlib",
        "os",
        "sys",
        "Any",
    }
    return sorted(name for name in found if not name.startswith("_") or name.startswith("__"))

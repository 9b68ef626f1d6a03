"""What `import tfjit as tf` offers: TensorFlow 1's names, with its arguments, at little cost."""

from __future__ import annotations

import inspect
import subprocess
import sys
import types
from typing import Any

import pytest
import tensorflow

import tfjit

tf1 = tensorflow.compat.v1

# What the small programs of TF1 tutorials use besides gradients, layers, input pipelines and
# summaries.
TUTORIAL_NAMES = """
    AUTO_REUSE ConfigProto DType DeviceSpec Dimension FIFOQueue GPUOptions Graph GraphDef GraphKeys InteractiveSession Operation
    PaddingFIFOQueue RandomShuffleQueue RunMetadata RunOptions Session Tensor TensorShape Variable abs add add_n add_to_collection
    arg_max argmax argmin as_dtype assign assign_add assign_sub bool boolean_mask broadcast_to cast ceil clip_by_norm clip_by_value
    compat complex complex64 concat constant constant_initializer control_dependencies convert_to_tensor cos count_up_to cumsum
    device diag div dynamic_partition dynamic_stitch einsum equal errors exp expand_dims eye fill float32 float64 floor floordiv
    gather gather_nd get_collection get_default_graph get_default_session get_seed get_variable get_variable_scope global_norm
    global_variables global_variables_initializer glorot_uniform_initializer greater greater_equal group half identity
    import_graph_def initialize_all_variables initializers int32 int64 invert_permutation is_finite is_nan less less_equal linspace
    local_variables local_variables_initializer log logical_and logical_not logical_or make_ndarray make_tensor_proto math matmul
    maximum meshgrid minimum mod multinomial multiply name_scope negative newaxis nn no_op not_equal one_hot ones ones_initializer
    ones_like pad placeholder placeholder_with_default pow random random_crop random_normal random_normal_initializer random_shuffle
    random_uniform random_uniform_initializer range rank raw_ops real reciprocal reduce_all reduce_any reduce_logsumexp reduce_max
    reduce_mean reduce_min reduce_prod reduce_sum register_tensor_conversion_function report_uninitialized_variables
    reset_default_graph reshape reverse round rsqrt scatter_add scatter_nd scatter_update segment_sum sequence_mask set_random_seed
    setdiff1d shape sigmoid sign sin size slice split sqrt square squared_difference squeeze stack stop_gradient strided_slice
    string subtract tan tanh tensordot tile to_float to_int32 train trainable_variables transpose truediv truncated_normal
    truncated_normal_initializer tuple uint8 unique unstack variable_scope variables_initializer variance_scaling_initializer where
    zeros zeros_initializer zeros_like
"""
NN_NAMES = """
    avg_pool batch_normalization bias_add conv1d conv2d conv2d_transpose conv3d crelu depthwise_conv2d dropout elu embedding_lookup
    fused_batch_norm in_top_k l2_loss l2_normalize leaky_relu local_response_normalization log_softmax lrn max_pool moments relu relu6
    selu separable_conv2d sigmoid sigmoid_cross_entropy_with_logits softmax softmax_cross_entropy_with_logits
    softmax_cross_entropy_with_logits_v2 softplus softsign sparse_softmax_cross_entropy_with_logits tanh top_k xw_plus_b zero_fraction
"""
NAMESPACES = (
    "",
    "debugging",
    "distributions",
    "feature_column",
    "linalg",
    "losses",
    "manip",
    "metrics",
    "queue",
    "graph_util",
    "nest",
    "resource_loader",
    "sets",
    "test",
    "nn",
    "math",
    "random",
    "bitwise",
    "initializers",
    "train",
)

# Arguments of ours that TensorFlow has not by name.
EXTRA = {
    "all_variables": {"scope"},
    "bincount": {"name"},
    "convert_to_tensor": {"as_ref"},
    "einsum": {"name"},  # hidden in its **kwargs
    "get_seed": {"graph"},
    "import_graph_def": {"graph", "internal_names", "scopes_take_names"},
    "is_variable_initialized": {"name"},
    "reduce_euclidean_norm": {"reduction_indices", "keep_dims"},
}
CONSTRUCTED_OTHERWISE = {"DType", "Tensor"}  # never by users


def namespace(tf: Any, name: str) -> Any:
    return getattr(tf, name) if name else tf


def positional(function: Any) -> list[str] | None:
    """Names of the arguments that may be given by place; None when the signature takes whatever
    comes.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


def shared() -> list[tuple[str, str]]:
    found = []
    for space in NAMESPACES:
        theirs, ours = namespace(tf1, space), namespace(tfjit, space)
        found += [
            (space, name)
            for name in dir(ours)
            if not name.startswith("_") and hasattr(theirs, name)
        ]
    return found


@pytest.mark.parametrize("name", TUTORIAL_NAMES.split())
def test_tutorial_names_exist(name: str) -> None:
    assert hasattr(tf1, name)
    getattr(tfjit, name)


@pytest.mark.parametrize("name", NN_NAMES.split())
def test_nn_names_exist(name: str) -> None:
    assert hasattr(tf1.nn, name)
    getattr(tfjit.nn, name)


def test_most_names_are_shared() -> None:
    assert len(shared()) > 550


def test_shared_names_are_the_same_kind_of_thing() -> None:
    """Modules are modules, functions can be called, and take TensorFlow's arguments in TensorFlow's
    order.
    """
    for space, name in shared():
        _check_kind(space, name)


def _check_kind(space: str, name: str) -> None:
    theirs, ours = getattr(namespace(tf1, space), name), getattr(namespace(tfjit, space), name)
    where = f"{space}.{name}"
    assert isinstance(ours, types.ModuleType) == isinstance(theirs, types.ModuleType), where
    assert callable(ours) == callable(theirs), where
    if (
        not callable(ours)
        or name in CONSTRUCTED_OTHERWISE
        or (isinstance(ours, type) and issubclass(ours, Exception))
    ):
        return
    their_names, our_names = positional(theirs), positional(ours)
    if their_names is None or our_names is None or not their_names:
        return
    known = [n for n in our_names if n not in EXTRA.get(name, ())]
    assert [n for n in their_names if n in known] == known, where


def test_every_listed_name_resolves() -> None:
    names = dir(tfjit)
    assert len(names) > 400
    assert len(set(names)) == len(names)
    for name in names:
        value = getattr(tfjit, name)
        if isinstance(value, types.ModuleType) and not name.startswith("__"):
            assert value.__name__.startswith("tfjit"), f"{name} is {value}"


def test_dtypes() -> None:
    names = tfjit._HOMES["tfjit.framework.types.dtypes"].split()
    assert len(names) == 27
    for name in set(names) - {"DType", "as_dtype"}:
        theirs, ours = getattr(tf1, name), getattr(tfjit, name)
        assert (ours.name, ours.as_datatype_enum, ours.size, ours.is_floating, ours.is_integer) == (
            theirs.name,
            theirs.as_datatype_enum,
            theirs.size,
            theirs.is_floating,
            theirs.is_integer,
        )


@pytest.mark.parametrize(
    ("expression", "feature"),
    [
        ("tf.train.CheckpointManager", "object-based checkpoints are not supported yet"),
        ("tf.estimator", "estimators are not supported yet"),
        ("tf.contrib", "contributed packages are not supported yet"),
        ("tf.no_such_thing", "module 'tfjit' has no attribute 'no_such_thing'$"),
    ],
)
def test_a_missing_name_says_what_it_takes(expression: str, feature: str) -> None:
    with pytest.raises(AttributeError, match=feature):
        eval(expression, {"tf": tfjit})


def test_nothing_is_announced_as_missing_that_exists() -> None:
    for names in tfjit._MISSING.values():
        for name in names.split():
            assert not hasattr(tfjit, name), name


def test_an_op_family_is_no_public_name() -> None:
    """Whether its module has been loaded or not."""
    import tfjit.ops.core.families  # loads every family

    for name in ("array", "convert", "indexing", "movement", "state", "barrier", "dataset"):
        assert not hasattr(tfjit, name), name
        assert name not in dir(tfjit)


def test_the_compat_module_is_tfjit_itself() -> None:
    code = (
        "import tfjit.compat.v1 as a; from tfjit.compat import v1 as b; import tfjit; print(a "
        "is tfjit, b is tfjit, a.constant(1).name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "Const:0"]
    assert tfjit.compat.as_bytes("é") == tf1.compat.as_bytes("é")
    assert tfjit.compat.as_text(b"a") == tfjit.compat.as_str_any("a") == "a"
    with pytest.raises(TypeError, match="Expected binary or unicode string"):
        tfjit.compat.as_bytes(3)  # type: ignore[arg-type]


def loaded_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_loads_next_to_nothing() -> None:
    loaded = loaded_after("import tfjit")
    assert "numpy" not in loaded
    assert {name for name in loaded if name.startswith("tfjit")} == {"tfjit"}


def test_the_first_constant_loads_little() -> None:
    loaded = loaded_after("import tfjit as tf\ntf.constant")
    assert not {"numba", "llvmlite", "networkx", "google.protobuf", "ml_dtypes"} & loaded
    assert sum(name.startswith("tfjit") for name in loaded) <= 17


def test_switches_of_tensorflow_two() -> None:
    tfjit.disable_eager_execution()
    tfjit.disable_v2_behavior()
    tfjit.enable_v2_tensorshape()  # or the sizes of shapes stay Dimensions
    tfjit.disable_control_flow_v2()
    assert not tfjit.executing_eagerly()
    with tfjit.Graph().as_default():
        assert tfjit.is_tensor(tfjit.Variable(1.0))
        assert tfjit.is_tensor(tfjit.constant(1.0))
        assert not tfjit.is_tensor(1.0)

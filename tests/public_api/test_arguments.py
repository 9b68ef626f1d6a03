"""Arguments that TensorFlow 1 takes: what they do, how deprecated spellings are resolved, and what
is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tests import hardware

tf1 = tensorflow.compat.v1

x = np.arange(1, 7, dtype="f4").reshape(2, 3)
VALUES = {
    "np": np,
    "x": x,
    "image": np.arange(16, dtype="f4").reshape(1, 4, 4, 1),
    "batches": np.arange(16, dtype="f4").reshape(4, 2, 2, 1),
    "seq": np.arange(20, dtype="f4").reshape(2, 5, 2),
    "kernel1": np.arange(12, dtype="f4").reshape(3, 2, 2),
    "two": np.arange(32, dtype="f4").reshape(1, 4, 4, 2),
    "kernel2": np.arange(16, dtype="f4").reshape(2, 2, 2, 2),
}
# Calls of public functions; k is the tensor x, a() and b() are sparse tensors.
CALLS = r"""
gather_nd(x, [[0, 1], [5, 0], [1, 2]], bad_indices_policy="IGNORE")
gather_nd(x, [[0], [-1], [1]], bad_indices_policy="IGNORE")
gather_nd([b"a", b"b"], [[0], [7]], bad_indices_policy="IGNORE")
gather_nd(x, [[0, 1]], bad_indices_policy="ERROR")
gather_nd(np.arange(24.0).reshape(2, 3, 4), [[[0], [2]], [[1], [1]]], batch_dims=1)
gather_nd(np.arange(24.0).reshape(2, 3, 4), [[[0], [2]], [[1], [9]]], batch_dims=1, bad_indices_policy="IGNORE")
scatter_nd([[0], [9], [1]], [1.0, 2.0, 3.0], [3], bad_indices_policy="IGNORE")
scatter_nd([[0], [1]], [1.0, 2.0], [3], "DEFAULT")
tensor_scatter_nd_add(x, [[0, 1], [5, 0]], [9.0, -8.0], bad_indices_policy="IGNORE")
tensor_scatter_nd_sub(x, [[0, 1], [5, 0]], [9.0, -8.0], "IGNORE")
tensor_scatter_nd_min(x, [[0, 1], [5, 0]], [0.5, -8.0], "IGNORE")
tensor_scatter_nd_max(x, [[0, 1], [5, 0]], [9.0, -8.0], "IGNORE")
tensor_scatter_add(x, [[0], [5]], x, "IGNORE")
tensor_scatter_sub(x, [[0], [5]], x, bad_indices_policy="IGNORE")
gradients(m.gather_nd(k, [[0, 1], [5, 0], [1, 2]], bad_indices_policy="IGNORE"), k)[0]
zeros([2], layout=None)
ones([2], m.int32, None, None)
fill([2], 1.0, None, None)
zeros([2], layout="x")
ones([2], layout="x")
fill([2], 1.0, layout="x")
random.stateless_uniform([3], [1, 2], alg="philox")
random.stateless_uniform([3], [1, 2], alg=None)
random.stateless_uniform([3], [1, 2], alg="auto_select")
random.stateless_uniform([3], [1, 2], 0, 10, m.int32, alg=1)
random.stateless_uniform([3], [1, 2], None, None, m.int32, alg="PHILOX")
random.stateless_uniform([3], [1, 2], 0, 10, m.uint32)
random.stateless_uniform([3], [1, 2], alg="bogus")
random.stateless_uniform([3], [1, 2], alg=7)
random.stateless_uniform([3], [1, 2], alg=1.5)
random.stateless_normal([3], [1, 2], 1.0, 2.0, m.float64, alg=3)
random.stateless_normal([3], [1, 2], alg="no")
random.stateless_truncated_normal([3], [1, 2], alg="philox")
random.stateless_truncated_normal([3], [1, 2], alg=4)
matmul(x, x.T, output_type=m.float32)
matmul(x.astype("i1"), x.T.astype("i1"), output_type=m.int32)
matmul(x[None], x.T[None], grad_a=True, grad_b=True)
matmul(x, x.T, grad_a=True)
matmul(x, x.T, a_is_sparse=True)
matmul(x, x, transpose_a=True, b_is_sparse=True)
matmul(x[None], x.T[None], a_is_sparse=True)
matmul(x.astype("f8"), x.T.astype("f8"), a_is_sparse=True)
cast(m.matmul(m.constant(x, m.bfloat16), m.constant(x.T, m.bfloat16), a_is_sparse=True), m.float32)
matmul(m.constant(x, m.bfloat16), m.constant(x.T))
gradients(m.matmul(k, x.T, a_is_sparse=True), k)[0]
gradients(m.matmul(k, k, transpose_b=True, b_is_sparse=True), k)[0]
gradients(m.matmul(k, k, transpose_a=True, b_is_sparse=True), k)[0]
linalg.matvec(x, x[0], a_is_sparse=True)
linalg.matvec(x, x[0], False, False, False, True)
linspace([0.0, 10.0], [4.0, 30.0], 5, axis=0)
linspace([0.0, 10.0], [4.0, 30.0], 5, axis=1)
linspace([0.0, 10.0], [4.0, 30.0], 5, None, -2)
linspace([0.0, 10.0], 4.0, 1)
linspace(0, 10, 5)
lin_space(0.0, 10.0, 5, axis=0)
lin_space([1.0], 2.0, 3)
linspace(0.0, 1.0, 0)
linspace(0.0, 1.0, -1)
gradients(m.linspace(k[0, 0], 7.0, 4) ** 2, k)[0]
sparse_segment_sum(x, [0, 1, 0], [0, 0, 1], sparse_gradient=True)
sparse_segment_mean(x, [0, 1, 0], [0, 0, 1], None, 4, True)
gradients(m.sparse_segment_sum(k, [0, 1, 0], [0, 0, 1], sparse_gradient=True), k)[0]
gradients(m.sparse_segment_sum(k, [0, 1, 0], [0, 0, 1], num_segments=4, sparse_gradient=True), k)[0]
gradients(m.sparse_segment_mean(k, [0, 1, 0], [0, 0, 1], sparse_gradient=True), k)[0]
gradients(m.sparse_segment_sqrt_n(k, [0, 1, 0], [0, 0, 1], num_segments=4, sparse_gradient=True), k)[0]
gradients(m.sparse_segment_mean(k, [0, 1, 0], [0, 0, 1], num_segments=4), k)[0]
gradients(m.sparse_segment_sum(k, [0, 1, 0], [0, 0, 1], sparse_gradient=True), k)[0].indices
decode_raw(bytes=[b"abcd"], out_type=m.uint8)
decode_raw([b"a"], m.uint8, bytes=[b"b"])
decode_raw(out_type=m.uint8)
decode_raw([b"a"])
string_to_hash_bucket(input=["a"], num_buckets=9)
string_to_hash_bucket(["a"], 9, input=["b"])
string_to_hash_bucket(num_buckets=3)
string_to_number(input=["1"])
string_to_number(["1"], input=["2"])
string_to_number()
space_to_batch(image, [[0, 0], [0, 0]], block_shape=2)
space_to_batch(image, [[0, 0], [0, 0]], 2, block_shape=2)
batch_to_space(batches, [[0, 0], [0, 0]], 2)
batch_to_space(batches, [[0, 0], [0, 0]], 2, block_shape=2)
required_space_to_batch_paddings([5, 4], [2, 3], name="q")
nn.conv1d(input=seq, filters=kernel1, stride=1, padding="SAME", dilations=2)
nn.conv1d(seq, kernel1, 1, "SAME", input=seq)
nn.conv1d(seq, kernel1, [2], "VALID")
nn.conv1d(seq, kernel1, [1, 2, 1], "VALID", True)
nn.conv1d(seq, kernel1, 1, "VALID", data_format="NHWC", use_cudnn_on_gpu=False)
nn.conv1d(seq, kernel1, 1, "VALID", data_format="XX")
nn.conv1d(seq[None], kernel1, 1, "VALID", dilations=[2])
nn.conv1d()
nn.convolution(two, None, "SAME", filters=kernel2, dilations=[2, 2])
nn.convolution(two, kernel2, "SAME", filters=kernel2)
nn.convolution(two, kernel2, "SAME", dilation_rate=[1, 1], dilations=[2, 2])
nn.convolution(seq, kernel1, "VALID", dilations=[2])
nn.convolution(np.stack([two, two]), kernel2, "SAME")
nn.conv2d_backprop_input([1, 4, 4, 2], out_backprop=two, strides=[1, 1, 1, 1], padding="SAME", filters=kernel2)
nn.conv2d_backprop_input([1, 4, 4, 2], kernel2, two, [1, 1, 1, 1], "SAME", filters=kernel2)
nn.max_pool_with_argmax(two, [1, 2, 2, 1], [1, 2, 2, 1], "SAME", "NHWC", m.int32)[1]
nn.max_pool_with_argmax(two, [1, 2, 2, 1], [1, 2, 2, 1], "SAME", output_dtype=m.int32)[1]
nn.max_pool_with_argmax(two, [1, 2, 2, 1], [1, 2, 2, 1], "SAME", Targmax=m.int64, output_dtype=m.int32)
nn.max_pool_with_argmax(two, [1, 2, 2, 1], [1, 2, 2, 1], "SAME", data_format="NCHW")
nn.dilation2d(two, kernel2[..., 0], [1, 1, 1, 1], [1, 1, 1, 1], "SAME", dilations=[1, 1, 1, 1])
nn.weighted_cross_entropy_with_logits(targets=[1.0, 0.0], logits=[0.3, 2.0], pos_weight=2.0)
nn.weighted_cross_entropy_with_logits([1.0], [1.0], 2.0, targets=[1.0])
nn.weighted_cross_entropy_with_logits([1.0], [1.0, 2.0], 2.0)
nn.softmax_cross_entropy_with_logits_v2(x, x, 0, dim=1)
nn.softmax_cross_entropy_with_logits(labels=x)
nn.softmax_cross_entropy_with_logits_v2(labels=m.constant(x, m.float16), logits=m.constant(x, m.float16))
nn.softmax_cross_entropy_with_logits_v2(labels=np.eye(2, 3, dtype="i4"), logits=x)
gradients(m.nn.softmax_cross_entropy_with_logits(labels=k, logits=k * 2.0), k)[0]
gradients(m.nn.softmax_cross_entropy_with_logits_v2(labels=k, logits=k * 2.0, axis=0), k)[0]
nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 1, 2], logits=x)
nn.sparse_softmax_cross_entropy_with_logits(labels=[[0, 1]], logits=x)
nn.sparse_softmax_cross_entropy_with_logits(labels=0, logits=1.0)
nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 1], logits=x.astype("f2"))
nn.sparse_softmax_cross_entropy_with_logits(labels=[[0, 1]], logits=x[None])
sparse_concat(concat_dim=1, axis=None, sp_inputs=[a(), a()])
sparse_concat(1, [a(), b()], None, True)
sparse_concat(0, [a(), b()], expand_nonconcat_dim=True)
sparse_concat(-1, [a(), b()], expand_nonconcat_dim=True)
sparse_concat(0, [a()], concat_dim=0)
sparse_concat(0, [a(), a()], expand_nonconcat_dim=True, expand_nonconcat_dims=True)
sparse_split(sp_input=a(), num_split=2, axis=1)[1]
sparse_split(sp_input=a(), num_split=2, axis=1, split_dim=1)
sparse_split(1, 2, a())
sparse_split(sp_input=a(), num_split=2)
sparse_reset_shape(a())
sparse_reset_shape(a(), [4, 5])
sparse_reset_shape(a(), [1, 5])
sparse_reset_shape(a(), [4, 5, 6])
strided_slice(x, [0], [1], var=m.Variable(x))
make_ndarray(m.make_tensor_proto(1.0, shape=[2, 2], allow_broadcast=True))
make_tensor_proto([1.0, 2.0], shape=[2, 2], allow_broadcast=True)
make_tensor_proto([1.0], shape=[1], allow_broadcast=True, verify_shape=True)
get_static_value(m.stack([m.constant(1), m.placeholder(m.int32, [])]), partial=True)
get_static_value(m.stack([m.constant(1), m.placeholder(m.int32, [])]))
get_static_value(m.stack([[1], m.placeholder(m.int32, [1])]), True)
get_static_value(m.placeholder(m.int32, [2]), True)
get_static_value(m.constant([1, 2]), True)
gfile.Exists(filename="/no such file")
numpy_function(Tout=m.float32)(np.sin)(k)
numpy_function(np.sin, [k])
numpy_function(inp=[k], Tout=m.float32)
repeat(x, 2)
repeat(x, [1, 2], axis=0)
repeat(x, [3, 0, 1], 1)
repeat(x, [2], axis=1)
repeat(3, 4)
repeat(x, 2, axis=5)
repeat(x, 2, axis=[1])
nn.softmax(x, axis=0, dim=1)
nn.l2_normalize(x, 1, dim=1)
nn.moments(x, [0], keep_dims=True, keepdims=True)
tensordot(x, x, m.constant([[1], [1]]))
tensordot(x, x, [[1], [0, 1]])
tensordot(x, x, -1)
"""
# Refused by a run.
FAILING = r"""
gather_nd(x, [[0, 1], [5, 0]], bad_indices_policy="")
gather_nd(x, [[0, 1], [5, 0]], bad_indices_policy="DEFAULT")
gather_nd(x, [[0, 1], [5, 0]], bad_indices_policy="bogus")
gather_nd(np.arange(24.0).reshape(2, 3, 4), [[[0], [2]], [[1], [9]]], batch_dims=1)
scatter_nd([[0], [9]], [1.0, 2.0], [3], bad_indices_policy="ERROR")
scatter_nd([[0], [1]], [1.0, 2.0], [3], bad_indices_policy="ignore")
tensor_scatter_nd_add(x, [[0, 1], [5, 0]], [9.0, -8.0])
tensor_scatter_nd_max(x, [[0, 1], [5, 0]], [9.0, -8.0], bad_indices_policy="bogus")
random.stateless_uniform([3], [1, 2], alg="threefry")
random.stateless_normal([3], [1, 2], alg="three-fry")
sparse_concat(0, [a(), b()])
"""


# Indices that a GPU passes over unasked.
SILENT_ON_A_GPU = r"""
gather_nd(x, [[0, 1], [5, 0]], bad_indices_policy="")
gather_nd(x, [[0, 1], [5, 0]], bad_indices_policy="DEFAULT")
gather_nd(np.arange(24.0).reshape(2, 3, 4), [[[0], [2]], [[1], [9]]], batch_dims=1)
tensor_scatter_nd_add(x, [[0, 1], [5, 0]], [9.0, -8.0])
"""


def evaluate(m: Any, call: str) -> Any:
    """The value of a call, or the class of its error."""
    names = {
        "m": m,
        "k": m.constant(x),
        "a": lambda: m.SparseTensor([[0, 1], [1, 2]], [1.0, 2.0], [2, 3]),
        "b": lambda: m.SparseTensor([[0, 0], [2, 1]], [3.0, 4.0], [3, 2]),
    }
    try:
        return eval(f"m.{call}", VALUES | names)
    except (TypeError, ValueError, AttributeError) as error:
        return next(
            kind for kind in (TypeError, ValueError, AttributeError) if isinstance(error, kind)
        )


def is_result(m: Any, made: Any) -> bool:
    return isinstance(made, (m.Tensor, m.SparseTensor, m.IndexedSlices))


def outcomes(m: Any, calls: list[str]) -> dict[str, Any]:
    """What all calls give, in one run."""
    with m.Graph().as_default(), m.Session() as session:
        made = {call: evaluate(m, call) for call in calls}
        fetched = {
            call: value
            for call, value in made.items()
            if is_result(m, value) or (isinstance(value, (list, tuple)))
        }
        session.run(m.global_variables_initializer())
        return made | session.run(fetched)


def flat(value: Any) -> list[np.ndarray]:
    return (
        [part for v in value for part in flat(v)]
        if isinstance(value, (list, tuple))
        else [np.asarray(value)]
    )


def test_calls_give_what_tensorflow_gives() -> None:
    calls = CALLS.strip().splitlines()
    expected, got = outcomes(tf1, calls), outcomes(tfjit, calls)
    for call in calls:
        if isinstance(expected[call], type) or expected[call] is None:
            assert got[call] is expected[call], call
            continue
        ours, theirs = flat(got[call]), flat(expected[call])
        assert len(ours) == len(theirs), call
        for one, other in zip(ours, theirs, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype), call
            if other.dtype.kind == "f":
                np.testing.assert_allclose(
                    one, other, rtol=1e-3 if other.dtype == np.float16 else 2e-6, err_msg=call
                )
            else:
                np.testing.assert_array_equal(one, other, err_msg=call)


@pytest.mark.parametrize("call", FAILING.strip().splitlines())
@pytest.mark.parametrize("jit", ["off", "eager"])
def test_runs_are_refused_as_tensorflow_refuses_them(
    call: str, jit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", jit)
    if hardware.gpu_count() and jit != "off" and call in SILENT_ON_A_GPU.splitlines():
        passed = call.partition(", bad_indices_policy")[0].removesuffix(")")
        results = []
        for m, text in ((tf1, f'{passed}, bad_indices_policy="IGNORE")'), (tfjit, call)):
            with m.Graph().as_default(), m.Session() as session:
                results.append(session.run(evaluate(m, text)))
        np.testing.assert_array_equal(*results)
        return
    for m in (tf1, tfjit):
        with (
            m.Graph().as_default(),
            m.Session() as session,
            pytest.raises(m.errors.InvalidArgumentError),
        ):
            session.run(evaluate(m, call))

"""`tf.test` against TensorFlow's: the same tests pass and fail with both."""

from __future__ import annotations

import os
import sys
import unittest
from typing import Any

import numpy as np
import pytest
import tensorflow
from tensorflow.python.eager import context

import tfjit

tf1 = tensorflow.compat.v1

NAN, INF = float("nan"), float("inf")


def assertions(tf: Any) -> dict[str, Any]:
    """Return functions of a test case by name; some of them fail."""
    a = [1.0, 2.0, NAN]
    proto = tf.GraphDef(node=[tf.NodeDef(name="x", op="NoOp", input=["^a", "^b"])])
    other = tf.GraphDef(node=[tf.NodeDef(name="x", op="NoOp", input=["^b", "^a"])])
    unlike = tf.GraphDef(node=[tf.NodeDef(name="y", op="NoOp")])
    half, brain = np.float16, tf.bfloat16.as_numpy_dtype
    return {
        "close": lambda t: t.assertAllClose(a, np.array(a) + 1e-7),
        "not close": lambda t: t.assertAllClose(1.0, 1.1),
        "close shapes": lambda t: t.assertAllClose([1.0], [[1.0]]),
        "close nested": lambda t: t.assertAllClose(
            {"a": [1.0, [2.0, 3.0]]}, {"a": [1.0, [2.0, 3.0]]}
        ),
        "apart nested": lambda t: t.assertAllClose([1.0, [2.0, 3.0]], [1.0, [2.0, 4.0]]),
        "close keys": lambda t: t.assertAllClose({"a": 1.0}, {"b": 1.0}),
        "close lengths": lambda t: t.assertAllClose([1.0, [2.0]], [1.0, [2.0], 3.0]),
        "close tensors": lambda t: t.assertAllClose(tf.ones([2]), tf.zeros([2]) + 1.0),
        "close infinities": lambda t: t.assertAllClose([INF], [INF]),
        "close dict": lambda t: t.assertAllClose({"a": 1.0}, [1.0]),
        "not all close": lambda t: t.assertNotAllClose([1.0], [2.0]),
        "none apart": lambda t: t.assertNotAllClose([1.0], [1.0]),
        "half": lambda t: t.assertAllCloseAccordingToType(half([1.0]), half([1.001])),
        "bfloat16": lambda t: t.assertAllCloseAccordingToType(brain(1.0), brain(1.0078)),
        "float": lambda t: t.assertAllCloseAccordingToType(np.float32([1.0]), [1.001]),
        "equal": lambda t: t.assertAllEqual(tf.constant([1, 2]), [1, 2]),
        "equal nan": lambda t: t.assertAllEqual(a, a),
        "unequal": lambda t: t.assertAllEqual([1, 2], [1, 3]),
        "equal strings": lambda t: t.assertAllEqual(tf.constant(["a", "b"]), ["a", "b"]),
        "unequal strings": lambda t: t.assertAllEqual([b"a"], ["b"]),
        "equal shapes": lambda t: t.assertAllEqual([1], 1),
        "not all equal": lambda t: t.assertNotAllEqual([1, 2], [1, 3]),
        "all equal": lambda t: t.assertNotAllEqual([1], [1]),
        "near": lambda t: t.assertNear(1.0, 1.05, 0.1),
        "not near": lambda t: t.assertNear(1.0, 1.2, 0.1),
        "near infinite": lambda t: t.assertNear(INF, INF, 0.1),
        "array near": lambda t: t.assertArrayNear([1.0, 2.0], [1.0, 2.5], 0.1),
        "ndarray near": lambda t: t.assertNDArrayNear(np.ones(2), np.ones(2), 0.1),
        "greater": lambda t: t.assertAllGreater([1, 2], 1),
        "less": lambda t: t.assertAllLess(tf.constant([1, 2]), 3),
        "at least": lambda t: t.assertAllGreaterEqual([1, 2], 1),
        "at most": lambda t: t.assertAllLessEqual([1, 2], 1),
        "in range": lambda t: t.assertAllInRange([1.0, 2.0], 1.0, 2.0),
        "open range": lambda t: t.assertAllInRange([1.0, 2.0], 1.0, 2.0, open_lower_bound=True),
        "nan in range": lambda t: t.assertAllInRange(a, 0.0, 3.0),
        "strings in range": lambda t: t.assertAllInRange(["a"], 0.0, 3.0),
        "in set": lambda t: t.assertAllInSet([1, 2], {1, 2, 3}),
        "not in set": lambda t: t.assertAllInSet([1, 4], {1, 2, 3}),
        "dtype": lambda t: t.assertDTypeEqual(tf.constant(1), np.int32),
        "shape": lambda t: t.assertShapeEqual(np.ones([2, 3]), tf.ones([2, 3])),
        "other shape": lambda t: t.assertShapeEqual(np.ones([2]), tf.ones([2, 3])),
        "shape of a list": lambda t: t.assertShapeEqual([1], tf.ones([1])),
        "device": lambda t: t.assertDeviceEqual("/cpu:0", "/device:CPU:0"),
        "other device": lambda t: t.assertDeviceEqual("/cpu:0", "/cpu:1"),
        "starts": lambda t: t.assertStartsWith("abc", "ab"),
        "starts not": lambda t: t.assertStartsWith("abc", "b"),
        "dicts": lambda t: t.assertDictEqual({"a": np.ones(2)}, {"a": np.ones(2)}),
        "other dicts": lambda t: t.assertDictEqual({"a": np.ones(2)}, {"a": np.zeros(2)}),
        "length": lambda t: t.assertLen([1], 2),
        "elements": lambda t: t.assertSameElements([1, 2, 2], [2, 1]),
        "subset": lambda t: t.assertContainsSubset([1], [1, 2]),
        "items": lambda t: t.assertItemsEqual([1, 2], [2, 1]),
        "proto": lambda t: t.assertProtoEquals('node { name: "y" op: "NoOp" }', unlike),
        "other proto": lambda t: t.assertProtoEquals(proto, unlike),
        "graph": lambda t: tf.test.assert_equal_graph_def(proto, other),
        "other graph": lambda t: tf.test.assert_equal_graph_def(proto, unlike),
        "no graph": lambda t: tf.test.assert_equal_graph_def(proto, "x"),
    }


def case_of(tf: Any) -> type:
    """Return a test case with a test for each assertion, and tests of sessions."""

    class Case(tf.test.TestCase):  # type: ignore[misc]
        def test_sessions(self) -> None:
            x = tf.constant(3)
            with self.session() as session:
                self.assertIs(tf.get_default_session(), session)
                self.assertEqual(session.run(x), 3)
            with self.cached_session() as first, self.cached_session() as second:
                self.assertIs(first, second)
                self.assertEqual(self.evaluate({"a": [x, x]}), {"a": [3, 3]})
            with self.session(graph=tf.Graph(), use_gpu=False) as session:
                self.assertEqual(tf.constant(1).device, "/device:CPU:0")
            self.assertEqual(self.evaluate(x + 1), 4)
            wrong = self.assertRaisesRegex(ValueError, "The graph used to get the cached session")
            with wrong, self.cached_session(graph=tf.Graph()):
                pass

        def test_seed(self) -> None:
            self.assertEqual(tf.get_default_graph().seed, 87654321)
            self.assertEqual(
                np.random.randint(10**9), np.random.RandomState(87654321).randint(10**9)
            )

        def test_op_errors(self) -> None:
            with self.session(), self.assertRaisesOpError("NaN"):
                tf.check_numerics(tf.constant(NAN), "found").eval()
            with self.session(), self.assertRaisesIncompatibleShapesError(ValueError):
                tf.ones([2]) + tf.ones([3])
            with self.assertRaisesWithPredicateMatch(ValueError, lambda e: str(e) == "a"):
                raise ValueError("a")

        def test_no_op_error(self) -> None:
            with self.assertRaisesOpError("NaN"):
                pass

        def test_threads(self) -> None:
            seen = []
            thread = self.checkedThread(seen.append, args=(1,))
            thread.start()
            thread.join()
            self.assertEqual(seen, [1])

        def test_thread_that_fails(self) -> None:
            thread = self.checkedThread(lambda: 1 // 0)
            thread.start()
            thread.join()

        def test_thread_that_is_left(self) -> None:
            self.checkedThread(print)

        def test_streams_and_folders(self) -> None:
            with open(os.path.join(self.get_temp_dir(), "a"), "w") as stream:
                with self.captureWritesToStream(stream) as captured:
                    os.write(stream.fileno(), b"text")
                self.assertEqual(captured.contents(), "text")
            self.assertEqual(self.get_temp_dir(), self.get_temp_dir())
            self.assertStartsWith(self.get_temp_dir(), tf.test.get_temp_dir())

        @tf.test.disable_with_predicate(lambda: True, "left out")  # type: ignore[misc]
        def test_left_out(self) -> None:
            raise AssertionError

    for name, function in assertions(tf).items():
        setattr(
            Case, "test_" + name.replace(" ", "_"), lambda self, function=function: function(self)
        )
    return Case


def outcome(case: type) -> tuple[dict[str, str], int, int]:
    """Run a test case; return the kind of each failed test, the numbers of tests left out and run."""
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    kinds = {"failure": result.failures, "error": result.errors}
    found = {t.id().rpartition(".")[2]: kind for kind, all_ in kinds.items() for t, _ in all_}
    return found, len(result.skipped), result.testsRun


def test_the_same_tests_fail() -> None:
    with context.graph_mode():
        theirs = outcome(case_of(tf1))
    ours = outcome(case_of(tfjit))
    # TensorFlow fails to print messages that differ.
    assert theirs[0].pop("test_other_proto") and ours[0].pop("test_other_proto")
    assert ours == theirs


def jacobians(tf: Any, dtype: Any, shape: list[int], function: Any) -> Any:
    """Return the Jacobians of a function."""
    with tf.Graph().as_default(), tf.Session():
        x = tf.placeholder(dtype, shape)
        y = function(tf, x)
        value = np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape)
        value = value.astype(x.dtype.as_numpy_dtype)
        out = y.shape.as_list()
        error = tf.test.compute_gradient_error(x, shape, y, out, x_init_value=value)
        found = tf.test.compute_gradient([x], [shape], y, out, x_init_value=[value], delta=1e-2)
        drawn = tf.test.compute_gradient(x, shape, y, out)
    return found[0], error, [j.shape for j in drawn]


@pytest.mark.parametrize(
    ("dtype", "shape", "function"),
    [
        ("float64", [2, 3], lambda tf, x: tf.reduce_sum(x * x, 1)),
        ("complex64", [2], lambda tf, x: x * x),
        ("float32", [3, 2], lambda tf, x: tf.gather(x, [1, 1])),
        ("float32", [2], lambda tf, x: tf.zeros([0]) + tf.reduce_sum(x)),
    ],
    ids=["sum", "complex", "rows", "empty"],
)
def test_jacobians(dtype: str, shape: list[int], function: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    theirs, ours = (jacobians(tf, getattr(tf, dtype), shape, function) for tf in (tf1, tfjit))
    for expected, got in zip(theirs[0], ours[0], strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=2e-3, atol=1e-3)
    assert abs(ours[1] - theirs[1]) < 1e-3
    assert ours[2] == theirs[2]


class Measured(tfjit.test.Benchmark):
    """A benchmark of one operation."""

    def benchmark_add(self) -> None:
        with tfjit.Graph().as_default(), tfjit.Session(config=tfjit.test.benchmark_config()) as s:
            found = self.run_op_benchmark(s, tfjit.constant(1) + 1, min_iters=3, extras={"a": 1})
            assert self.evaluate(tfjit.constant(1)) == 1
        assert found["iters"] == 3
        assert {"a", "wall_time_mean", "wall_time_stdev"} <= set(found["extras"])  # type: ignore[call-overload]


def test_benchmarks(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    with pytest.raises(SystemExit):
        tfjit.test.main(["program", "--benchmark_filter=Measured.*add"])
    assert '"name": "Measured.benchmark_add"' in capsys.readouterr().out
    with pytest.raises(ValueError, match="No benchmarks matched the pattern: 'nothing'"):
        tfjit.test.main(["program", "--benchmark_filter=nothing"])


def test_main() -> None:
    with pytest.raises(SystemExit) as done:
        tfjit.test.main(["program", "-q", "nothing.such"])
    assert done.value.code


class _Base:
    value = 1

    @staticmethod
    def function() -> int:
        return 2


def test_stubs() -> None:
    for tf in (tf1, tfjit):

        class Derived(_Base):
            pass

        with tf.test.StubOutForTesting() as stubs:
            stubs.Set(_Base, "function", lambda: 3)
            stubs.SmartSet(sys, "api_version", 4)
            stubs.SmartSet(Derived, "value", 5)
            assert (_Base.function(), sys.api_version, Derived().value) == (3, 4, 5)
            with pytest.raises(AttributeError):
                stubs.SmartSet(Derived, "nothing", 1)
        assert (Derived().function(), Derived.value) == (2, 1)
        assert sys.api_version != 4


def test_the_machine() -> None:
    assert tfjit.test.mock is unittest.mock
    assert tfjit.test.is_gpu_available() == bool(tfjit.test.gpu_device_name())
    assert tfjit.test.is_built_with_cuda() and tfjit.test.is_built_with_gpu_support()
    assert not tfjit.test.is_built_with_rocm() and not tfjit.test.is_built_with_xla()
    with pytest.raises(KeyError):
        tfjit.test.test_src_dir_path("a")


def test_a_cluster_of_this_process() -> None:
    workers, ps = tfjit.test.create_local_cluster(num_workers=1, num_ps=1)
    with tfjit.Graph().as_default():
        with tfjit.device("/job:ps/task:0"):
            v = tfjit.Variable(2.0)
        with tfjit.device("/job:worker/task:0"):
            doubled = v * 2.0
        with tfjit.Session(workers[0].target) as session:
            session.run(v.initializer)
            assert session.run(doubled) == 4.0
    assert len(ps) == 1

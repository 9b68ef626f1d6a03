"""Ops that users register: they fold, fuse, get compiled and run as built-ins do."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numba import njit

import tfjit
from tests import hardware
from tfjit.framework.op_defs import gradient_registry
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.scalar.scalar_expression import parse

FLOATS = "T: {half, bfloat16, float, double}"
FACTOR = 3.0
TABLE = np.arange(4)


@pytest.fixture
def register() -> Iterator[Any]:
    """`register_op` whose ops are gone after the test."""
    made = []

    def register_op(op_type: str, **more: Any) -> Any:
        function = tfjit.register_op(op_type, **more)
        made.append(op_type)
        return function

    yield register_op
    for op_type in dict.fromkeys(made):
        tfjit.unregister_op(op_type)


@pytest.fixture
def swish(register: Any) -> Any:
    return register(
        "TestSwish",
        inputs=["x: T"],
        outputs=["y: T"],
        attrs=[FLOATS, "beta: float = 1.0"],
        expression="x * sigmoid(beta * x)",
    )


def both(
    session: tfjit.Session, fetches: Any, feeds: Any, measure: bool = True
) -> tuple[Any, Any, Any]:
    """(values by reference kernels, by compiled ones, explanation)."""
    first = session.run(fetches, feeds)
    explanation = session.explain(fetches, feed_dict=feeds, measure=measure)
    return first, session.run(fetches, feeds), explanation


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_an_expression_fuses_and_gives_what_its_parts_give(swish: Any, dtype: str) -> None:
    x = np.random.default_rng(0).normal(size=(3, 50)).astype(tfjit.as_dtype(dtype).as_numpy_dtype)
    with tfjit.Graph().as_default() as graph:
        place = tfjit.placeholder(dtype, [None, 50])
        y = tfjit.maximum(swish(place * 2.0, beta=1.5, name="mine") + 1.0, 0.0, name="y")
        plain = tfjit.maximum(
            place * 2.0 * tfjit.sigmoid(place * 2.0 * tfjit.constant(1.5, dtype)) + 1.0, 0.0
        )
    assert graph.get_operation_by_name("mine").get_attr("beta") == 1.5
    with tfjit.Session(graph=graph) as session:
        first, compiled, explanation = both(session, [y, plain], {place: x})
        (group,) = [node for node in explanation.nodes if "mine" in node.members]
        if not hardware.gpu_count():  # which fuses in its program
            assert group.serving == "native"
            assert {"TestSwish", "Maximum"} <= set(re.findall(r"\w+", group.group))
    np.testing.assert_array_equal(compiled[0], compiled[1])
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-14}[dtype]
    for values in (first, compiled):
        np.testing.assert_allclose(
            values[0].astype(np.float64), first[1].astype(np.float64), tolerance, tolerance
        )


def test_expressions_with_all_kinds_of_parts(register: Any) -> None:
    op = register(
        "TestMixed",
        inputs=["x: T", "flag: bool", "y: T"],
        outputs=["z: T"],
        attrs=["T: {float, double}", "k: int = 3", "low: float = -1.0"],
        expression="where(flag or x > y, -x ** 2 + k * 0.5, max_ if 0 < y <= 1 else low)".replace(
            "max_", "maximum(x, exp(y))"
        ),
    )
    compare = register(
        "TestNear",
        inputs=["x: T", "y: T"],
        outputs=["z: bool"],
        attrs=["T: {float}"],
        expression="abs(x - y) < 0.25",
    )
    rng = np.random.default_rng(1)
    x, flag, y = (
        rng.normal(size=(7, 1)).astype(np.float32),
        rng.random(5) < 0.5,
        rng.normal(size=(7, 5)).astype(np.float32),
    )
    with tfjit.Graph().as_default() as graph:
        places = [tfjit.placeholder(a.dtype, a.shape) for a in (x, flag, y)]
        z, near = op(*places, low=-2.0), compare(places[0], places[2])
    assert z.shape == near.shape == (7, 5)
    expected = np.where(
        flag | (x > y), -(x**2) + 1.5, np.where((y > 0) & (y <= 1), np.maximum(x, np.exp(y)), -2)
    )
    with tfjit.Session(graph=graph) as session:
        for values in both(session, [z, near], dict(zip(places, (x, flag, y), strict=True)))[:2]:
            np.testing.assert_allclose(values[0], expected, 1e-6)
            np.testing.assert_array_equal(values[1], np.abs(x - y) < 0.25)


def test_integers_fail_where_the_parts_fail(register: Any) -> None:
    op = register(
        "TestRest",
        inputs=["x: int32", "y: int32"],
        outputs=["z: int32"],
        expression="x - x // y * y",
    )
    with tfjit.Graph().as_default() as graph:
        y = tfjit.placeholder(tfjit.int32, [3])
        z = op([7, 8, -9], y, name="rest")
    with tfjit.Session(graph=graph) as session:
        for values in both(session, z, {y: [2, 3, 4]})[:2]:
            assert values.tolist() == [1, 2, 3]
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="Integer division by zero"):
            session.run(z, {y: [2, 0, 4]})
        assert session.run(z, {y: [2, 3, 4]}).tolist() == [1, 2, 3]


def test_constants_fold_and_graphs_come_from_elsewhere(swish: Any) -> None:
    with tfjit.Graph().as_default() as graph:
        tfjit.add(
            swish([1.0, 2.0], name="mine"), tfjit.placeholder(tfjit.float32, [], name="x"), name="y"
        )
    wire = graph.as_graph_def().SerializeToString()
    assert b"TestSwish" in wire
    theirs = tf.compat.v1.GraphDef.FromString(wire)
    del theirs.node[1].attr["beta"]  # has a default
    for source in (wire, theirs):
        with tfjit.Session(graph=source) as session:
            assert session.explain("y:0").nodes[0].op != "TestSwish"
            assert "mine: folded" in session.explain("y:0").details()
            x = np.float32([1, 2])
            np.testing.assert_allclose(
                session.run("y:0", {"x:0": 1.0}), x / (1 + np.exp(-x)) + 1, 1e-6
            )


def helper(x: float) -> float:
    return x * FACTOR


@njit
def jitted_helper(x: float) -> float:
    return math.sqrt(abs(x))


def rows(
    x: Any,
    weights: Any,
    total: Any,
    count: Any,
    *,
    k: int,
    scale: float,
    twice: bool,
    chunk: int,
    chunks: int,
) -> None:
    first, last = x.shape[0] * chunk // chunks, x.shape[0] * (chunk + 1) // chunks
    for i in range(first, last):
        value = 0.0
        positive = 0
        for j in range(x.shape[1]):
            value += helper(x[i, j]) * weights[j] + jitted_helper(x[i, j]) + np.float64(0)
            if x[i, j] > 0:
                positive += 1
        total[i] = (value + k) * scale * (2 if twice else 1)
        count[i] = positive


def rows_reference(x: Any, weights: Any, k: int, scale: float, twice: bool) -> Any:
    total = ((x * FACTOR * weights + np.sqrt(np.abs(x))).sum(1) + k) * scale * (2 if twice else 1)
    return total, (x > 0).sum(1)


def register_rows(register: Any, op_type: str, kernel: Any = rows) -> Any:
    return register(
        op_type,
        inputs=["x: T", "weights: T"],
        outputs=["total: T", "count: int64"],
        attrs=[
            "T: {half, float, double}",
            "k: int = 2",
            "scale: float = 0.5",
            "twice: bool = false",
            "label: string = ''",
        ],
        shape=lambda c: [(c.dim(c.inputs[0], 0),), (c.dim(c.inputs[0], 0),)],
        kernel=kernel,
        reference=rows_reference,
        cost_ns=3.0,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_kernel_is_compiled(register: Any, dtype: str) -> None:
    op = register_rows(register, "TestRows")
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(400, 30)).astype(dtype), rng.normal(size=30).astype(dtype)
    with tfjit.Graph().as_default() as graph:
        place = tfjit.placeholder(dtype, [None, 30])
        result = op(place, w, k=5, twice=True, name="rows")
    assert result.total.shape.as_list() == [None] and result.count.dtype == tfjit.int64
    with tfjit.Session(graph=graph) as session:
        first, compiled, explanation = both(session, [result.total, result.count], {place: x})
        (node,) = [node for node in explanation.nodes if node.op == "TestRows"]
        if dtype == "float16":
            assert (
                node.serving == "reference" and node.reason == "a user's kernel cannot hold float16"
            )
        else:
            assert (
                node.serving == "native"
                and node.kernels == (f"rows {dtype}/int64",)
                and node.chunks > 1
            )
        for rest in (1, 0):
            total, count = session.run([result.total, result.count], {place: x[:rest]})
            assert total.shape == count.shape == (rest,)
    expected = rows_reference(x, w, 5, 0.5, True)
    for total, count in (first, compiled):
        np.testing.assert_allclose(total, expected[0], 2e-2 if dtype == "float16" else 1e-4)
        np.testing.assert_array_equal(count, expected[1])


def allocating(x: Any, weights: Any, total: Any, count: Any) -> None:
    copy = x + 1
    total[:] = copy.sum()


def untypable(x: Any, weights: Any, total: Any, count: Any) -> None:
    total[0] = x.no_such_method()


@pytest.mark.refuses_kernel
@pytest.mark.parametrize(
    ("kernel", "reason"), [(allocating, "allocate|lacks"), (untypable, "no_such_method")]
)
def test_what_numba_refuses_runs_by_the_reference(register: Any, kernel: Any, reason: str) -> None:
    op = register_rows(register, f"Test{kernel.__name__.title()}", kernel)
    x, w = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    with tfjit.Graph().as_default() as graph:
        place = tfjit.placeholder(tfjit.float32, [2, 3])
        total, _ = op(place, w, name="rows")
    with tfjit.Session(graph=graph) as session:
        first, second, explanation = both(session, total, {place: x})
    assert first.tolist() == second.tolist() == rows_reference(x, w, 2, 0.5, False)[0].tolist()
    assert re.search(reason, str(dict(explanation.refused)["rows"]))


def test_a_stateful_op_is_run_each_time(register: Any) -> None:
    calls: list[float] = []

    def counted(x: Any) -> Any:
        calls.append(float(x))
        return x + len(calls)

    op = register(
        "TestCounted",
        inputs=["x: float"],
        outputs=["y: float"],
        reference=counted,
        stateful=True,
        shape=lambda c: [()],
    )
    with tfjit.Graph().as_default() as graph:
        one, two = op(1.0), op(1.0)
    with tfjit.Session(graph=graph) as session:
        assert sorted(session.run([one, two])) == [2, 3] and sorted(session.run([one, two])) == [
            4,
            5,
        ]


def test_a_reference_must_give_what_the_op_declares(register: Any) -> None:
    answers: list[Any] = [np.float64(1), np.zeros(3), np.complex64(1), (1.0, 2.0)]
    op = register(
        "TestWrong",
        inputs=["k: int32"],
        outputs=["y: float"],
        reference=lambda k: answers[int(k)],
        shape=lambda c: [()],
    )
    with tfjit.Graph().as_default() as graph:
        k = tfjit.placeholder(tfjit.int32, [])
        y = op(k)
    with tfjit.Session(graph=graph) as session:
        assert session.run(y, {k: 0}) == np.float32(1)
        for i, text in (
            (1, r"gave shape \[3\] for output 0, its shape rule says \[\]"),
            (2, "gave complex64 .* expected float32"),
            (3, "2 outp"),
        ):
            with pytest.raises(
                tfjit.errors.InvalidArgumentError, match=f"the reference of TestWrong .*{text}"
            ):
                session.run(y, {k: i})


def test_the_function_and_the_gradient(swish: Any, register: Any) -> None:
    assert (
        str(inspect.signature(swish)) == "(x, *, beta=1.0, name=None)"
        and swish.__name__ == "TestSwish"
    )
    with tfjit.Graph().as_default():
        for args, more in (
            ((), {}),
            ((1.0, 2.0), {}),
            ((1.0,), {"x": 2.0}),
            ((1.0,), {"gamma": 2.0}),
        ):
            with pytest.raises(TypeError):
                swish(*args, **more)
        assert swish(x=1.0, name="there").name == "there:0"

    def gradient(op: Any, dy: Any) -> Any:
        return dy

    register(
        "TestGradient",
        inputs=["x: float"],
        outputs=["y: float"],
        expression="2 * x",
        gradient=gradient,
    )
    assert gradient_registry.lookup("TestGradient") is gradient
    tfjit.unregister_op("TestGradient")
    assert not gradient_registry.has_gradient("TestGradient") and "TestGradient" not in registry
    register("TestGradient", inputs=["x: float"], outputs=["y: float"], expression="3 * x")


def not_there(x: Any, y: Any) -> None:
    y[0] = no_such_name(x)  # type: ignore[name-defined]  # noqa: F821


def with_table(x: Any, y: Any) -> None:
    y[0] = TABLE[0]


ONE = {"inputs": ["x: float"], "outputs": ["y: float"]}
ANY = {"inputs": ["x: T"], "outputs": ["y: T"], "attrs": ["T: {float, int32}"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"op_type": "MatMul", **ONE, "expression": "x"},
            "MatMul is registered already, as one of TensorFlow's",
        ),
        ({"op_type": "lower", **ONE, "expression": "x"}, "an op type is a capital letter"),
        ({**ONE}, "needs an expression, or a kernel with a reference, or a reference"),
        ({**ONE, "kernel": not_there}, "needs a reference beside its kernel"),
        ({**ONE, "expression": "frob(x)"}, "there is no elementwise function 'frob'"),
        ({**ONE, "expression": "expo(x)"}, "did you mean exp, expint, expm1"),
        ({**ONE, "expression": "x +"}, "invalid syntax"),
        ({**ONE, "expression": "x + z"}, r"'z' is neither an input \(x\) nor a number attr"),
        (
            {**ONE, "expression": "x < 1"},
            "its expression gives bool, and output 'y' is declared otherwise",
        ),
        (
            {**ANY, "expression": "exp(x)"},
            "takes int32, for which its expression is not defined; list those it is meant for",
        ),
        ({**ANY, "expression": "x * 0.5"}, "takes int32, for which its expression is not defined"),
        (
            {**ANY, "attrs": ["T: type"], "expression": "exp(x)"},
            "takes any dtype as T, and its expression is not defined",
        ),
        (
            {"inputs": ["x: float", "y: double"], "outputs": ["z: float"], "expression": "x + y"},
            "single tensors of one dtype",
        ),
        (
            {
                "inputs": ["x: N * float"],
                "outputs": ["z: float"],
                "attrs": ["N: int"],
                "expression": "x",
            },
            "single tensors of one dtype",
        ),
        ({**ONE, "expression": "x", "stateful": True}, "one output and no state"),
        ({"inputs": ["x float"], "outputs": []}, "needs an expression|x float"),
        ({"inputs": ["x float"], "outputs": [], "reference": abs}, "x float"),
        (
            {**ONE, "reference": abs, "kernel": rows},
            r"the kernel of TestBad takes \(x, w.*expected the inputs and outputs \(x, y\)",
        ),
        (
            {**ONE, "reference": abs, "kernel": not_there},
            "uses 'no_such_name', which is not defined",
        ),
        (
            {**ONE, "reference": abs, "kernel": with_table},
            "uses 'TABLE', a ndarray, which cannot be given to the compiler",
        ),
        (
            {**ONE, "reference": abs, "kernel": lambda x, y: None},
            "source text cannot be read; write it as a `def` in a file",
        ),
        (
            {**ONE, "reference": abs, "kernel": math.exp},
            "must be a Python function, got builtin_function_or_method",
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(
    arguments: dict[str, Any], message: str
) -> None:
    arguments = {"op_type": "TestBad", **arguments}
    with pytest.raises(ValueError, match=message):
        tfjit.register_op(arguments.pop("op_type"), **arguments)
    assert "TestBad" not in registry
    tfjit.register_op("TestBad", **ONE, expression="x")
    with pytest.raises(
        ValueError, match="TestBad is registered already, by an earlier register_op"
    ):
        tfjit.register_op("TestBad", **ONE, expression="x")
    tfjit.unregister_op("TestBad")
    with pytest.raises(ValueError, match="TestBad was not registered by register_op"):
        tfjit.unregister_op("TestBad")


def test_functions_of_the_wrong_type() -> None:
    with pytest.raises(TypeError, match="shape must be a function, got list"):
        tfjit.register_op("TestBad", **ONE, expression="x", shape=[1])
    with pytest.raises(TypeError, match="specs come as a tuple, got the string"):
        tfjit.register_op("TestBad", inputs="x: float", outputs=["y: float"], expression="x")


def test_equal_steps_are_shared() -> None:
    steps = parse("exp(-x) / (1 + exp(-x))", {"x": "T"}).steps
    assert [step.op for step in steps].count("Exp") == 1 and len(steps) == 5


def _random_expression(rng: np.random.Generator, depth: int) -> str:
    """A number of x, y, the attr k and literals."""
    if depth == 0 or rng.random() < 0.15:
        return str(rng.choice(["x", "y", "k", "2", "0.5", "-1.25", "x", "y"]))
    part = [_random_expression(rng, depth - 1) for _ in range(3)]
    forms = [
        "({0} + {1})",
        "({0} - {1})",
        "({0} * {1})",
        "maximum({0}, {1})",
        "minimum({0}, {1})",
        "tanh({0})",
        "sigmoid({0})",
        "abs({0})",
    ]
    forms += [
        "-({0})",
        "({0}) ** 2",
        "relu({0})",
        "({0} if {1} < {2} else {1})",
        "where({0} >= {1} and not flag, {2}, {0})",
    ]
    return str(rng.choice(forms)).format(*part)


def _by_tfjit(text: str, names: dict[str, Any]) -> Any:
    """The same expression as nodes of built-in ops: conditionals and logic in their
    function forms.
    """
    import ast

    class Rewrite(ast.NodeTransformer):
        def visit_IfExp(self, node: ast.IfExp) -> Any:
            self.generic_visit(node)
            return ast.Call(ast.Name("where", ast.Load()), [node.test, node.body, node.orelse], [])

        def visit_BoolOp(self, node: ast.BoolOp) -> Any:
            self.generic_visit(node)
            return ast.Call(ast.Name("logical_and", ast.Load()), node.values, [])

        def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
            self.generic_visit(node)
            return (
                ast.Call(ast.Name("logical_not", ast.Load()), [node.operand], [])
                if isinstance(node.op, ast.Not)
                else node
            )

        def visit_Constant(self, node: ast.Constant) -> Any:
            return ast.Call(ast.Name("number", ast.Load()), [node], [])

    tree = ast.fix_missing_locations(Rewrite().visit(ast.parse(text, mode="eval")))
    return eval(compile(tree, "<expression>", "eval"), {**names, "__builtins__": {}})


@pytest.mark.parametrize("seed", range(2))
def test_random_expressions_are_their_parts(register: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = [_random_expression(rng, 3) for _ in range(5)]
    inputs, attrs = ["x: T", "y: T", "flag: bool"], ["T: {float, double}", "k: float = 0.75"]
    x, y, flag = rng.normal(size=(3, 40)), rng.normal(size=40), rng.random((3, 1)) < 0.5
    dtype = ("float32", "float64")[seed % 2]
    functions = {
        name: getattr(tfjit, name)
        for name in ("maximum", "minimum", "tanh", "sigmoid", "abs", "logical_and", "logical_not")
    }
    with tfjit.Graph().as_default() as graph:
        px, py, pf = (
            tfjit.placeholder(t, s)
            for t, s in ((dtype, [None, 40]), (dtype, [40]), ("bool", [None, 1]))
        )
        # where it stands alone, a part must have the result's shape
        zero = tfjit.zeros_like(px * py)
        mine, parts = [], []
        for k, text in enumerate(texts):
            op = register(
                f"TestRandom{k}", inputs=inputs, outputs=["z: T"], attrs=attrs, expression=text
            )
            mine.append(op(px, py, pf, k=0.75))
            names = {
                "x": px,
                "y": py,
                "flag": pf,
                "k": tfjit.constant(0.75, dtype),
                "relu": tfjit.nn.relu,
                **functions,
            }
            names["number"] = lambda value: tfjit.constant(value, dtype)
            names["where"] = lambda c, a, b: tfjit.raw_ops.SelectV2(condition=c, t=a, e=b)
            parts.append(_by_tfjit(text, names) + zero)
    feeds = {px: x.astype(dtype), py: y.astype(dtype), pf: flag}
    with tfjit.Session(graph=graph) as session:
        first, compiled, _ = both(session, [*mine, *parts], feeds)
    for values in (first, compiled):
        for one, other in zip(values[:5], values[5:], strict=True):
            np.testing.assert_allclose(one, other, 2e-6, 1e-6)


@pytest.mark.parametrize("v2", [False, True], ids=["v1 loop", "v2 loop"])
def test_ops_in_loops(register: Any, v2: bool) -> None:
    """Loops that TensorFlow built, with a built-in op renamed to the user's."""
    register(
        "TestLooped",
        inputs=["x: T"],
        outputs=["y: T"],
        attrs=["T: {float, double}"],
        expression="x * 0.5 + tanh(x)",
    )
    register(
        "TestDivided",
        inputs=["x: int32", "y: int32"],
        outputs=["z: int32"],
        expression="x + x // y",
    )
    (tf.compat.v1.enable_control_flow_v2 if v2 else tf.compat.v1.disable_control_flow_v2)()
    try:
        with tf.compat.v1.Graph().as_default() as graph:
            x = tf.compat.v1.placeholder(tf.float32, [4], name="x")
            n = tf.compat.v1.placeholder(tf.int32, [], name="n")
            body = lambda i, v, k: (i + 1, tf.sigmoid(v), tf.bitwise.bitwise_xor(k, n))  # noqa: E731
            _, y, k = tf.compat.v1.while_loop(lambda i, v, k: i < 3, body, [0, x, n + 4])
            tf.identity(y, name="y")
            tf.identity(k, name="k")
    finally:
        tf.compat.v1.enable_control_flow_v2()
    graph_def = graph.as_graph_def()
    renamed = {"Sigmoid": "TestLooped", "BitwiseXor": "TestDivided"}
    for nodes in (graph_def.node, *(function.node_def for function in graph_def.library.function)):
        for node in nodes:
            if node.op == "BitwiseXor":
                del node.attr["T"]
            node.op = renamed.get(node.op, node.op)
    expected, k = np.float32([-1, 0, 1, 2]), 5 + 4
    values = expected
    for _ in range(3):
        values, k = values * np.float32(0.5) + np.tanh(values), k + k // 5
    with tfjit.Session(graph=graph_def) as session:
        feeds = {"x:0": expected, "n:0": 5}
        for found in both(session, ["y:0", "k:0"], feeds, measure=v2)[:2]:
            np.testing.assert_allclose(found[0], values, 1e-6)
            assert found[1] == k
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="Integer division by zero"):
            session.run("k:0", {"x:0": expected, "n:0": 0})

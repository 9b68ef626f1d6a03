"""Functions of the working graph: bodies from FunctionDefs, bodies that passes make, their text
form and their way back to the wire.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from tfjit.framework.errors import InternalError, InvalidArgumentError, NotFoundError
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.types import dtypes
from tfjit.passes.ir.dataflow_graph import SINK, DataflowGraph
from tfjit.passes.ir.function_library import Function, FunctionLibrary, named_functions
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.ir.subgraph import extract
from tfjit.passes.text.text_format import TextError, parse_graph, print_graph
from tfjit.protos import function_pb2, graph_pb2

tensorflow = pytest.importorskip("tensorflow")
tf1 = tensorflow.compat.v1

LOOP = """
    x = Placeholder(shape=<>)
    y = While(x, body=func'step'{}, cond=func'more'{})
    function 'step'{} {
        x = _Arg(index=0, T=float32)
        p = Print(x, x)
        q = Square(x)
        r = _Retval(q, index=0)
        unused = Neg(x)
    } runs p
    function 'more'{} {
        x     = _Arg(index=0, T=float32)
        limit = Const(dtype=float32, value=float32<>[10.0])
        go    = Less(x, limit)
        r     = _Retval(go, index=0)
    }
"""


def function_def(text: str) -> Any:
    from google.protobuf import text_format

    return text_format.Parse(text, function_pb2.FunctionDef())


# Sum of a list of T with x added to each, twice over: list arguments, attrs of the function,
# defaults, nested functions.
GENERAL = """
    signature {
      name: "total"
      input_arg { name: "xs" type_attr: "T" number_attr: "N" }
      input_arg { name: "y" type_attr: "T" }
      output_arg { name: "sum" type_attr: "T" }
      output_arg { name: "parts" type_attr: "T" number_attr: "N" }
      attr { name: "T" type: "type" }
      attr { name: "N" type: "int" default_value { i: 2 } }
      attr { name: "f" type: "func" default_value { func { name: "id" } } }
    }
    node_def { name: "add" op: "AddN" input: "xs"
      attr { key: "N" value { placeholder: "N" } } attr { key: "T" value { placeholder: "T" } } }
    node_def { name: "all" op: "AddV2" input: "add:sum:0" input: "y" input: "^init" attr { key: "T" value { placeholder: "T" } } }
    node_def { name: "call" op: "PartitionedCall" input: "all:z:0"
      attr { key: "f" value { placeholder: "f" } }
      attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "Tout" value { list { type: DT_FLOAT } } } }
    node_def { name: "init" op: "NoOp" }
    node_def { name: "idle" op: "Neg" input: "y" attr { key: "T" value { placeholder: "T" } } }
    node_def { name: "say" op: "Print" input: "xs:1" input: "y"
      attr { key: "T" value { placeholder: "T" } } attr { key: "U" value { list { type: DT_FLOAT } } } }
    ret { key: "sum" value: "call:output:0" }
    ret { key: "parts" value: "xs" }
"""
IDENTITY = """
    signature { name: "id" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
    node_def { name: "same" op: "Identity" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
    ret { key: "y" value: "same:output:0" }
"""


def general() -> FunctionLibrary:
    library = FunctionLibrary()
    library.merge([function_def(GENERAL), function_def(IDENTITY)])
    return library


def test_a_function_def_becomes_a_body() -> None:
    body = general().body(FuncRef("total", {"T": dtypes.float32}))
    assert body.inputs == (dtypes.float32,) * 3 and body.outputs == (dtypes.float32,) * 3
    assert body.arg_names == ("xs_0", "xs_1", "y") and body.must_run == ("say",)
    assert [node.name for node in body.args.values()] == ["xs_0", "xs_1", "y"]
    assert body.returned == [("call", 0), ("xs_0", 0), ("xs_1", 0)]
    graph = body.graph
    assert "idle" not in graph  # nothing needs it
    assert graph.inputs("add") == [("xs_0", 0), ("xs_1", 0)] and graph.inputs("say") == [
        ("xs_1", 0),
        ("y", 0),
    ]
    assert graph.control_inputs("all") == ["init"] and graph.node("call").attrs["f"] == FuncRef(
        "id"
    )
    assert {edge.src for edge in graph.edges_into(SINK)} - {"_SOURCE"} == {
        "sum_RetVal",
        "parts_RetVal_0",
        "parts_RetVal_1",
        "say",
    }
    graph.verify()


def test_bodies_are_cached_by_name_and_attrs() -> None:
    library = general()
    two, three = (FuncRef("total", {"T": dtypes.float32, "N": n}) for n in (2, 3))
    assert library.body(two) is library.body(FuncRef("total", {"N": 2, "T": dtypes.float32}))
    assert len(library.body(three).inputs) == 4


@pytest.mark.parametrize(
    ("ref", "kind", "message"),
    [
        (FuncRef("nope"), NotFoundError, "Function nope is not defined."),
        (FuncRef("total"), InvalidArgumentError, "Attr T is not found"),
        (FuncRef("total", {"T": dtypes.bool}), InvalidArgumentError, "function 'total'"),
    ],
)
def test_what_has_no_body(ref: FuncRef, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        general().body(ref)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"add:sum:0"', '"add:sum:1"', "input of node 'all' is 'add:sum:1', which is not found"),
        ('"say"', '"a say"', "Node name contains invalid characters"),
        (
            'ret { key: "sum" value: "call:output:0" }',
            "",
            "Return 'sum' missing in function 'total'",
        ),
        ('value: "call:output:0"', 'value: "xs"', "result 'sum' is 1 tensors, but 2 are returned"),
    ],
)
def test_faulty_definitions_name_function_and_fault(old: str, new: str, message: str) -> None:
    library = FunctionLibrary()
    library.merge([function_def(GENERAL.replace(old, new)), function_def(IDENTITY)])
    with pytest.raises(InvalidArgumentError, match=message):
        library.body(FuncRef("total", {"T": dtypes.float32}))


def test_merging_refuses_another_function_of_the_same_name() -> None:
    library = general()
    assert library.merge([function_def(IDENTITY)]) == []
    other = function_def(IDENTITY.replace("same", "other"))
    more = function_def(IDENTITY.replace('"id"', '"more"'))
    with pytest.raises(
        InvalidArgumentError,
        match="Cannot add function 'id' because a different function with the same name",
    ):
        library.merge([more, other])
    assert "more" not in library
    library.merge([], [function_pb2.GradientDef(function_name="id", gradient_func="g")])
    with pytest.raises(
        InvalidArgumentError,
        match="Cannot assign gradient function 'h' to 'id' because it already has gradient",
    ):
        library.merge([], [function_pb2.GradientDef(function_name="id", gradient_func="h")])


def test_a_refused_extension_adds_no_function() -> None:
    graph = DataflowGraph()
    message = graph_pb2.GraphDef()
    message.library.function.append(function_def(IDENTITY))
    message.node.add(name="x", op="Neg", input=["missing"])
    with pytest.raises(InvalidArgumentError):
        graph.extend(message)
    assert "id" not in graph.functions and not graph.functions


def test_text_holds_functions_both_ways() -> None:
    graph = parse_graph(LOOP)
    body = graph.functions.body("step")
    assert body.must_run == ("p",) and "unused" not in body.graph and body.is_stateful
    assert not graph.functions.body("more").is_stateful
    text = print_graph(graph, full=True)
    assert "} runs p" in text
    assert print_graph(parse_graph(text), full=True) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = NoOp()\nfunction 'f'{} {\n a = NoOp()", "line 2: function 'f' does not end"),
        ("function 'f'{} {\nfunction 'g'{} {\n}\n}", "line 2: a function begins inside of another"),
        ("x = NoOp()\n}", "line 2: a function ends that has not begun"),
        (
            "function 'f'{} {\n r = _Retval(x, index=0)\n}",
            "line 2: Node 'r': Unknown input node 'x'",
        ),
        ("function 'f'{} {\n x = NoOp()\n} runs y", "line 1: function 'f' has no node 'y'"),
        ("function 'f'{} {\n}\nfunction 'f'{} {\n}", "line 3: .*already in the library"),
    ],
)
def test_text_that_holds_no_function(text: str, message: str) -> None:
    with pytest.raises(TextError, match=message):
        parse_graph(text)


def test_made_bodies_go_with_the_plan() -> None:
    session = parse_graph(LOOP)
    plan = extract(session, RunSpec(feeds=("x:0",), fetches=("y:0",)))
    body = plan.functions.body("step")
    assert body is session.functions.body("step")
    made = Function.from_graph(
        plan.functions.new_name("step"), body.graph.copy(), must_run=body.must_run
    )
    ref = plan.functions.add(made)
    assert (
        made.name != "step"
        and plan.copy().functions.body(ref) is made
        and made.graph.functions is plan.functions
    )
    with pytest.raises(InternalError, match="already in the library"):
        plan.functions.add(made)
    with pytest.raises(NotFoundError):
        session.functions.body(ref)
    gone = weakref.ref(made.graph)
    del made, plan, ref
    gc.collect()
    assert gone() is None


def test_named_functions() -> None:
    graph = parse_graph(LOOP)
    assert named_functions(graph.node("y")) == [
        ("body", FuncRef("step")),
        ("cond", FuncRef("more")),
    ]
    assert graph.functions.reachable(graph) == [FuncRef("step"), FuncRef("more")]


def test_made_bodies_are_written_as_function_defs_that_tensorflow_runs() -> None:
    graph = parse_graph(LOOP.replace("Print(x, x)", "Identity(x)").replace("runs p", ""))
    message = tf1.GraphDef.FromString(graph.to_graph_def().SerializeToString())
    with tensorflow.Graph().as_default() as g:
        tensorflow.import_graph_def(message, name="")
        with tf1.Session(graph=g) as session:
            assert session.run("y:0", {"x:0": 2.0}) == 16.0


def test_functions_made_by_tensorflow() -> None:
    """Every function of a program with nested v2 control flow, calls and gradients is instantiated,
    written out and read again.
    """
    with tensorflow.Graph().as_default() as g:
        before = tf1.control_flow_v2_enabled()
        tf1.enable_control_flow_v2()
        try:
            x = tf1.placeholder(tensorflow.float32, [None, 3], name="x")

            def body(i: Any, a: Any) -> Any:
                tensorflow.print(i)
                return i + 1, tensorflow.cond(
                    tensorflow.reduce_sum(a) > 3.0, lambda: a * 2.0, lambda: tensorflow.sin(a)
                )

            _, a = tf1.while_loop(lambda i, a: i < 10, body, [0, x])

            @tensorflow.function
            def f(t: Any) -> Any:
                return tensorflow.nn.softmax(t) + 1.0

            tensorflow.gradients(f(a), [x])
        finally:
            (tf1.enable_control_flow_v2 if before else tf1.disable_control_flow_v2)()
    graph = DataflowGraph.from_graph_def(g.as_graph_def())
    refs = graph.functions.reachable(graph)
    assert len(refs) >= 10
    for ref in refs:
        graph.functions.body(ref).graph.verify()
    loop = next(node for node in graph.op_nodes() if node.op == "While")
    step = graph.functions.body(loop.attrs["body"])
    assert any(step.graph.node(name).op == "PrintV2" for name in step.must_run)
    text = print_graph(graph, full=True, shapes=False)
    again = parse_graph(text)
    assert print_graph(again, full=True, shapes=False) == text
    with tensorflow.Graph().as_default():
        tensorflow.import_graph_def(
            tf1.GraphDef.FromString(again.to_graph_def().SerializeToString()), name=""
        )

"""Nodes whose dtypes are not those of the queue that they use, as only a GraphDef can have them:
TensorFlow's errors.
"""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf1
from google.protobuf import text_format

import tfjit


def node(name: str, op: str, inputs: tuple[str, ...] = (), **attrs: str) -> str:
    texts = [f'input: "{source}"' for source in inputs]
    texts += [f'attr {{ key: "{key}" value {{ {value} }} }}' for key, value in attrs.items()]
    return f'node {{ name: "{name}" op: "{op}" {" ".join(texts)} }}'


def const(name: str, dtype: str, field: str, value: str, shape: str = "") -> str:
    tensor = f"tensor {{ dtype: {dtype} tensor_shape {{ {shape} }} {field}: {value} }}"
    return node(name, "Const", dtype=f"type: {dtype}", value=tensor)


def types(*names: str) -> str:
    return f"list {{ {' '.join(f'type: DT_{name}' for name in names)} }}"


CONSTANTS = "".join(
    [
        const("float", "DT_FLOAT", "float_val", "1.5"),
        const("int", "DT_INT32", "int_val", "1"),
        const("string", "DT_STRING", "string_val", '"a"'),
        const("floats", "DT_FLOAT", "float_val", "1.5", "dim { size: 2 }"),
        const("ints", "DT_INT32", "int_val", "7", "dim { size: 2 }"),
    ]
)
KINDS = ("FIFOQueue", "RandomShuffleQueue", "PaddingFIFOQueue")
ENQUEUE = node("enqueue", "QueueEnqueueV2", ("queue", "float"), Tcomponents=types("FLOAT"))
NODES = {
    "enqueue": node("use", "QueueEnqueueV2", ("queue", "int"), Tcomponents=types("INT32")),
    "enqueue text": node("use", "QueueEnqueueV2", ("queue", "string"), Tcomponents=types("STRING")),
    "enqueue two": node(
        "use", "QueueEnqueueV2", ("queue", "float", "float"), Tcomponents=types("FLOAT", "FLOAT")
    ),
    "enqueue many": node(
        "use", "QueueEnqueueManyV2", ("queue", "ints"), Tcomponents=types("INT32")
    ),
    "enqueue many of two": node(
        "use",
        "QueueEnqueueManyV2",
        ("queue", "floats", "floats"),
        Tcomponents=types("FLOAT", "FLOAT"),
    ),
    "enqueue another shape": node(
        "use", "QueueEnqueueV2", ("queue", "floats"), Tcomponents=types("FLOAT")
    ),
    "dequeue": node("use", "QueueDequeueV2", ("queue",), component_types=types("INT32")),
    "dequeue two": node(
        "use", "QueueDequeueV2", ("queue",), component_types=types("FLOAT", "FLOAT")
    ),
    "dequeue many": node(
        "use", "QueueDequeueManyV2", ("queue", "int"), component_types=types("INT32")
    ),
    "dequeue up to": node(
        "use", "QueueDequeueUpToV2", ("queue", "int"), component_types=types("INT32")
    ),
    "right dequeue": node("use", "QueueDequeueV2", ("queue",), component_types=types("FLOAT")),
    "right dequeue many": node(
        "use", "QueueDequeueManyV2", ("queue", "int"), component_types=types("FLOAT")
    ),
    "right dequeue up to": node(
        "use", "QueueDequeueUpToV2", ("queue", "int"), component_types=types("FLOAT")
    ),
}


def used(api: Any, text: str, runs: tuple[str, ...], fetch: str) -> Any:
    """The value of `fetch` after `runs`, or the class of the error and its line of types."""
    graph_def = text_format.Parse(text + " versions { producer: 1645 }", api.GraphDef())
    with api.Graph().as_default():
        api.import_graph_def(graph_def, name="")
        with api.Session() as session:
            try:
                for name in runs:
                    session.run(name)
                return session.run(fetch)
            except api.errors.OpError as error:
                lines = [
                    line for line in error.message.splitlines() if "Signature mismatch" in line
                ]
                return [type(error).__name__, *lines]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NODES)
def test_dtypes_that_are_not_the_queues(kind: str, name: str) -> None:
    queue = node(
        "queue",
        f"{kind}V2",
        component_types=types("FLOAT"),
        shapes="list { shape {} }",
        capacity="i: 10",
    )
    fetch = "use:0" if "dequeue" in name else "use"
    text = CONSTANTS + queue + ENQUEUE + NODES[name]
    expected, got = (used(api, text, ("enqueue",), fetch) for api in (tf1, tfjit))
    np.testing.assert_array_equal(got, expected)


def test_a_priority_queue_counts_its_priorities() -> None:
    queue = node(
        "queue",
        "PriorityQueueV2",
        component_types=types("FLOAT"),
        shapes="list { shape {} }",
        capacity="i: 10",
    )
    text = (
        CONSTANTS
        + queue
        + node(
            "use",
            "QueueEnqueueV2",
            ("queue", "float", "float"),
            Tcomponents=types("FLOAT", "FLOAT"),
        )
    )
    expected, got = (used(api, text, (), "use") for api in (tf1, tfjit))
    assert got == expected


def test_a_handle_of_something_else() -> None:
    table = node("queue", "HashTableV2", key_dtype="type: DT_STRING", value_dtype="type: DT_FLOAT")
    expected, got = (used(api, CONSTANTS + table + ENQUEUE, (), "enqueue") for api in (tf1, tfjit))
    assert got == expected == ["InvalidArgumentError"]

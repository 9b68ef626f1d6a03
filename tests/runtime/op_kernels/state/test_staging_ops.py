"""Staging areas and maps against TensorFlow's; what would wait for ever there ends with its step
here.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.runtime.error_texts import cause
from tests.waiting import is_blocked

tf1 = tf.compat.v1
TYPES = {"dtypes": [tf.float32, tf.int32]}
Ops = dict[str, Any]


def area(**options: Any) -> Ops:
    x, index = tf1.placeholder(tf.float32, None, "x"), tf1.placeholder(tf.int32, None, "index")
    options["shared_name"] = "a"
    raw = tf.raw_ops
    return {
        "put": raw.Stage(values=[x, tf.constant(7)], **options),
        "get": raw.Unstage(**TYPES, **options),
        "peek": raw.StagePeek(index=index, **TYPES, **options),
        "size": raw.StageSize(**TYPES, **options),
        "clear": raw.StageClear(**TYPES, **options),
    }


def keyed(prefix: str, **options: Any) -> Ops:
    key, x, index = (
        tf1.placeholder(t, None, n)
        for t, n in ((tf.int64, "key"), (tf.float32, "x"), (tf.int32, "index"))
    )
    options["shared_name"] = "m"

    def op(name: str, dtypes: Any = TYPES["dtypes"], **inputs: Any) -> Any:
        return getattr(tf.raw_ops, prefix + name)(dtypes=dtypes, **inputs, **options)

    return {
        "put": op("Stage", key=key, indices=[0, 1], values=[x, tf.constant(7)]),
        "put0": op("Stage", key=key, indices=[0], values=[x]),
        "put1": op("Stage", key=key, indices=[1], values=[tf.constant(9)]),
        "put at": op("Stage", key=key, indices=index, values=[x]),
        "swapped": op("Stage", key=key, indices=[1, 0], values=[x, tf.constant(7)]),
        "get": op("Unstage", key=key, indices=[0, 1]),
        "get0": op("Unstage", [tf.float32], key=key, indices=[0]),
        "get1": op("Unstage", [tf.int32], key=key, indices=[1]),
        "get at": op("Unstage", [tf.float32], key=key, indices=index),
        "get twice": op("Unstage", [tf.float32] * 2, key=key, indices=[0, 0]),
        "any": op("UnstageNoKey", indices=[0, 1]),
        "peek": op("Peek", key=key, indices=[0, 1]),
        "peek at": op("Peek", [tf.float32], key=key, indices=index),
        "size": op("Size"),
        "incomplete": op("IncompleteSize"),
        "clear": op("Clear"),
    }


def steps(text: str) -> list[tuple[str, dict[str, Any]]]:
    """ "put key=1 x=2" a line."""
    found = []
    for line in text.strip().splitlines():
        words = line.strip().split(" ")
        feeds = [word for word in words if "=" in word]
        arrays = {"key": np.int64, "x": np.float32, "index": np.int32}
        values = {
            name: np.array(eval(value), arrays[name])
            for name, _, value in (feed.partition("=") for feed in feeds)
        }
        found.append(
            (
                " ".join(word for word in words if "=" not in word),
                {f"{name}:0": value for name, value in values.items()},
            )
        )
    return found


AREA = """
    size
    put x=1
    put x=[2,3]
    size
    peek index=0
    peek index=1
    peek index=[0]
    get
    size
    get
    put x=4
    clear
    size
"""
MAP = """
    size
    put key=3 x=1
    put key=1 x=2
    put key=3 x=5
    size
    peek key=1
    get key=1
    any
    put0 key=5 x=1.5
    size
    incomplete
    put0 key=5 x=1.5
    put1 key=5
    size
    incomplete
    get0 key=5
    size
    get0 key=5
    get1 key=5
    size
    put at key=6 index=[5] x=1
    put at key=6 index=[-1] x=1
    put at key=6 index=[[0]] x=1
    incomplete
    swapped key=6 x=1
    put key=[7] x=1
    put key=[] x=1
    put key=[7,8] x=1
    size
    clear
    size
    incomplete
    put key=4 x=1
    get at key=4 index=[7]
    get twice key=4
    peek at key=4 index=[3]
    get at key=4 index=[1]
    put key=2 x=5
    put key=8 x=6
    any
"""


@pytest.mark.parametrize(
    ("make", "options", "text"),
    [
        (area, {}, AREA),
        (area, {"memory_limit": 40}, "put x=[1,2,3,4,5]\nput x=[0]*20\nsize\nget\nsize"),
        (lambda **o: keyed("Map", **o), {}, MAP),
        (lambda **o: keyed("OrderedMap", **o), {}, MAP),
        (
            lambda **o: keyed("Map", **o),
            {"memory_limit": 40},
            "put0 key=1 x=[0]*20\nput0 key=1 x=3\nincomplete\nput1 key=1\nget key=1\nsize",
        ),
        (
            lambda **o: keyed("Map", **o),
            {"capacity": 1},
            "put key=3 x=1\nput0 key=5 x=1\nput1 key=5\nsize\nget key=3\nget key=5",
        ),
    ],
    ids=["area", "bytes", "map", "ordered map", "bytes of a map", "capacity of a map"],
)
def test_like_tensorflow(make: Any, options: Any, text: str) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        ops = make(**options)
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        for name, feeds in steps(text):
            found = []
            for session in (theirs, ours):
                try:
                    found.append(session.run(ops[name], feeds))
                except Exception as error:
                    found.append((type(error).__name__, cause(error)))
            np.testing.assert_equal(found[1], found[0], err_msg=f"{name} {feeds}")


@pytest.mark.parametrize("kind", ["area", "map"])
def test_waiting_for_each_other(kind: str) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        ops = area(capacity=2) if kind == "area" else keyed("Map", capacity=2)
    with tfjit.Session(graph=graph) as session:
        taken = []

        def take() -> None:
            for key in range(20):
                taken.append(session.run(ops["get"], {"key:0": key} if kind == "map" else {})[0])

        thread = threading.Thread(target=take)
        thread.start()
        for key in range(20):
            session.run(ops["put"], {"x:0": key, **({"key:0": key} if kind == "map" else {})})
        thread.join(60)
        assert taken == list(range(20))
        assert session.run(ops["size"]) == 0


@pytest.mark.parametrize(
    ("name", "feeds"),
    [("get", {}), ("peek", {"index:0": 3}), ("put", {"x:0": 1})],
    ids=["an empty area", "one not there", "a full area"],
)
def test_what_waits_ends_with_its_step(name: str, feeds: Any) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        ops = area(capacity=1)
    session = tfjit.Session(graph=graph)
    if name == "put":
        session.run(ops["put"], feeds)
    for _ in range(2):
        with pytest.raises(tfjit.errors.DeadlineExceededError):
            session.run(ops[name], feeds, options=tf1.RunOptions(timeout_in_ms=30))
    assert session.run(ops["size"]) == (name == "put")
    found: list[Any] = []

    def wait() -> None:
        try:
            session.run(ops[name], feeds)
        except tfjit.errors.OpError as error:
            found.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert is_blocked(thread)
    session.close()
    thread.join(60)
    assert isinstance(found[0], tfjit.errors.CancelledError)

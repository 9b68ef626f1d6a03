"""Section 6, points 1, 5 and 6: what may be fetched, in which structures, and what is refused."""

from __future__ import annotations

import collections
import dataclasses
import types
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.contract.worlds import Call, agree, both, ours, outcome, shared_world, theirs, world

tf1 = tf.compat.v1
X = np.arange(6, dtype="f4").reshape(2, 3)


def build(api: Any) -> dict[str, Any]:
    x = api.placeholder(api.float32, [None, 3], name="x")
    y = api.add(x, 1.0, name="y")
    hidden = api.identity(y, name="hidden")
    api.get_default_graph().prevent_fetching(hidden.op)
    return {
        "x": x,
        "y": y,
        "z": api.multiply(y, 2.0, name="z"),
        "total": api.reduce_sum(x, name="total"),
        "op": api.group(y, name="op"),
        "hidden": hidden,
        "text": api.constant(["a", "b\0"], name="text"),
        "word": api.constant("word", name="word"),
        "flag": api.constant(True, name="flag"),
        "half": api.constant([1.5], api.float16, name="half"),
        "bfloat": api.constant([1.5, 2.5], api.bfloat16, name="bfloat"),
        "small": api.constant(7, api.int8, name="small"),
        "complex": api.constant(1 + 2j, api.complex64, name="complex"),
        "empty": api.constant(np.zeros((0, 2), "f8"), name="empty"),
        "ref": api.get_variable("ref", initializer=1.5, use_resource=False),
        "res": api.get_variable("res", initializer=2.5, use_resource=True),
        "init": api.global_variables_initializer(),
    }


class Attribute:
    def __init__(self, name: str) -> None:
        self.name = name


class Pair:
    """What an attrs class looks like."""

    __attrs_attrs__ = (Attribute("first"), Attribute("second"))

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second


@dataclasses.dataclass
class Data:
    a: Any


class OwnList(list[Any]):
    pass


class OwnTuple(tuple[Any, ...]):
    pass


class OwnDict(dict[str, Any]):
    pass


class OwnMapping(collections.abc.Mapping[str, Any]):
    def __init__(self, pairs: Any) -> None:
        self.held = dict(pairs)

    def __getitem__(self, key: str) -> Any:
        return self.held[key]

    def __iter__(self) -> Any:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)


class Stands:
    """Says itself which graph element it stands for."""

    def __init__(self, element: Any) -> None:
        self.element = element

    def _as_graph_element(self) -> Any:
        return self.element


Point = collections.namedtuple("Point", ["a", "b"])


def foreign(w: SimpleNamespace) -> Any:
    with w.api.Graph().as_default():
        return w.api.constant(1.0, name="foreign")


def fed(s: Any, w: SimpleNamespace, fetches: Any) -> Any:
    return s.run(fetches, {w.x: X})


TAKEN: dict[str, Call] = {
    "tensor": lambda s, w: fed(s, w, w.y),
    "tensor name": lambda s, w: fed(s, w, "y:0"),
    "bytes": lambda s, w: fed(s, w, b"y:0"),
    "operation": lambda s, w: fed(s, w, w.op),
    "operation name": lambda s, w: fed(s, w, "op"),
    "name of a tensor's operation": lambda s, w: fed(s, w, "y"),
    "list": lambda s, w: fed(s, w, [w.y, w.z]),
    "tuple": lambda s, w: fed(s, w, (w.y, w.z)),
    "dict": lambda s, w: fed(s, w, {"b": w.y, "a": [w.z, w.op]}),
    "namedtuple": lambda s, w: fed(s, w, Point(w.y, (w.z, w.x))),
    "OrderedDict": lambda s, w: fed(s, w, collections.OrderedDict([("z", w.y), ("a", w.z)])),
    "defaultdict": lambda s, w: fed(s, w, collections.defaultdict(list, a=w.y)),
    "dict subclass": lambda s, w: fed(s, w, OwnDict(a=w.y)),
    "mapping": lambda s, w: fed(s, w, OwnMapping({"a": w.y})).held,
    "attrs class": lambda s, w: vars(fed(s, w, Pair(w.y, [w.z]))),
    "list subclass": lambda s, w: fed(s, w, OwnList([w.y])),
    "nested": lambda s, w: fed(s, w, [[w.y], ({"k": w.z},), [], [[w.op]]]),
    "own element": lambda s, w: fed(s, w, Stands(w.y)),
    "duplicates": lambda s, w: fed(s, w, [w.y, w.y, "y:0"]),
    "fed and fetched": lambda s, w: fed(s, w, [w.x, w.y]),
    "only fed": lambda s, w: s.run(w.x, {w.x: [[1, 2, 3]]}),
    "empty list": lambda s, w: s.run([]),
    "empty structures": lambda s, w: s.run([[], (), {}]),
    "empty, fed": lambda s, w: fed(s, w, []),
    "scalar": lambda s, w: fed(s, w, w.total),
    "text": lambda s, w: s.run(w.text),
    "scalar text": lambda s, w: s.run(w.word),
    "bool": lambda s, w: s.run(w.flag),
    "half": lambda s, w: s.run(w.half),
    "bfloat16": lambda s, w: s.run(w.bfloat),
    "int8": lambda s, w: s.run(w.small),
    "complex": lambda s, w: s.run(w.complex),
    "empty tensor": lambda s, w: s.run(w.empty),
    "variables": lambda s, w: s.run([w.ref, w.res]),
    "reference by name": lambda s, w: s.run("ref:0"),
}

REFUSED: dict[str, Call] = {
    "None": lambda s, w: s.run(None),
    "None inside": lambda s, w: fed(s, w, [w.y, None]),
    "float": lambda s, w: s.run(3.7),
    "int": lambda s, w: s.run(3),
    "bool": lambda s, w: s.run(True),
    "set": lambda s, w: fed(s, w, {"y:0"}),
    "frozenset": lambda s, w: fed(s, w, frozenset(["y:0"])),
    "generator": lambda s, w: fed(s, w, (t for t in [w.y])),
    "iterator": lambda s, w: fed(s, w, iter([w.y])),
    "keys of a dict": lambda s, w: fed(s, w, {"y:0": 1}.keys()),
    "dataclass": lambda s, w: fed(s, w, Data("y:0")),
    "UserList": lambda s, w: fed(s, w, collections.UserList(["y:0"])),
    "array": lambda s, w: s.run(np.array([1.0])),
    "function": lambda s, w: s.run(len),
    "unnamed tuple subclass": lambda s, w: fed(s, w, OwnTuple([w.y, w.z])),
    "mapping proxy": lambda s, w: fed(s, w, types.MappingProxyType({"a": w.y})),
    "unknown operation": lambda s, w: s.run("nope"),
    "unknown tensor": lambda s, w: s.run("nope:0"),
    "unknown slot": lambda s, w: s.run("y:7"),
    "two slots": lambda s, w: s.run("y:0:0"),
    "no slot": lambda s, w: s.run("y:"),
    "slot that is no number": lambda s, w: s.run("y:x"),
    "control name": lambda s, w: s.run("^y"),
    "empty name": lambda s, w: s.run(""),
    "another graph's tensor": lambda s, w: s.run(foreign(w)),
    "another graph's operation": lambda s, w: s.run(foreign(w).op),
    "hidden tensor": lambda s, w: fed(s, w, w.hidden),
    "hidden operation": lambda s, w: fed(s, w, w.hidden.op),
    "placeholder's operation, its tensor fed": lambda s, w: fed(s, w, w.x.op),
    "nothing fed": lambda s, w: s.run(w.y),
}


def compare(front: str, call: Call) -> None:
    reference = shared_world("tf", build)
    w = shared_world(front, build)
    with theirs(reference) as session:
        session.run(reference.init)
        expected = outcome(session, reference, call)
    with ours(w) as session:
        session.run(w.init)
        agree(outcome(session, w, call), expected)
        if expected[0] == "value":
            agree(outcome(session, w, call), expected)  # now from what the session remembers
        # whatever happened, it works on
        np.testing.assert_array_equal(session.run(w.y, {w.x: X}), X + 1)


@both
@pytest.mark.parametrize("name", TAKEN)
def test_taken(front: str, name: str) -> None:
    compare(front, TAKEN[name])


@both
@pytest.mark.parametrize("name", REFUSED)
def test_refused(front: str, name: str) -> None:
    compare(front, REFUSED[name])


# what only TensorFlow's front end has


def composites(api: Any) -> dict[str, Any]:
    x = tf1.placeholder(tf.float32, [None, 3], name="x")
    sparse = tf1.sparse_placeholder(tf.float32, name="sparse")
    slices = tf.IndexedSlices(
        x, tf1.placeholder(tf.int32, name="rows"), tf1.placeholder(tf.int32, name="shape")
    )
    ragged = tf1.ragged.placeholder(tf.float32, 1, name="ragged")
    return {
        "x": x,
        "sparse": sparse,
        "doubled": sparse.values * 2.0,
        "slices": slices,
        "shapeless": tf.IndexedSlices(x, tf.constant([0, 1])),
        "picked": slices.values * 2.0,
        "ragged": ragged,
        "flat": ragged.flat_values * 2.0,
        "fixed": tf.SparseTensor([[0, 0], [1, 2]], [1.0, 2.0], [2, 3]),
        "rows": tf.RaggedTensor.from_row_splits(
            tf.constant([1.0, 2.0, 3.0]), [0, 2, 3], validate=False
        ),
    }


SPARSE = tf1.SparseTensorValue(
    np.array([[0, 0], [1, 1]]), np.array([1.0, 2.0], "f4"), np.array([2, 3])
)
COMPOSITES: dict[str, Call] = {
    "sparse tensor": lambda s, w: s.run(w.fixed),
    "sparse fed and fetched": lambda s, w: s.run([w.sparse, w.doubled], {w.sparse: SPARSE}),
    "sparse fed by tuple": lambda s, w: s.run(w.doubled, {w.sparse: ([[0, 0]], [1.0], [1, 1])}),
    "indexed slices": lambda s, w: s.run(w.shapeless, {w.x: X}),
    "indexed slices fed": lambda s, w: s.run(
        [w.slices, w.picked], {w.slices: tf1.IndexedSlicesValue(X, [0, 1], [5, 3])}
    ),
    "indexed slices by tuple": lambda s, w: s.run(w.picked, {w.slices: (X, [0, 1], [5, 3])}),
    "ragged tensor": lambda s, w: s.run(w.rows).to_list(),
    "ragged fed": lambda s, w: s.run(
        w.flat, {w.ragged: tf1.ragged.constant_value([[1.0, 2.0], [3.0]], dtype="f4")}
    ),
    "nested composites": lambda s, w: s.run({"a": [w.fixed, (w.rows,)]})["a"][0],
    "composites in a partial run": lambda s, w: s.partial_run(
        s.partial_run_setup([w.doubled], [w.sparse]), w.doubled, {w.sparse: SPARSE}
    ),
    "composite in a callable": lambda s, w: s.make_callable([w.doubled, w.sparse], [w.sparse])(
        SPARSE
    ),
}


@pytest.mark.parametrize("name", COMPOSITES)
def test_composite_tensors(name: str) -> None:
    w = shared_world("tf", composites)
    with theirs(w) as session:
        expected = outcome(session, w, COMPOSITES[name])
    with ours(w) as session:
        for _ in range(2):
            agree(outcome(session, w, COMPOSITES[name]), expected)


@both
def test_registered_types(front: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry of either library; the latest registered type that fits counts; a base of a
    registered type is refused.
    """
    from tensorflow.python.client import session as tf_session

    from tfjit.client.session import fetches

    monkeypatch.setattr(fetches, "_CONVERSIONS", list(fetches._CONVERSIONS))
    monkeypatch.setattr(
        tf_session, "_REGISTERED_EXPANSIONS", list(tf_session._REGISTERED_EXPANSIONS)
    )
    register = (
        tfjit.register_session_run_conversion_functions
        if front == "tfjit"
        else tf_session.register_session_run_conversion_functions
    )

    class Base:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

    class Derived(Base):
        pass

    class Nothing:
        pass

    w = shared_world(front, build)
    register(
        Base,
        lambda b: ([b.tensor], lambda values: values[0] * 10),
        lambda b, value: [(b.tensor, np.asarray(value) / 2)],
        lambda b: [b.tensor],
    )
    register(Nothing, lambda n: ([], lambda values: 1 / 0))
    with ours(w) as session:
        np.testing.assert_array_equal(session.run(Base(w.y), {w.x: X}), (X + 1) * 10)
        np.testing.assert_array_equal(session.run(w.y, {Base(w.x): X}), X / 2 + 1)
        np.testing.assert_array_equal(
            session.run({"a": [Derived(w.y)]}, {w.x: X})["a"][0], (X + 1) * 10
        )
        register(Derived, lambda d: ([d.tensor, w.x], lambda values: tuple(values)))
        got = session.run(Derived(w.y), {w.x: X})
        assert type(got) is tuple
        np.testing.assert_array_equal(got[1], X)
        assert session.run([Nothing(), w.op], {w.x: X}) == [None, None]
        handle = session.partial_run_setup([w.y], Base(w.x))
        np.testing.assert_array_equal(session.partial_run(handle, w.y, {Base(w.x): X}), X / 2 + 1)
    for known in (Base, object):
        with pytest.raises(ValueError, match="has already been registered so ignore it"):
            register(known, lambda b: ([b.tensor], lambda values: values[0]))


@both
def test_duplicates_share_one_array(front: str) -> None:
    w = shared_world(front, build)
    for session in (ours(w), *([theirs(w)] if front == "tf" else [])):
        with session:
            a, (b, c) = session.run([w.y, (w.y, "y:0")], {w.x: X})
            assert a is b
            assert a is c


@both
def test_an_empty_graph(front: str) -> None:
    """Point 6: `run([])` is [] over a graph that holds something, an error over one that holds
    nothing.
    """
    empty = world(front, lambda api: {})
    text = r"The Session graph is empty\. Add operations to the graph before calling run\(\)\."
    for session in (ours(empty), *([theirs(empty)] if front == "tf" else [])):
        with session:
            for call in (
                lambda s: s.run([]),
                lambda s: s.run(None),
                lambda s: s.partial_run_setup([]),
            ):
                with pytest.raises(RuntimeError, match=text):
                    call(session)

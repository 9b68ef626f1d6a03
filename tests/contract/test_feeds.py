"""Section 6, points 2 to 4: what may be fed, how values are converted, and what is refused."""

from __future__ import annotations

import collections
import decimal
import fractions
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tfjit
from tests.contract.worlds import Call, agree, both, ours, outcome, shared_world, theirs, world

X = np.arange(6, dtype="f4").reshape(2, 3)
DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bool", "string"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("qint8", "quint8", "qint16", "quint16", "qint32"),
)


class OwnArray(np.ndarray):
    pass


VALUES: dict[str, Any] = {
    "int": 3,
    "negative": -1,
    "2**40": 2**40,
    "2**70": 2**70,
    "bool": True,
    "float": 1.5,
    "negative float": -2.7,
    "nan": float("nan"),
    "infinity": float("inf"),
    "complex": 1 + 2j,
    "None": None,
    "text": "abc",
    "digits": "3",
    "bytes": b"ab\xff",
    "object": object(),
    "function": len,
    "ints": [1, 2],
    "floats": [1.7, -2.7],
    "bools": [True, False],
    "large ints": [300, -200],
    "very large ints": [2**70],
    "texts": ["1", "2"],
    "texts of both kinds": ["a", b"b"],
    "text among numbers": [1, "a"],
    "None among numbers": [None, 1],
    "rows": [[1, 2], [3, 4]],
    "ragged": [[1], [2, 3]],
    "ragged arrays": [np.ones(2), np.ones(3)],
    "arrays": [np.ones(2), np.zeros(2)],
    "tuple": (1, 2),
    "range": range(3),
    "set": {1},
    "dict": {1: 2},
    "empty": [],
    "empty rows": [[]],
    "int32 array": np.array([1, 2], "i4"),
    "int8 array": np.array([1, -2], "i1"),
    "float64 array": np.array([1.5, np.inf]),
    "beyond half": np.array([70000.0, 1], "f4"),
    "complex array": np.array([1 + 1j]),
    "bool array": np.array([True]),
    "bfloat16 array": np.array([1.5], ml_dtypes.bfloat16),
    "byte-swapped floats": np.array([1, 2], ">f4"),
    "byte-swapped ints": np.array([1, 2], ">i4"),
    "object array of ints": np.array([1, 2], object),
    "object array of texts": np.array(["a", b"b"], object),
    "object array with None": np.array([1, None], object),
    "text array": np.array(["a", "bc"]),
    "bytes array": np.array([b"a", b"bc\0"]),
    "dates": np.array(["2020-01-01"], "M8[D]"),
    "structures": np.array([(1,)], [("qint8", "i1")]),
    "matrix": np.asmatrix([[1, 2]]),
    "masked": np.ma.array([1, 2], mask=[0, 1]),
    "own class of array": np.arange(3.0).view(OwnArray),
    "long double": np.array([1.5], np.longdouble),
    "NumPy int": np.int64(5),
    "NumPy int beyond 32 bits": np.int64(2**40),
    "NumPy float": np.float64(2.5),
    "NumPy bool": np.bool_(True),
    "NumPy text": np.str_("a"),
    "NumPy bytes": np.bytes_(b"a"),
    "memory view": memoryview(b"ab"),
    "byte array": bytearray(b"ab"),
    "decimal": decimal.Decimal("1.5"),
    "fraction": fractions.Fraction(1, 2),
    "ellipsis": ...,
}


def build(api: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name in DTYPES:
        made[name] = api.placeholder(getattr(api, name), name=name)
        made[f"{name}_out"] = api.identity(made[name], name=f"{name}_out")
    x = api.placeholder(api.float32, [None, 3], name="x")
    n = api.placeholder(api.int32, [], name="n")
    y = api.add(x, 1.0, name="y")
    constant = api.constant(np.ones((2, 3), "f4"), name="constant")
    default = api.placeholder_with_default(2.0, [], name="default")
    locked = api.placeholder(api.float32, name="locked")
    api.get_default_graph().prevent_feeding(locked)
    made |= {
        "x": x,
        "n": n,
        "y": y,
        "z": api.multiply(y, 2.0, name="z"),
        "same": api.identity(n, name="same"),
        "constant": constant,
        "tripled": api.multiply(constant, 3.0, name="tripled"),
        "default": default,
        "scaled": api.multiply(default, 2.0, name="scaled"),
        "locked": locked,
        "unlocked": api.identity(locked, name="unlocked"),
        "parts": api.split(x, 3, axis=1, name="parts"),
        "resource": api.placeholder(api.resource, [], name="resource"),
        "res": api.get_variable("res", initializer=2.5, use_resource=True),
        "ref": api.get_variable("ref", initializer=1.5, use_resource=False),
        "init": api.global_variables_initializer(),
    }
    made["sum"] = api.add(made["ref"], made["res"], name="sum")
    made["joined"] = api.concat(made["parts"], 1, name="joined")
    made["read"] = api.raw_ops.ReadVariableOp(resource=made["resource"], dtype=api.float32)
    return made


@pytest.fixture(scope="module")
def sessions() -> Any:
    """A session of each kind, by front; "oracle" is TensorFlow's."""
    made = {
        "oracle": theirs(shared_world("tf", build)),
        "tf": ours(shared_world("tf", build)),
        "tfjit": ours(shared_world("tfjit", build)),
    }
    for name, session in made.items():
        session.run(shared_world("tfjit" if name == "tfjit" else "tf", build).init)
    yield made
    for session in made.values():
        session.close()


def compare(sessions: Any, front: str, call: Call) -> None:
    with warnings.catch_warnings():
        # NumPy's, of a cast that overflows; TensorFlow gives the same
        warnings.simplefilter("ignore")
        expected = outcome(sessions["oracle"], shared_world("tf", build), call)
        w = shared_world(front, build)
        for _ in range(2):
            agree(outcome(sessions[front], w, call), expected)
        np.testing.assert_array_equal(sessions[front].run(w.y, {w.x: X}), X + 1)


# TensorFlow fails on these by accident, while it makes the check; tfjit raises what it would have
# raised if the check had said no
QUANTIZED_INTS = ("int", "negative", "2**40", "2**70", "bool")


@both
@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions(sessions: Any, front: str, dtype: str) -> None:
    for name, value in VALUES.items():
        if dtype.startswith("q") and name in QUANTIZED_INTS:
            with pytest.raises(
                TypeError,
                match=rf"Type of feed value {value} with type .* is not compatible with Tensor "
                rf"type {dtype}",
            ):
                run_identity(dtype, value)(sessions[front], shared_world(front, build))
            continue
        try:
            compare(sessions, front, run_identity(dtype, value))
        except AssertionError as error:
            raise AssertionError(f"{name} into {dtype}: {error}") from None


def run_identity(dtype: str, value: Any) -> Call:
    return lambda s, w: s.run(getattr(w, f"{dtype}_out"), {getattr(w, dtype): value})


def foreign(w: SimpleNamespace) -> Any:
    with w.api.Graph().as_default():
        return w.api.constant(1.0, name="foreign")


Two = collections.namedtuple("Two", ["a", "b"])

FEEDS: dict[str, Call] = {
    "by name": lambda s, w: s.run("y:0", {"x:0": X}),
    "a placeholder with default": lambda s, w: [s.run(w.scaled), s.run(w.scaled, {w.default: 4})],
    "a constant": lambda s, w: s.run([w.tripled, w.constant], {w.constant: X}),
    "the middle of the graph": lambda s, w: s.run(w.z, {w.y: X}),
    "one of several outputs": lambda s, w: s.run(w.joined, {w.x: X, w.parts[1]: [[9], [8]]}),
    "a reference variable": lambda s, w: [
        s.run(w.sum, {"ref:0": 5.0}),
        s.run("ref:0", {"ref:0": 7.0}),
    ],
    "what a resource variable is read as": lambda s, w: s.run(w.sum, {w.sum.op.inputs[1]: 5.0}),
    "a tensor twice": lambda s, w: s.run(w.y, {w.x: X, "x:0": X * 3}),
    "what is not needed": lambda s, w: s.run(w.tripled, {w.x: X}),
    "a tuple of keys": lambda s, w: s.run([w.y, w.same], {(w.x, w.n): (X, 3)}),
    "nested keys": lambda s, w: s.run([w.y, w.same], {(w.x, (w.n,)): (X, (3,))}),
    "a namedtuple of keys": lambda s, w: s.run([w.y, w.same], {Two(w.x, w.n): Two(X, 3)}),
    "an ordered dict": lambda s, w: s.run(w.y, collections.OrderedDict({w.x: X})),
    "None as feed_dict": lambda s, w: s.run(w.tripled, None),
    "an empty feed_dict": lambda s, w: [s.run(w.tripled, {}), s.run(w.tripled, [])],
}

FEED_ERRORS: dict[str, Call] = {
    "an operation": lambda s, w: s.run(w.y, {w.x.op: X}),
    "an operation's name": lambda s, w: s.run(w.y, {"x": X}),
    "an unknown name": lambda s, w: s.run(w.y, {"nope:0": X}),
    "an unknown slot": lambda s, w: s.run(w.y, {"x:3": X}),
    "another graph's tensor": lambda s, w: s.run(w.y, {foreign(w): 1.0}),
    "an int as key": lambda s, w: s.run(w.y, {3: X}),
    "None as key": lambda s, w: s.run(w.y, {None: X}),
    "a tensor as value": lambda s, w: s.run(w.y, {w.x: w.y}),
    "a tensor that may not be fed": lambda s, w: s.run(w.unlocked, {w.locked: 1.0}),
    "a wrong size": lambda s, w: s.run(w.y, {w.x: np.ones((2, 4))}),
    "a wrong rank": lambda s, w: s.run(w.y, {w.x: np.ones(3)}),
    "a wrong size for a constant": lambda s, w: s.run(w.tripled, {w.constant: np.ones((3, 2))}),
    "rows of text": lambda s, w: s.run(w.y, {w.x: [["a", "b", "c"]]}),
    "ragged rows": lambda s, w: s.run(w.y, {w.x: [[1, 2, 3], [1]]}),
    "too few values for keys": lambda s, w: s.run(w.y, {(w.x, w.n): (3,)}),
    "a key twice": lambda s, w: s.run(w.y, {(w.x, w.n): (X, 1), w.x: X}),
    "a faulty feed before a faulty fetch": lambda s, w: s.run("nope", {"nope:0": 1}),
}


@both
@pytest.mark.parametrize("name", FEEDS)
def test_taken(sessions: Any, front: str, name: str) -> None:
    compare(sessions, front, FEEDS[name])


@both
@pytest.mark.parametrize("name", FEED_ERRORS)
def test_refused(sessions: Any, front: str, name: str) -> None:
    compare(sessions, front, FEED_ERRORS[name])


@both
@pytest.mark.parametrize(
    "feed_dict",
    [[("x", 1)], "text", (1, 2), {"x:0"}, 7],
    ids=["pairs", "text", "tuple", "set", "int"],
)
def test_what_is_no_mapping(sessions: Any, front: str, feed_dict: Any) -> None:
    for session in (sessions["oracle"], sessions[front]):
        with pytest.raises(TypeError):
            session.run("y:0", feed_dict)


@both
def test_handles(sessions: Any, front: str) -> None:
    """A number, text or array is no resource handle. (TensorFlow fails with KeyError 20, the number
    of the dtype.)
    """
    w = shared_world(front, build)
    for value in (3, "res", [1], np.zeros(2), None, object()):
        with pytest.raises(
            TypeError, match="for Tensor resource:0 of dtype resource: it takes a fetched handle"
        ):
            sessions[front].run(w.read, {w.resource: value})


@both
def test_feedable(front: str) -> None:
    w = world(front, lambda api: {"a": api.constant(1.0, name="a")})
    assert w.graph.is_feedable(w.a)
    with ours(w) as session:
        assert session.run(w.a, {w.a: 3.0}) == 3
        w.graph.prevent_feeding(w.a)
        assert not w.graph.is_feedable(w.a)
        with w.graph.as_default():
            b = w.api.identity(w.a, name="b")
        with pytest.raises(ValueError, match=r"Tensor a:0 may not be fed\."):
            session.run(b, {w.a: 3.0})


# layouts


def layouts(folder: Path) -> dict[str, np.ndarray]:
    base = np.arange(24, dtype="f4").reshape(4, 6)
    fixed = base[:2, :3].copy()
    fixed.flags.writeable = False
    mapped = np.memmap(folder / "mapped", "f4", "w+", shape=(2, 3))
    mapped[:] = fixed
    return {
        "contiguous": base[:2, :3].copy(),
        "every second": base[::2, ::2],
        "reversed": base[1::-1, 2::-1],
        "Fortran order": np.asfortranarray(base[:2, :3]),
        "transposed": base[:3, :2].T,
        "column": base[:, 1:4],
        "broadcast": np.broadcast_to(np.float32(2), (2, 3)),
        "read-only": fixed,
        "byte-swapped": fixed.astype(">f4"),
        "subclass": fixed.view(OwnArray),
        "memory-mapped": mapped,
        "read-only map": np.memmap(folder / "mapped", "f4", "r", shape=(2, 3)),
        "unaligned": np.frombuffer(b"\0" + fixed.tobytes(), "f4", offset=1).reshape(2, 3),
        "float64": base[:2, :3].astype("f8"),
        "no rows": base[:0, :3],
        "no rows, transposed": np.zeros((3, 0), "f4").T,
    }


@both
def test_layouts(sessions: Any, front: str, tmp_path: Path) -> None:
    """Any layout gives what a fresh array would, and is never written."""
    w = shared_world(front, build)
    for name, value in layouts(tmp_path).items():
        before = value.copy()
        for _ in range(3):
            got, fetched = sessions[front].run([w.y, w.x], {w.x: value})
            np.testing.assert_array_equal(got, before + 1, err_msg=name)
            np.testing.assert_array_equal(fetched, before, err_msg=name)
            assert type(got) is np.ndarray
            got += 1
            fetched += 1
            np.testing.assert_array_equal(value, before, err_msg=name)


@both
def test_what_fits_is_not_copied(front: str) -> None:
    """The step is given the caller's own array where dtype and layout fit."""
    w = shared_world(front, build)
    seen: list[np.ndarray] = []
    with ours(w) as session:
        backend = session._runtime_session
        prepare = backend.prepare

        def watched(*args: Any) -> Any:
            runner = prepare(*args)
            return lambda values: seen.extend(values) or runner(values)

        backend.prepare = watched
        fits = {
            "int8": np.zeros(3, "i1"),
            "float32": np.zeros((2, 2), "f4"),
            "float64": np.zeros(3),
            "bool": np.zeros(1, bool),
        }
        fits |= {
            "string": np.array([b"a", b"b"], object),
            "bfloat16": np.zeros(2, ml_dtypes.bfloat16),
            "complex64": np.zeros(2, "c8"),
        }
        for dtype, value in fits.items():
            session.run(getattr(w, f"{dtype}_out"), {getattr(w, dtype): value})
            assert seen[-1] is value, dtype
        value = np.zeros((2, 2))
        session.run(w.float32_out, {w.float32: value})
        assert seen[-1] is not value


@both
def test_a_result_is_not_the_feed(sessions: Any, front: str) -> None:
    """What is fed and handed on unchanged, or fetched itself, comes back as the
    caller's own array.
    """
    w = shared_world(front, build)
    value = X.copy()
    for fetch in (w.float32_out, w.float32):
        for _ in range(3):
            got = sessions[front].run(fetch, {w.float32: value})
            got[:] = 99
            np.testing.assert_array_equal(value, X)


def test_texts_beyond_ascii(sessions: Any) -> None:
    for front in ("tf", "tfjit"):
        w = shared_world(front, build)
        got = sessions[front].run(w.string_out, {w.string: ["ä", "\U0001f600", b"\xff\0"]})
        assert got.tolist() == ["ä".encode(), "\U0001f600".encode(), b"\xff\0"]
    assert isinstance(tfjit.errors.InternalError(None, None, ""), tfjit.OpError)

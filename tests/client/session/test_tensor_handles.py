"""Session handles: tensors that stay in the session between runs, over a tfjit graph and over a
tf.Graph, against TensorFlow.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests import hardware
from tfjit.client.session.tensor_handles import TensorHandle

tf1 = tf.compat.v1
CPU0, CPU1 = (f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(2))
GPU0 = CPU0.replace("CPU", "GPU")
TWO_CPUS = {"CPU": 2}


class World:
    """y = 2 x, kept by a handle; words, kept by another. lib: tfjit or TensorFlow, which builds the
    graph; session: who runs it.
    """

    def __init__(self, lib: Any, session: Any, devices: tuple[str, str] = ("", "")) -> None:
        self.lib = lib
        on_gpu = hardware.gpu_count() > 0 and session is tfjit.Session
        self.home = GPU0 if on_gpu else CPU0  # of nodes that name no device
        self.graph = lib.Graph()
        with self.graph.as_default():
            with lib.device(devices[0]):
                self.x = lib.placeholder(lib.float32, [None], name="x")
                self.y = lib.multiply(self.x, 2.0, name="y")
                self.h = lib.get_session_handle(self.y)
            with lib.device(devices[1]):
                self.h1 = lib.get_session_handle(lib.add(self.x, 1.0))
            self.words = lib.get_session_handle(lib.constant(["a", "bc"]))
            self.z = lib.placeholder(lib.float32, [3], name="z")
            self.z1 = lib.negative(self.z)
            self.i = lib.placeholder(lib.int32, [None], name="i")
            self.i1 = lib.negative(self.i)
        config = lib.ConfigProto(device_count=TWO_CPUS)
        self.session = session(graph=self.graph, config=config)


KINDS: dict[str, Callable[..., World]] = {
    "theirs": lambda *a: World(tf1, tf1.Session, *a),
    "over tf.Graph": lambda *a: World(tf1, tfjit.Session, *a),
    "over tfjit.Graph": lambda *a: World(tfjit, tfjit.Session, *a),
}
X = np.array([1, 2, 3], "f4")


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest) -> Any:
    made = KINDS[request.param]()
    yield made
    made.session.close()


def test_kept_read_and_fed_back(world: World) -> None:
    s = world.session
    handle = s.run(world.h, {world.x: X})
    assert type(handle).__name__ == "TensorHandle"
    assert handle.handle == str(handle) == f"GetSessionHandle;0;{world.home}"
    np.testing.assert_array_equal(handle.eval(), X * 2)
    np.testing.assert_array_equal(s.run(world.y, {world.x: handle}), X * 4)
    np.testing.assert_array_equal(s.run(world.z1, {world.z: handle}), X * -2)
    again = s.run(world.h, {world.x: handle})
    assert again.handle == f"GetSessionHandle;1;{world.home}"
    np.testing.assert_array_equal(again.eval(), X * 4)
    np.testing.assert_array_equal(handle.eval(), X * 2)


def test_fetched_in_structures(world: World) -> None:
    s = world.session
    a, (b, y), both = s.run(
        [world.h, (world.h, world.y), {"x": world.x, "h": world.h1}], {world.x: X}
    )
    assert a is b
    np.testing.assert_array_equal(y, X * 2)
    np.testing.assert_array_equal(both["h"].eval(), X + 1)
    assert s.run(world.words).eval().tolist() == [b"a", b"bc"]
    np.testing.assert_array_equal(s.make_callable(world.h, [world.x])(X).eval(), X * 2)
    options = world.lib.RunOptions(trace_level=3)
    np.testing.assert_array_equal(
        s.run(world.h, {world.x: a}, options, world.lib.RunMetadata()).eval(), X * 4
    )
    np.testing.assert_array_equal(s.make_callable(world.y, [world.x])(a), X * 4)


def test_fed_and_fetched_is_the_value(world: World) -> None:
    handle = world.session.run(world.h, {world.x: X})
    fed, y = world.session.run([world.x, world.y], {world.x: handle})
    np.testing.assert_array_equal(fed, X * 2)
    np.testing.assert_array_equal(y, X * 4)
    fed[:] = 0
    np.testing.assert_array_equal(handle.eval(), X * 2)


def test_what_is_kept_cannot_be_written(world: World) -> None:
    handle = world.session.run(world.h, {world.x: X})
    value = handle.eval()
    value[:] = 0
    np.testing.assert_array_equal(handle.eval(), X * 2)
    if type(world.session) is tf1.Session:
        return  # it keeps a fed array by reference
    kept = np.array(X)
    with world.graph.as_default():
        straight = world.lib.get_session_handle(world.x)
    handle = world.session.run(straight, {world.x: kept})
    kept[:] = 0
    np.testing.assert_array_equal(handle.eval(), X)


def test_by_session_tensor(world: World) -> None:
    s = world.session
    handle = s.run(world.h, {world.x: X})
    with world.graph.as_default():
        holder, value = world.lib.get_session_tensor(handle.handle, world.lib.float32)
        root = world.lib.sqrt(value)
    assert (holder.op.type, value.op.type, holder.op.device) == (
        "Placeholder",
        "GetSessionTensor",
        world.home,
    )
    assert value.shape.rank is None
    np.testing.assert_array_equal(s.run(root, {holder: handle.handle}), np.sqrt(X * 2))
    np.testing.assert_array_equal(s.run(root, {holder: handle.handle.encode()}), np.sqrt(X * 2))


def test_readers_and_deleters_are_made_once(world: World) -> None:
    s = world.session
    a, b = s.run([world.h, world.h], {world.x: X})[0], s.run(world.h, {world.x: X})
    a.eval()
    count = len(world.graph.get_operations())
    b.eval()
    a.eval()
    assert len(world.graph.get_operations()) == count


def _error(call: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


def test_errors(world: World) -> None:
    s, lib = world.session, world.lib
    handle = s.run(world.h, {world.x: X})
    gone = f"a;b;{CPU0}"
    with world.graph.as_default():
        holder, value = lib.get_session_tensor(handle.handle, lib.float32)
        int_holder, int_value = lib.get_session_tensor(handle.handle, lib.int32)
        victim, deletion = lib.delete_session_tensor(handle.handle)
    expected: list[tuple[Callable[[], Any], str, str]] = [
        (
            lambda: s.run(world.i1, {world.i: handle}),
            "InvalidArgumentError",
            "Expects arg[0] to be int32 but float is provided",
        ),
        (
            lambda: s.run(value, {holder: handle}),
            "InvalidArgumentError",
            "Expects arg[0] to be string but float is provided",
        ),
        (
            lambda: s.run(value, {holder: gone}),
            "InvalidArgumentError",
            f"The tensor with handle '{gone}' is not in the session store.",
        ),
        (
            lambda: s.run(deletion, {victim: gone}),
            "InvalidArgumentError",
            f"Failed to delete a tensor with handle '{gone}' in the session",
        ),
        (
            lambda: s.run(int_value, {int_holder: handle.handle}),
            "InternalError",
            "Output 0 of type float does not match declared",
        ),
        (
            lambda: s.run(value, {holder: "ab"}),
            "ValueError",
            "Unknown attribute 'ab' is encountered while parsing the device spec: 'ab'.",
        ),
        (lambda: lib.get_session_handle(3), "TypeError", "`data` must be of type Tensor."),
        (
            lambda: s.run(world.y, {world.x: [handle]}),
            "TypeError",
            "float() argument must be a string or a real number",
        ),
    ]
    for call, kind, text in expected:
        error = _error(call)
        assert type(error).__name__ == kind, error
        assert text in str(error)
    # the session goes on
    np.testing.assert_array_equal(s.run(value, {holder: handle.handle}), X * 2)


def test_deleted_handles(world: World) -> None:
    s = world.session
    handle, raw = s.run(world.h, {world.x: X}), s.run(world.h1, {world.x: X})
    handle.delete()
    text = raw.get_raw_handle()
    assert text == raw.handle
    for used in (handle, raw):
        for call in (used.eval, used.delete):
            assert "may have already been deleted." in str(_error(call))
    assert "is not in the session store." in str(_error(lambda: s.run(world.y, {world.x: handle})))
    np.testing.assert_array_equal(s.run(world.y, {world.x: raw}), (X + 1) * 2)
    with world.graph.as_default():
        victim, deletion = world.lib.delete_session_tensor(text)
    s.run(deletion, {victim: text})
    assert "is not in the session store." in str(_error(lambda: s.run(world.y, {world.x: raw})))


def test_another_session_does_not_know_the_handle(world: World) -> None:
    handle = world.session.run(world.h, {world.x: X})
    other = type(world.session)(graph=world.graph)
    assert f"The tensor with handle '{handle.handle}' is not in the session store." in str(
        _error(lambda: other.run(world.y, {world.x: handle}))
    )
    other.close()
    world.session.close()
    assert "Attempted to use a closed Session." in str(_error(handle.eval))


@pytest.mark.parametrize("kind", KINDS)
def test_a_tensor_is_moved_to_its_holder(kind: str) -> None:
    world = KINDS[kind](("/cpu:1", "/cpu:0"))
    s = world.session
    there, here = s.run([world.h, world.h1], {world.x: X})
    assert (there.handle, here.handle.split(";")[-1]) == (
        f"GetSessionHandle;{there.handle.split(';')[1]};{CPU1}",
        CPU0,
    )
    with world.graph.as_default():
        holder, value = world.lib.get_session_tensor(here.handle, world.lib.float32)
    np.testing.assert_array_equal(s.run(value, {holder: here.handle}), X + 1)
    count = len(world.graph.get_operations())
    np.testing.assert_array_equal(s.run(value, {holder: there.handle}), X * 2)
    made = world.graph.get_operations()[count:]
    assert [(op.type, op.device) for op in made] == [
        ("Placeholder", CPU1),
        ("GetSessionTensor", CPU1),
        ("GetSessionHandle", CPU0),
    ]
    for _ in range(3):
        np.testing.assert_array_equal(s.run(value, {holder: there.handle}), X * 2)
    assert len(world.graph.get_operations()) == count + 3
    np.testing.assert_array_equal(s.run(world.y, {world.x: here}), (X + 1) * 2)
    np.testing.assert_array_equal(there.eval(), X * 2)
    s.close()


def kept(world: World) -> int:
    """Tensors that a tfjit session keeps."""
    return len(world.session._runtime_session.state.tensors)


@pytest.mark.parametrize("kind", ["over tf.Graph", "over tfjit.Graph"])
def test_dead_handles_are_deleted_together(kind: str) -> None:
    world = KINDS[kind]()
    s = world.session
    alive = s.run(world.h, {world.x: X})
    counts = []
    for _ in range(25):
        s.run(world.h, {world.x: X})
        counts.append(kept(world) - 1)
    assert counts == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(alive.eval(), X * 2)
    s.close()
    del alive
    gc.collect()


def test_handles_of_many_threads() -> None:
    world = KINDS["over tfjit.Graph"]()
    s = world.session
    wrong: list[BaseException] = []

    def work(i: int) -> None:
        try:
            for k in range(60):
                value = np.full(3, 60 * i + k, "f4")
                handle = s.run(world.h, {world.x: value})
                np.testing.assert_array_equal(s.run(world.y, {world.x: handle}), 4 * value)
                if k % 7 == 0:
                    handle.delete()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert kept(world) <= 10 + 6
    s.close()


def test_a_handle_on_a_resource_edge() -> None:
    """GetSessionHandleV2, whose handle TensorFlow's own `run` cannot use."""
    graph = tfjit.Graph()
    with graph.as_default():
        x = tfjit.placeholder(tfjit.float32, [None])
        handle = tfjit.raw_ops.GetSessionHandleV2(value=x * 3.0)
        y = x + 1.0
    with tfjit.Session(graph=graph) as session:
        found = session.run(handle, {x: X})
        assert isinstance(found, TensorHandle)
        np.testing.assert_array_equal(found.eval(), X * 3)
        np.testing.assert_array_equal(session.run(y, {x: found}), X * 3 + 1)


def test_handles_do_not_keep_their_graph_busy() -> None:
    """A kept tensor stays over many steps, which run compiled."""
    world = KINDS["over tfjit.Graph"]()
    s = world.session
    state = s.run(world.h, {world.x: X})
    for _ in range(40):
        state = s.run(world.h, {world.x: state})
    np.testing.assert_array_equal(state.eval(), X * np.float32(2) ** 41)
    assert kept(world) <= 11
    s.close()

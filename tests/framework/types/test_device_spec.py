"""Device strings, device blocks and colocation against TensorFlow's."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import tensorflow as tf

from tests.framework.fresh_graphs import Ours, both, fresh_graph
from tfjit.framework.types import device_spec
from tfjit.framework.types.device_spec import DeviceSpec

STRINGS = [
    "/job:w/task:0/device:GPU:0", "/gpu:1", "/GPU:1", "gpu:1", "cpu:0", "/device:GPU:*", "/job:*/task:1", "/gpu:*", "",
    "/job:w/replica:0/task:3/cpu:0", "/device:FOO:0", "/foo:0", "/job:w/foo", "/device:GPU", "/gpu", "/job:a/job:b", "/cpu:0/gpu:0",
    "/task:x", "/job:w/task:0:1", "/device:gpu:0", "/device:XLA_CPU:0", "/TPU:0", "//cpu:0", "/job:9", "/job:a-b", "/replica:2",
    "/job:localhost/replica:0/task:0/device:CPU:0",
]  # fmt: skip


@pytest.mark.parametrize("text", STRINGS)
def test_parsing(text: str) -> None:
    try:
        expected = tf.compat.v1.DeviceSpec.from_string(text).to_string()
    except ValueError:
        with pytest.raises(ValueError, match="device spec"):
            device_spec.canonical_name(text)
        return
    assert device_spec.canonical_name(text) == expected


STACKS: dict[str, tuple[Any, ...]] = {
    "merge": ("/job:w", "/gpu:1"),
    "override": ("/gpu:1", "/cpu:0"),
    "reset": ("/job:w/cpu:0", None, "/gpu:1"),
    "reset last": ("/job:w/cpu:0", None),
    "function": ("/job:w", lambda op: "/cpu:0"),
    "function sees inner": ("/job:w", lambda op: "/job:v" + op.device, "/cpu:1"),
    "function keeps": ("/job:w", lambda op: op.device),
    "function outside": (lambda op: "/job:x", "/cpu:1"),
    "function by type": (lambda op: "/gpu:0" if op.type == "NoOp" else "/cpu:0",),
    "function gives None": (lambda op: None,),
    "function with reset": (lambda op: "/gpu:0", None, "/job:q"),
    "wildcard": ("/gpu:*",),
    "job": ("/job:a", "/job:b/cpu:0"),
    "type and index": ("/device:GPU:0", "/device:CPU:1"),
    "type without index": ("/cpu:1", "/gpu"),
    "empty": ("",),
    "empty inside": ("/cpu:0", ""),
    "unknown": ("foo",),
    "three": ("/job:a/task:1", "/replica:0", "/cpu:0"),
}


@pytest.mark.parametrize("case", STACKS, ids=STACKS)
def test_device_blocks(case: str) -> None:
    def build(library: Any, graph: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for entry in STACKS[case]:
                stack.enter_context(library.device(entry))
            return library.no_op().device

    ours, theirs = both(build)
    if case == "function gives None":
        # TensorFlow leaves the operation that failed in the graph
        ours, theirs = ours[0], theirs[0]
    assert ours == theirs


def test_specs_as_devices() -> None:
    with fresh_graph(Ours) as graph:
        with graph.device("/job:w"), graph.device(DeviceSpec(device_type="cpu", device_index=2)):
            assert Ours.no_op().device == "/job:w/device:CPU:2"
        with graph.device(lambda op: DeviceSpec(job="q")):
            assert Ours.no_op().device == "/job:q"
        with graph.device(tf.DeviceSpec(job="t")):
            assert Ours.no_op().device == "/job:t"
        with pytest.raises(TypeError, match="A device is a string"), graph.device(3):
            pass


def test_colocation() -> None:
    def build(library: Any, graph: Any) -> Any:
        a = library.placeholder("a")
        with library.device("/cpu:0"):
            b = library.placeholder("b")
        with library.colocate_with(b):
            library.identity(a, "c")
        with library.device("/gpu:0"):
            with library.colocate_with(b.op):
                d = library.identity(a, "d")
                with library.colocate_with(a):
                    library.identity(a, "e")
                with library.colocate_with(a, ignore_existing=True):
                    library.identity(a, "f")
                with library.device("/job:zz"):
                    library.identity(a, "h")
                with library.colocate_with(None, ignore_existing=True):
                    library.identity(a, "j")
            library.identity(a, "k")
        with library.colocate_with(d):
            library.identity(a, "i")
        with library.colocate_with(None):
            pass

    ours, theirs = both(build)
    assert ours == theirs


def test_merge_match_and_complete() -> None:
    spec = DeviceSpec.from_string("/job:w/gpu:1")
    full = DeviceSpec.from_string("/job:w/replica:0/task:0/device:GPU:1")
    assert spec.matches(full) and full.is_full and not spec.is_full
    assert not DeviceSpec(device_index=0).matches(full)
    assert not DeviceSpec(task=1).matches(full)
    assert full.same_task(DeviceSpec("w", 0, 0, "CPU", 0)) and not full.same_task(
        DeviceSpec("w", 0, 1)
    )
    assert spec.replace(task=4).to_string() == "/job:w/task:4/device:GPU:1"
    assert (
        str(spec) == "/job:w/device:GPU:1" and spec.parse_from_string("/cpu:0").device_type == "CPU"
    )
    assert device_spec.full_name("") == "/job:localhost/replica:0/task:0/device:CPU:0"
    assert device_spec.full_name("/cpu:1") == "/job:localhost/replica:0/task:0/device:CPU:1"
    assert (
        device_spec.full_name("/gpu", "/job:w/replica:0/task:2/device:CPU:3")
        == "/job:w/replica:0/task:2/device:GPU:0"
    )
    assert device_spec.local_name("CPU", 1) == "/job:localhost/replica:0/task:0/device:CPU:1"
    assert (
        device_spec.task_name("/job:w/replica:0/task:2/device:CPU:3") == "/job:w/replica:0/task:2"
    )
    assert device_spec.merge_names("", "/gpu:1") == "/device:GPU:1"
    assert DeviceSpec(replica="2").replica == 2  # type: ignore[arg-type]

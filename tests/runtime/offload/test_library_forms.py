"""Programs take routines of libraries where an accelerator has them, else kernels."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests import hardware
from tests.kernels.cuda.fake_cublaslt import FakeCublasLt
from tests.kernels.cuda.library_calls import libraries_for_all_sizes
from tests.simulated_gpu import simulated_gpu
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.cuda.gemm import library_products
from tfjit.kernels.cuda.template import launches
from tfjit.kernels.cuda.template.launches import CudaLaunch
from tfjit.kernels.ir.accelerator import LibraryRoutine
from tfjit.kernels.registry import (
    LibraryForm,
    LibraryLaunch,
    LibraryProblem,
    NativeCall,
    Pointer,
)
from tfjit.runtime.offload import launch_batching
from tfjit.runtime.offload.device_program import DeviceProgram
from tfjit.runtime.offload.library_forms import (
    RoutineLaunch,
    chosen_form,
    sources_of_call,
    title_of,
)

REFUSED = 13


@dataclass(frozen=True)
class Problem:
    title: str
    library: str = "cuNothing"


class Routine(LibraryRoutine):
    def __init__(self, workspace_bytes: int) -> None:
        self.workspace_bytes = workspace_bytes

    def queue(self, stream: int, words: Sequence[int]) -> None:
        raise AssertionError


class Device(SimulatedAccelerator):
    """Has routines of some titles."""

    def __init__(self, **workspaces: int) -> None:
        super().__init__(1024)
        self.workspaces = workspaces

    def routine(self, problem: LibraryProblem) -> LibraryRoutine | None:
        size = self.workspaces.get(problem.title)
        return None if size is None else Routine(size)

    def accepts(self, routine: LibraryRoutine, words: int) -> bool:
        return routine.workspace_bytes != REFUSED and words == 2


def kernel(name: str) -> CudaLaunch:
    return CudaLaunch(launches.source(f"# {name}", 1, name, __name__), (Pointer("in"),))


def library(title: str, workspace: int | None = None) -> LibraryLaunch:
    return LibraryLaunch(Problem(title), (Pointer("in"), Pointer("out")), workspace)


CONSTANT = np.arange(3)
CALL = NativeCall(
    (kernel("tiles"), kernel("sum")),
    temp_bytes=(8,),
    bytes_moved=77,
    library_forms=(
        LibraryForm((library("whole"),), (1000,)),
        LibraryForm((library("a", 1), kernel("middle"), library("b", 1)), (16, 1000), (CONSTANT,)),
    ),
)


def titles(device: Device) -> list[str]:
    return [title_of(launch) for launch in chosen_form(CALL, device).launches]


def test_the_first_form_whose_problems_all_have_routines() -> None:
    assert titles(Device(whole=0, a=0, b=0)) == ["whole"]
    assert titles(Device(a=0, b=0)) == ["a", "middle", "b"]
    assert titles(Device(a=0)) == titles(Device()) == ["tiles", "sum"]
    assert titles(Device(whole=REFUSED, a=0, b=0)) == ["a", "middle", "b"]


def test_a_form_replaces_buffers_and_kernels() -> None:
    form = chosen_form(CALL, Device(a=100, b=30))
    # both use one workspace, which gets the larger size
    assert form.temp_bytes == (16, 100) and form.constants == (CONSTANT,)
    assert form.bytes_moved == 77 and form.stream_blocks == 0
    assert [source.title for source in sources_of_call(form)] == ["middle"]
    assert chosen_form(CALL, Device()) is CALL
    assert sources_of_call(CALL) == CALL.sources()


def test_routines_join_no_bundle() -> None:
    call = NativeCall((kernel("k"),), library_forms=(LibraryForm((library("whole"),)),))
    form = chosen_form(call, Device(whole=0))
    assert isinstance(form.launches[0], RoutineLaunch)
    assert launch_batching._table_kernel(None, form) is None  # type: ignore[arg-type]


def programs(session: Any, fetches: list[Any], feeds: dict[Any, np.ndarray]) -> str:
    """Return the text on the programs of a run."""
    shapes = {tensor: value.shape for tensor, value in feeds.items()}
    nodes = session.explain(fetches, shapes).nodes
    return "\n".join(node.group for node in nodes if node.op == "_Offload")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCublasLt]:
    made = FakeCublasLt()
    monkeypatch.setattr(library_products, "allows_tf32", lambda: False)
    with simulated_gpu(), libraries_for_all_sizes(made):
        yield made


def test_a_session_trains_through_routines(fake: FakeCublasLt) -> None:
    """The results are those of a session without libraries; explain names the routines."""

    def losses(device: str) -> tuple[list[float], str]:
        rng = np.random.default_rng(5)
        data = rng.standard_normal((8, 6)).astype(np.float32)
        with tf.Graph().as_default() as graph, tf.device(device):
            x = tf.placeholder(tf.float32, [None, 6])
            w = tf.get_variable("w", initializer=rng.standard_normal((6, 4)).astype(np.float32))
            b = tf.get_variable("b", initializer=np.zeros(4, np.float32))
            y = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), b))
            z = tf.sigmoid(tf.matmul(y, w, transpose_b=True))
            loss = tf.reduce_mean(tf.square(z - x))
            train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
            init = tf.global_variables_initializer()
        with tf.Session(graph=graph) as session:
            session.run(init)
            session.run([loss, train], {x: data})
            assert session.wait_until_compiled(300)
            session.run(init)
            found = [session.run([loss, train], {x: data})[0] for _ in range(3)]
            text = programs(session, [loss, train], {x: data})
            # a dead weak reference raises where its class is asked for
            made = [o for o in gc.get_objects() if issubclass(type(o), DeviceProgram)]
            counts = [program.libraries for program in made]
            return found, f"{text}\n{max(counts, key=len, default={})}"

    found, text = losses("/device:GPU:0")
    expected, _ = losses("/device:CPU:0")
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    if not hardware.is_chosen():
        assert "cuBLASLt product 8x4x6 float32+bias+relu" in text
        assert "cuBLASLt product 8x6x4 float32; " in text  # with a kernel behind
        assert "Counter({'cuBLASLt': 5})" in text
        assert set(fake.streams) == {None}


def test_a_session_without_algorithms_has_kernels(fake: FakeCublasLt) -> None:
    if hardware.is_chosen():
        pytest.skip("the refusals are the fake library's")
    fake.refuses = lambda epilogue, operand, result: True
    a = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    with tf.Graph().as_default() as graph, tf.device("/device:GPU:0"):
        x = tf.placeholder(tf.float32, [5, 7])
        y = tf.matmul(x, x, transpose_b=True)
    with tf.Session(graph=graph) as session:
        session.run(y, {x: a})
        assert session.wait_until_compiled(300)
        np.testing.assert_allclose(session.run(y, {x: a}), a @ a.T, rtol=1e-5, atol=1e-5)
        assert "cuBLASLt" not in programs(session, [y], {x: a})
    assert "cublasLtMatmul" not in fake.calls

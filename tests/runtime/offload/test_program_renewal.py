"""Kernels serve while a library opens; then routines replace them between runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.forked_calls import in_child
from tests.kernels.cuda.fake_cublaslt import FakeCublasLt
from tests.kernels.cuda.library_calls import libraries_for_all_sizes
from tests.simulated_gpu import simulated_gpu
from tests.waiting import once_blocked
from tfjit.framework import errors
from tfjit.kernels.cuda.device import simulated_accelerator
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.cuda.gemm import library_products
from tfjit.kernels.ir.accelerator import LibraryCall, RoutineFailed
from tfjit.runtime.offload import program_renewal
from tfjit.runtime.offload.device_program import DeviceProgram
from tfjit.runtime.offload.program_renewal import ProgramRenewal

pytestmark = pytest.mark.simulator

X = np.random.default_rng(4).integers(-4, 5, (5, 7)).astype(np.float32)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCublasLt]:
    made = FakeCublasLt()
    made.opens.clear()
    monkeypatch.setattr(library_products, "allows_tf32", lambda: False)
    with simulated_gpu(), libraries_for_all_sizes(made):
        yield made
        made.opens.set()


class Product:
    """A session on a GPU that multiplies, and adds to a variable."""

    def __init__(self) -> None:
        with tf.Graph().as_default() as graph, tf.device("/device:GPU:0"):
            self.x = tf.placeholder(tf.float32, [None, 7])
            total = tf.get_variable("total", initializer=np.zeros((), np.float32))
            product = tf.matmul(self.x, self.x, transpose_b=True)
            self.fetches = [product, tf.assign_add(total, tf.reduce_sum(product))]
            init = tf.global_variables_initializer()
        self.session = tf.Session(graph=graph)
        self.session.run(init)
        self.runs = 0

    def run(self, rows: int = 5) -> None:
        """Compare the results with NumPy's. Whole numbers have them exactly."""
        product, total = self.session.run(self.fetches, {self.x: X[:rows]})
        np.testing.assert_array_equal(product, X[:rows] @ X[:rows].T)
        if rows == 5:
            self.runs += 1
            assert total == self.runs * np.sum(X @ X.T)

    def wait_for_kernels(self) -> None:
        """Wait for all but the library."""
        runtime = self.session._runtime_session
        assert not self.session.wait_until_compiled(0)
        for variant in tf_unfinished(runtime):
            variant.upgrade()
            assert variant.compile_done.wait(300)
        assert runtime.node_kernels.wait(300)

    def text(self, rows: int = 5) -> str:
        nodes = self.session.explain(self.fetches, {self.x: (rows, 7)}).nodes
        return "\n".join(node.group for node in nodes if node.op == "_Offload")


def tf_unfinished(runtime: Any) -> list[Any]:
    from tfjit.runtime.plan import upgrades

    return upgrades.unfinished(runtime)


def products(fake: FakeCublasLt) -> int:
    """Return the number of products, without those of the check."""
    return fake.calls.count("cublasLtMatmul") - 7


def test_kernels_serve_while_a_library_opens(fake: FakeCublasLt) -> None:
    one = Product()
    with one.session:
        one.run()
        one.wait_for_kernels()
        for _ in range(3):
            one.run()
        text = one.text()
        assert "cuBLASLt is being opened, kernels serve until then" in text
        assert "cuBLASLt product" not in text
        waiting = [str(plan) for plan in tf.compile_status().waiting]
        assert any("1 programs of a GPU: cuBLASLt being opened" in line for line in waiting)
        assert not one.session.wait_until_compiled(0.01) and not fake.calls
        fake.opens.set()
        assert one.session.wait_until_compiled(300)
        assert not tf.compile_status().waiting
        assert products(fake) == 0  # the new program has not run
        for _ in range(3):
            one.run()
        assert products(fake) == 3
        text = one.text()
        assert "cuBLASLt product 5x5x7 float32" in text and "being opened" not in text
        one.run(3)  # of later shapes
        assert one.session.wait_until_compiled(300)
        one.run(3)
        assert products(fake) >= 4 and "cuBLASLt product 3x3x7" in one.text(3)


def test_runs_go_on_while_programs_are_replaced(fake: FakeCublasLt) -> None:
    one = Product()
    with one.session:
        one.run()
        one.wait_for_kernels()
        threading.Timer(0.02, fake.opens.set).start()
        while one.session._runtime_session.renewals.unfinished():
            one.run()
        one.run()
        assert products(fake) >= 1


def test_later_shapes_are_planned_in_the_background(fake: FakeCublasLt) -> None:
    """Kernels serve meanwhile, as they do while a library opens."""
    one = Product()
    fake.opens.set()
    with one.session:
        one.run()
        assert one.session.wait_until_compiled(300)
        one.run()
        fake.planners.clear()
        for rows in (2, 3, 4):
            one.run(rows)
        assert threading.current_thread() not in fake.planners
        assert one.session.wait_until_compiled(300)
        for rows in (2, 3, 4):
            one.run(rows)
            text = one.text(rows)
            assert f"cuBLASLt product {rows}x{rows}x7" in text and "being planned" not in text
        assert len(fake.planners) == 3
        # the routines live as long as the programs that have them
        again = Product()
        with again.session:
            again.run(4)
            assert again.session.wait_until_compiled(300)
            assert "cuBLASLt product 4x4x7" in again.text(4)
        assert len(fake.planners) == 3


def test_a_problem_without_a_routine_is_asked_for_once(fake: FakeCublasLt) -> None:
    fake.opens.set()
    one = Product()
    with one.session:
        one.run()
        assert one.session.wait_until_compiled(300)
        fake.refuses = lambda epilogue, operand, result: True
        fake.planners.clear()
        one.run(3)
        assert one.session.wait_until_compiled(300)
        one.run(3)
        assert "cuBLASLt" not in one.text(3) and "being planned" not in one.text(3)
    again = Product()
    with again.session:
        again.run(3)
        assert again.session.wait_until_compiled(300)
    assert len(fake.planners) == 1


class Refusal:
    """Lets the preparation of programs with a routine fail, as a capture does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, title: str) -> None:
        self.count = 0

        def prepare(program: Any) -> None:
            for command in program._commands:
                if isinstance(command, LibraryCall) and title in command.routine._problem.title:  # type: ignore[attr-defined]
                    self.count += 1
                    program._device.reject(command.routine)
                    raise RoutineFailed(command.routine, f"{title}: cublasLtMatmul: status 13")

        monkeypatch.setattr(simulated_accelerator._Program, "prepare", prepare)


@pytest.mark.parametrize("jit", ["eager", "background"])
def test_a_routine_that_fails_gives_way_to_kernels(
    fake: FakeCublasLt, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, jit: str
) -> None:
    """Its trial was passed; the run has its results all the same, and its updates once."""
    fake.opens.set()
    if jit == "eager":
        monkeypatch.setenv("TFJIT_JIT", "eager")
    else:  # without room for two programs, the first run prepares the new one
        monkeypatch.setattr(program_renewal, "_LEAST_TIMES", 1 << 40)
    refusal = Refusal(monkeypatch, "product 5x5x7")
    one = Product()
    with one.session:
        for _ in range(3):
            one.run()
            assert one.session.wait_until_compiled(300)
        assert refusal.count == 1 and products(fake) == 0
        text = one.text()
        assert "instead of a routine that failed: product 5x5x7: cublasLtMatmul: status" in text
        assert text.count("cuBLASLt") == 0
        assert "kernels of tfjit serve instead: product 5x5x7" in caplog.text
        one.run(3)  # of another problem
        assert one.session.wait_until_compiled(300)
        one.run(3)
        assert "cuBLASLt product 3x3x7" in one.text(3)


def test_a_routine_that_fails_while_it_is_prepared_is_left_out(
    fake: FakeCublasLt, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = Refusal(monkeypatch, "product 5x5x7")
    one = Product()
    with one.session:
        one.run()
        one.wait_for_kernels()
        one.run()
        fake.opens.set()
        assert one.session.wait_until_compiled(300)
        one.run()
        text = one.text()
        assert refusal.count == 1 and "cuBLASLt" not in text
        assert "instead of a routine that failed: product 5x5x7" in text


def test_the_other_routines_of_a_program_stay(
    fake: FakeCublasLt, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = Refusal(monkeypatch, "product 3x3x7")
    with tf.Graph().as_default() as graph, tf.device("/device:GPU:0"):
        x, y = (tf.placeholder(tf.float32, [None, 7]) for _ in range(2))
        fetches = [tf.matmul(x, x, transpose_b=True), tf.matmul(y, y, transpose_b=True)]
    feeds = {x: X, y: X[:3]}
    with tf.Session(graph=graph) as session:
        session.run(fetches, feeds)
        fake.opens.set()
        for _ in range(2):
            assert session.wait_until_compiled(300)
            for found, value in zip(session.run(fetches, feeds), feeds.values(), strict=True):
                np.testing.assert_array_equal(found, value @ value.T)
        nodes = session.explain(fetches, {t: v.shape for t, v in feeds.items()}).nodes
        text = "\n".join(node.group for node in nodes if node.op == "_Offload")
        assert refusal.count == 1
        assert "cuBLASLt product 5x5x7" in text and "cuBLASLt product 3x3x7" not in text


@pytest.mark.parametrize("fails", ["cublasLtCreate", "cublasLtMatmul", "results", "algorithms"])
def test_a_library_that_fails_changes_nothing(fake: FakeCublasLt, fails: str) -> None:
    fake.wrong = fails == "results"
    if fails == "algorithms":
        fake.refuses = lambda epilogue, operand, result: True
    elif not fake.wrong:
        fake.failing[fails] = 1
    one = Product()
    with one.session:
        one.run()
        fake.opens.set()
        assert one.session.wait_until_compiled(300)
        one.run()
        assert "cuBLASLt" not in one.text()


def test_eager_waits_before_the_first_result(
    fake: FakeCublasLt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    threading.Timer(0.05, fake.opens.set).start()
    one = Product()
    with one.session:
        one.run()
        assert products(fake) == 1 and "cuBLASLt product" in one.text()


def test_closing_while_a_library_opens(fake: FakeCublasLt) -> None:
    one = Product()
    one.run()
    one.wait_for_kernels()
    one.run()
    closing = once_blocked(one.session.close)
    with pytest.raises(errors.CancelledError, match="has been closed"):
        one.session.wait_until_compiled(300)
    closing.join()
    fake.opens.set()
    with Product().session as other:  # the library is there for others
        assert other.wait_until_compiled(300)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_keeps_the_kernels(fake: FakeCublasLt) -> None:
    one = Product()
    with one.session:
        one.run()
        one.wait_for_kernels()
        one.run()
        # the fork waits for the library to be loaded
        threading.Timer(0.05, fake.opens.set).start()

        def child() -> list[bool]:
            done = one.session.wait_until_compiled(300)
            one.run()
            return [done]

        assert in_child(child) == [True]
        assert one.session.wait_until_compiled(300)
        one.run()
        assert products(fake) >= 1


def test_the_old_program_is_freed(fake: FakeCublasLt) -> None:
    freed: list[DeviceProgram] = []
    one = Product()
    with one.session, pytest.MonkeyPatch.context() as patch:
        one.run()
        one.wait_for_kernels()
        one.run()
        close = DeviceProgram.close
        patch.setattr(DeviceProgram, "close", lambda self: (freed.append(self), close(self))[1])
        fake.opens.set()
        assert one.session.wait_until_compiled(300)
        one.run()
        assert any(program.runs and not program.libraries for program in freed)


def test_without_room_the_first_run_prepares(
    fake: FakeCublasLt, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[DeviceProgram] = []
    prepare = DeviceProgram.prepare

    def noted(self: DeviceProgram, *arguments: Any) -> None:
        prepared.append(self)
        prepare(self, *arguments)

    def exhausted(self: DeviceProgram, *arguments: Any) -> None:
        prepare(self, *arguments)
        raise errors.ResourceExhaustedError(None, None, "OOM")

    for replaced, count in ((noted, 1), (exhausted, 1)):
        monkeypatch.setattr(DeviceProgram, "prepare", replaced)
        fake.calls.clear()
        fake.opens.clear()
        one = Product()
        with one.session:
            one.run()
            fake.opens.set()
            assert one.session.wait_until_compiled(300)
            one.run()
            assert "cuBLASLt product" in one.text() and len(prepared) == count


def test_a_renewal_of_what_is_gone() -> None:
    class Form:
        lookup = None

    form: Any = Form()
    renewal = ProgramRenewal(form, (), form)
    del form
    assert renewal.make() == ()
    renewal.replace()


def test_prepared_programs_have_the_addresses_of_runs(
    fake: FakeCublasLt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run by routines makes no commands."""
    one = Product()
    with one.session:
        one.run()
        one.wait_for_kernels()
        one.run()
        fake.opens.set()
        assert one.session.wait_until_compiled(300)

        def program(self: SimulatedAccelerator, *arguments: Any) -> Any:
            raise AssertionError("a run makes commands")

        monkeypatch.setattr(SimulatedAccelerator, "program", program)
        one.run()
        assert products(fake) == 1

"""Kernels as Python over host memory: positions, barriers, exchanges, shared memory."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tests.waiting import wait_until
from tfjit.framework import errors
from tfjit.kernels.cuda.device import simulator

IMPORTS = """
import ctypes
from tfjit.kernels.cuda.device.simulator import barrier, exchange, here, shared, use_shared


def store(address, at, value):
    ctypes.c_int64.from_address(address + 8 * at).value = value


def load(address, at):
    return ctypes.c_int64.from_address(address + 8 * at).value


"""


def run(
    body: str,
    size: int,
    grid: simulator.Extent = (1, 1, 1),
    block: simulator.Extent = (1, 1, 1),
) -> list[int]:
    """Run the body of kernel(out) and return its `size` results."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    handle = simulator.load(f"{IMPORTS}def kernel(out):\n{lines}\n", ("kernel",), "a kernel")
    out = np.full(size, -1, np.int64)
    simulator.launch(handle["kernel"], (out.ctypes.data,), grid, block)
    return out.tolist()


def test_every_thread_of_the_grid_runs_once_in_order() -> None:
    body = """\
at = load(out, 0) + 1
store(out, 0, at)
x, y, z = here.thread
number = x + here.block_extent[0] * (y + here.block_extent[1] * z)
assert number == here.number
bx, by, bz = here.block
number += 12 * (bx + here.grid_extent[0] * (by + here.grid_extent[1] * bz))
store(out, 1 + at, number)"""
    found = run(body, 1 + 12 * 30, (5, 3, 2), (3, 2, 2))
    assert found[0] == 12 * 30 - 1
    assert found[1:] == list(range(12 * 30))


@pytest.mark.parametrize("wait", ["", "barrier()\n"])
def test_all_threads_are_one_of_python(wait: str) -> None:
    body = f"import threading\n{wait}store(out, here.number, threading.get_ident())"
    assert set(run(body, 50, block=(50, 1, 1))) == {threading.get_ident()}


def test_a_barrier_orders_the_threads() -> None:
    body = """\
n = here.block_extent[0]
store(out, here.number, here.number)
barrier()
neighbour = load(out, (here.number + 1) % n)
barrier()
store(out, here.number, neighbour)"""
    assert run(body, 40, (2, 1, 1), (40, 1, 1)) == [*range(1, 40), 0]


def test_shared_memory_is_that_of_the_block() -> None:
    body = """\
first, second = shared(16).ctypes.data, shared(8).ctypes.data
assert first % 16 == 0 and first != second
if here.number == 0:
    assert load(first, 0) != here.block[0]  # garbage
    store(first, 0, here.block[0])
barrier()
store(out, here.block[0] * 3 + here.number, load(first, 0))"""
    assert run(body, 6, (2, 1, 1), (3, 1, 1)) == [0, 0, 0, 1, 1, 1]


STORE_AND_LOAD = """\
memory = shared(64).ctypes.data
use_shared(memory + 8 * here.number, True)
{between}
use_shared(memory + 8 * {element}, {stores})"""


@pytest.mark.parametrize(
    ("element", "stores", "reason"),
    [
        ("(here.number ^ 1)", False, "loads a shared element that thread"),
        ("(here.number ^ 1)", True, "stores a shared element that thread"),
        ("here.number", True, ""),
    ],
)
def test_a_barrier_that_is_missing(element: str, stores: bool, reason: str) -> None:
    """An exchange within a warp orders no memory, as on a device."""
    body = STORE_AND_LOAD.format(between="exchange(1)", element=element, stores=stores)
    if reason:
        with pytest.raises(errors.InternalError, match=f"{reason}.* without a barrier"):
            run(body, 1, block=(4, 1, 1))
    else:
        run(body, 1, block=(4, 1, 1))
    run(body.replace("exchange(1)", "barrier()"), 1, block=(4, 1, 1))


def test_elements_that_are_loaded_need_a_barrier_before_a_store() -> None:
    body = """\
memory = shared(8).ctypes.data
use_shared(memory, False)
exchange(1)
if here.number == 3:
    use_shared(memory, True)"""
    with pytest.raises(errors.InternalError, match="that several threads have loaded, without"):
        run(body, 1, block=(4, 1, 1))
    run(body.replace("exchange(1)", "barrier()"), 1, block=(4, 1, 1))


def test_exchange_is_within_a_warp() -> None:
    body = """\
total = 0
for _ in range(2):
    total += sum(exchange(here.number))
store(out, here.number, total)"""
    assert (
        run(body, 40, block=(40, 1, 1)) == [2 * sum(range(32))] * 32 + [2 * sum(range(32, 40))] * 8
    )


def test_functions_of_a_text_may_wait() -> None:
    text = (
        IMPORTS
        + """
def total(value):
    return sum(exchange(value))


def shifted(value):
    barrier()
    return total(value) + 1


def kernel(out):
    store(out, here.number, max(0, shifted(here.number)))
"""
    )
    handle = simulator.load(text, ("kernel",), "nested")["kernel"]
    out = np.zeros(5, np.int64)
    simulator.launch(handle, (out.ctypes.data,), (1, 1, 1), (5, 1, 1))
    assert out.tolist() == [11] * 5


def test_a_barrier_that_some_threads_miss() -> None:
    with pytest.raises(errors.InternalError) as caught:
        run("if here.number < 3:\n    barrier()", 1, block=(8, 1, 1))
    assert "5 threads have ended while 3 wait at a barrier" in caught.value.message
    before = threading.active_count()
    assert run("store(out, 0, 1)", 1) == [1]
    wait_until(lambda: threading.active_count() <= before)


@pytest.mark.parametrize("body", ["1 // (here.number - 5)", "barrier()\n1 // (here.number - 5)"])
def test_an_error_names_thread_and_block(body: str) -> None:
    with pytest.raises(errors.InternalError) as caught:
        run(body, 1, (3, 1, 1), (4, 2, 1))
    assert caught.value.message == (
        "a kernel: thread (1, 1, 0) of block (0, 0, 0) failed: ZeroDivisionError: integer "
        "division or modulo by zero"
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_no_warning_of_numpy() -> None:
    body = "import numpy\nbarrier()\nstore(out, 0, int(numpy.float32(1) / numpy.float32(0) > 0))"
    assert run(body, 1, block=(2, 1, 1)) == [1]


def test_intrinsics_and_math_are_replaced_by_their_twins() -> None:
    text = """
from tfjit.kernels.cuda.template import device_math as vm
from tfjit.kernels.cuda.template.intrinsics import *


def kernel(a, n):
    for i in range(unit(), n, units()):
        p = ptr_f32(a)
        st(p, i, vm.exp_f32(ld(p, i)))
"""
    x = np.linspace(-2, 2, 7, dtype=np.float32)
    found = x.copy()
    handle = simulator.load(text, ("kernel",), "exp")["kernel"]
    simulator.launch(handle, (found.ctypes.data, 7), (2, 1, 1), (2, 1, 1))
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-6)


def test_barriers_are_for_kernels() -> None:
    with pytest.raises(errors.InternalError, match="by a simulated kernel alone"):
        simulator.barrier()


def test_several_entries() -> None:
    text = "def one(a):\n    raise ValueError(a)\ndef two(a):\n    pass\n"
    handles = simulator.load(text, ("one", "two"), "pair")
    simulator.launch(handles["two"], (3,), (1, 1, 1), (1, 1, 1))
    with pytest.raises(errors.InternalError, match="pair: .*ValueError: 3"):
        simulator.launch(handles["one"], (3,), (1, 1, 1), (1, 1, 1))

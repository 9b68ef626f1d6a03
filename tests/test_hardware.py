"""Tests of the choice of a real GPU for `pytest -m gpu`, with a simulated one in its place."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from tests import hardware
from tests.kernels.cuda.harness import launch, run_call, run_node
from tests.simulated_gpu import simulated_gpu
from tfjit.framework.types.dtypes import uint64
from tfjit.kernels.cuda.device import driver
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.cuda.template import element_kinds, launches
from tfjit.kernels.cuda.template.launches import CudaLaunch
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NativeCall, Pointer, TensorSpec
from tfjit.passes.offload import outline_offloaded

pytestmark = pytest.mark.simulator
TESTS = Path(__file__).resolve().parent


def test_kernels_run_in_device_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness copies arrays in and out, changed inputs and states too, and frees all."""
    device = SimulatedAccelerator()
    x = np.linspace(-2, 2, 30, dtype=np.float32).reshape(5, 6)
    text = "\n".join(element_kinds.HEADER) + (
        "def kernel(a):\n    st(ptr_f32(a), thread(), ld(ptr_f32(a), thread()) + float32(1))\n"
    )
    position = "\n".join(element_kinds.HEADER) + (
        "def kernel(s, y):\n    st(ptr_u64(y), 0, ld(ptr_u64(s), 1))\n"
    )
    words = (Pointer("state"), Pointer("out", 0))
    source = launches.source(position, 2, "of a test", __name__)
    call = NativeCall((CudaLaunch(source, words, block=(1, 1, 1)),))
    state = np.array([2**64 - 2, 2**63 + 5, 7], np.uint64)
    with simulated_gpu():
        monkeypatch.setattr(hardware, "is_chosen", lambda: True)
        monkeypatch.setattr(hardware, "device", lambda: device)
        (found,) = run_node(find_builder("Tanh"), "Tanh", [x], [x])
        changed = x.copy()
        launch(text, [changed], threads=30)
        ((drawn,), _) = run_call(call, [], [TensorSpec(uint64, (1,))], state)
        monkeypatch.undo()
    np.testing.assert_allclose(found, np.tanh(x), rtol=1e-6)
    np.testing.assert_array_equal(changed, x + 1)
    assert drawn.tolist() == [2**63 + 5] and state.tolist() == [2**64 - 2, 2**63 + 5, 7]
    assert device.memory.used == 0 < device.memory.peak


def test_a_lost_context_ends_a_process_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(driver, "_lost", "an illegal address")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    hardware.end_if_lost(ended.append)  # the lost context is that of a test
    monkeypatch.setattr(hardware, "is_chosen", lambda: True)
    hardware.end_if_lost(ended.append)
    monkeypatch.setattr(driver, "_lost", "")
    hardware.end_if_lost(ended.append)
    monkeypatch.undo()
    assert ended == [1]


def test_modules_of_kernels_need_no_oracle(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine with a GPU may have no TensorFlow: each module that runs kernels is collected."""
    (plugin,) = (
        one for one in pytestconfig.pluginmanager.get_plugins() if hasattr(one, "needs_tensorflow")
    )
    modules = sorted(TESTS.rglob("test_*.py"))
    ran = [path for path in modules if _reaches_harness(path) and "cuda" in path.parts]
    assert len(ran) > 40
    monkeypatch.setattr(hardware, "_USED", "real")
    monkeypatch.setattr(plugin, "HAS_TENSORFLOW", False)
    monkeypatch.setattr(pytestconfig.option, "markexpr", "gpu")
    ignored = [path.name for path in ran if plugin.pytest_ignore_collect(path, pytestconfig)]
    assert plugin.pytest_ignore_collect(TESTS / "programs" / "test_simulated_gpu.py", pytestconfig)
    monkeypatch.undo()
    marked = [path.name for path in ran if "= pytest.mark.simulator" in path.read_text("utf-8")]
    assert ignored == marked


def _reaches_harness(path: Path) -> bool:
    """Return whether a module imports the harness of kernels, by helpers or itself."""
    left, met = [path], {path}
    while left:
        for name in re.findall(
            r"^from (tests\.[\w.]+) import", left.pop().read_text("utf-8"), re.M
        ):
            file = TESTS.parent.joinpath(*name.split(".")).with_suffix(".py")
            if name == "tests.kernels.cuda.harness":
                return True
            if file.is_file() and file not in met:
                met.add(file)
                left.append(file)
    return False


def test_modules_with_tests_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, those that are for nothing else are left; they give the reason."""
    modules = sorted(TESTS.rglob("test_*.py"))

    def chosen() -> set[str]:
        return {path.relative_to(TESTS).as_posix() for path in modules if hardware.has_tests(path)}

    alone = {
        "kernels/cuda/device/test_accelerator_on_hardware.py",
        "kernels/cuda/libraries/test_cudnn_on_hardware.py",
        "runtime/resources/test_device_tensor_on_hardware.py",
    }
    monkeypatch.setattr(hardware, "_USED", "")
    assert chosen() == alone
    monkeypatch.setattr(hardware, "_USED", "simulated")
    simulated = chosen()
    suites = tuple(f"{folder}/" for folder in hardware.CONFORMANCE)
    assert all(any(name.startswith(suite) for name in simulated) for suite in suites)
    assert all(name.startswith(suites) for name in simulated - alone)
    assert "contract/test_table.py" in simulated
    monkeypatch.setattr(hardware, "_USED", "real")
    found = chosen()
    assert found > simulated | set(hardware.LONG_IN_THE_SIMULATOR)
    rooms = ("conv", "data_movement", "elementwise", "gemm", "reduction", "template")
    assert all(any(name.startswith(f"kernels/cuda/{room}/") for name in found) for room in rooms)
    assert alone | {"programs/test_simulated_gpu.py"} <= found
    assert "test_hardware.py" not in found and "kernels/cuda/test_backend.py" not in found
    assert "contract/test_on_a_gpu.py" not in found and "framework/test_errors.py" not in found


def test_what_the_conformance_suite_runs_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small work and first runs, too; differences are allowed for floats alone."""
    module = TESTS / "contract/test_fetches.py"
    monkeypatch.delenv("TFJIT_JIT", raising=False)
    with hardware.on_gpu(module):
        assert "TFJIT_JIT" not in os.environ and outline_offloaded.SMALL_BYTES > 0
    assert hardware.rtol("float32") == hardware.gpu_count() == 0
    monkeypatch.setattr(hardware, "_USED", "simulated")
    with hardware.on_gpu(module):
        assert os.environ["TFJIT_JIT"] == "eager" and outline_offloaded.SMALL_BYTES == 0
    with hardware.on_gpu(TESTS / "framework/test_errors.py"):
        assert outline_offloaded.SMALL_BYTES > 0
    assert hardware.gpu_count() == 1
    assert hardware.rtol("float32") > hardware.rtol("float64") > 0
    assert hardware.rtol("int64") == hardware.rtol("bool") == hardware.rtol("object") == 0

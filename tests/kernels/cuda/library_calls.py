"""Run calls in the form that an accelerator takes: routines of libraries, or kernels.

The accelerator is simulated with a fake library, or the machine's own (`tests/hardware.py`), whose
libraries may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest

from tests import hardware
from tests.kernels.cuda.fake_cublaslt import FakeCublasLt, installed
from tests.kernels.cuda.harness import simulated
from tfjit.framework.types.dtypes import float32
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.cuda.gemm import library_products
from tfjit.kernels.cuda.libraries.product_problem import ProductOperand, ProductProblem
from tfjit.kernels.cuda.template.launches import CudaLaunch
from tfjit.kernels.ir.accelerator import Accelerator, Command, KernelLaunch, LibraryCall
from tfjit.kernels.jit.store import store
from tfjit.kernels.registry import NativeCall, Pointer, TensorSpec, Word
from tfjit.runtime.offload.library_forms import ProgramCall, RoutineLaunch, chosen_form


@contextmanager
def libraries_for_all_sizes(fake: FakeCublasLt) -> Iterator[Accelerator]:
    """Give an accelerator with cuBLASLt, which small products use too.

    fake: the library of a simulated one.
    """
    library = nullcontext() if hardware.is_chosen() else installed(fake)
    with pytest.MonkeyPatch.context() as patch, library:
        patch.setattr(library_products, "_LEAST_WORK", 1)
        patch.setattr(library_products, "_LAUNCH_NS", -1e9)
        yield hardware.device() if hardware.is_chosen() else SimulatedAccelerator()


def run_form(
    device: Accelerator,
    call: NativeCall,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[TensorSpec],
) -> tuple[list[np.ndarray], ProgramCall]:
    """Return the outputs of a call, and the form that computed them."""
    form = chosen_form(call, device)
    results = [
        np.full(s.nbytes, 0xFF, np.uint8).view(np.dtype(s.dtype.as_numpy_dtype)).reshape(s.shape)
        for s in outputs
    ]
    arrays = {
        "in": [np.array(a, order="C") for a in inputs],
        "out": results,
        "temp": [np.full(n, 0xFF, np.uint8) for n in form.temp_bytes],
        "const": [np.ascontiguousarray(a) for a in form.constants],
    }
    places = {kind: [device.allocate(a.nbytes) for a in some] for kind, some in arrays.items()}

    def word(item: Word) -> int:
        if isinstance(item, Pointer):
            return places[item.kind][item.index] + item.offset
        return item

    for kind, some in arrays.items():
        for place, array in zip(places[kind], some, strict=True):
            device.write(place, array)
    commands: list[Command] = []
    for one in form.launches:
        words = tuple(map(word, one.words))
        if isinstance(one, RoutineLaunch):
            commands.append(LibraryCall(one.routine, words))
        else:
            assert isinstance(one, CudaLaunch)
            function = _function(one)
            commands.append(KernelLaunch(function, words, one.grid, one.block, one.shared_bytes))
    program = device.program(commands)
    program.start()
    program.wait()
    program.close()
    for place, array in zip(places["out"], results, strict=True):
        device.read(array, place)
    for place in (place for some in places.values() for place in some):
        device.free(place)
    return results, form


def _function(launch: CudaLaunch) -> int:
    if not hardware.is_chosen():
        return simulated(launch.source.text)
    store.compile([launch.source])
    found = store.lookup(launch.source)
    assert found is not None, store.refused(launch.source)
    return found[launch.entry]


def routines(form: ProgramCall) -> list[str]:
    """Return the titles of a form's routines. Skip where the machine has no library."""
    found = [one.title for one in form.launches if isinstance(one, RoutineLaunch)]
    if not found and hardware.is_chosen() and not _has_library():
        pytest.skip("cuBLASLt is not installed")
    return found


def _has_library() -> bool:
    one = ProductOperand(False, 0)
    problem = ProductProblem(float32, float32, 1, 64, 64, 64, one, one)
    return hardware.device().routine(problem) is not None


def are(found: Sequence[str], expected: Sequence[str]) -> bool:
    """Return whether launches are the expected ones.

    A real library may refuse any problem; then only the results count.
    """
    return list(found) == list(expected) or hardware.is_chosen()

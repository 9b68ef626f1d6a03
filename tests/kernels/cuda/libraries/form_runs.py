"""Run the library forms of calls: on the simulated GPU with a fake library, or on hardware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests import hardware
from tests.kernels.cuda import harness
from tests.kernels.cuda.libraries.fake_cudnn import FakeCudnn
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.cuda.libraries.cudnn import Cudnn
from tfjit.kernels.cuda.template.launches import CudaLaunch
from tfjit.kernels.ir.accelerator import Command, KernelLaunch, LibraryCall, LibraryRoutine
from tfjit.kernels.jit.store import store
from tfjit.kernels.registry import (
    Launch,
    LibraryForm,
    LibraryLaunch,
    LibraryProblem,
    TensorSpec,
    Word,
)


class DeviceWithCudnn(SimulatedAccelerator):
    """The simulated GPU with a library over its memory. problems: those that it was asked for."""

    def __init__(self, fake: FakeCudnn | None = None) -> None:
        super().__init__()
        self.fake = fake or FakeCudnn()
        self.library = Cudnn(self.fake)  # type: ignore[arg-type]
        self.problems: list[LibraryProblem] = []

    def routine(self, problem: LibraryProblem) -> LibraryRoutine | None:
        self.problems.append(problem)
        return self.library.routine(problem)


def run_form(
    form: LibraryForm, inputs: Sequence[np.ndarray], outputs: Sequence[TensorSpec],
    device: Any = None,
) -> list[np.ndarray]:  # fmt: skip
    """Return the results. What is not written stays garbage."""
    device = device or (hardware.device() if hardware.is_chosen() else DeviceWithCudnn())
    arrays: dict[str, list[np.ndarray]] = {
        "in": [np.ascontiguousarray(a).reshape(np.shape(a)) for a in inputs],
        "out": [_garbage(spec.nbytes) for spec in outputs],
        "const": [np.ascontiguousarray(a) for a in form.constants],
    }
    routines = {}
    sizes = dict(enumerate(form.temp_bytes))
    for launch in form.launches:
        if isinstance(launch, LibraryLaunch):
            routine = device.routine(launch.problem)
            if routine is None:
                assert hardware.is_chosen(), launch.problem.title
                pytest.skip(f"no routine here for {launch.problem.title}")
            routines[launch.problem] = routine
            if launch.workspace is not None:
                sizes[launch.workspace] = routine.workspace_bytes
    arrays["temp"] = [_garbage(size) for size in sizes.values()]
    places = {
        kind: [device.allocate(max(a.nbytes, 1)) for a in some] for kind, some in arrays.items()
    }

    def address(word: Word) -> int:
        return word if isinstance(word, int) else places[word.kind][word.index] + word.offset

    commands: list[Command] = []
    for launch in form.launches:
        words = tuple(map(address, launch.words))
        if isinstance(launch, LibraryLaunch):
            commands.append(LibraryCall(routines[launch.problem], words))
        else:
            assert isinstance(launch, CudaLaunch)
            commands.append(KernelLaunch(_handle(launch), words, launch.grid, launch.block))
    try:
        for kind, some in arrays.items():
            for place, array in zip(places[kind], some, strict=True):
                device.write(place, array)
        program = device.program(commands)
        program.start()
        program.wait()
        program.close()
        for place, array in zip(places["out"], arrays["out"], strict=True):
            device.read(array, place)
    finally:
        for place in (place for some in places.values() for place in some):
            device.free(place)
    return [
        raw.view(np.dtype(spec.dtype.as_numpy_dtype)).reshape(spec.shape)
        for raw, spec in zip(arrays["out"], outputs, strict=True)
    ]


def _handle(launch: Launch) -> int:
    if not hardware.is_chosen():
        return harness.simulated(launch.source.text)
    store.compile([launch.source])
    found = store.lookup(launch.source)
    assert found is not None, store.refused(launch.source)
    return found[launch.entry]


def _garbage(nbytes: int) -> np.ndarray:
    return np.full(nbytes, 0xFF, np.uint8)


def kinds_of(form: LibraryForm) -> list[str]:
    """Return "routine" or the title of the kernel of each launch."""
    return [
        "routine" if isinstance(one, LibraryLaunch) else one.source.title for one in form.launches
    ]

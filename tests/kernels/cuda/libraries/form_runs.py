"""Run the library forms of convolutions: by a fake cuDNN, or by that of the machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests import hardware
from tests.kernels.cuda import library_calls
from tests.kernels.cuda.libraries.fake_cudnn import FakeCudnn
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.cuda.libraries.cudnn import Cudnn
from tfjit.kernels.ir.accelerator import Accelerator, LibraryRoutine
from tfjit.kernels.registry import (
    LibraryForm,
    LibraryLaunch,
    LibraryProblem,
    NativeCall,
    TensorSpec,
)


class DeviceWithCudnn(SimulatedAccelerator):
    """The simulated GPU with a library over its memory."""

    def __init__(self, fake: FakeCudnn | None = None) -> None:
        super().__init__()
        self._library = Cudnn(fake or FakeCudnn())  # type: ignore[arg-type]

    def routine(self, problem: LibraryProblem) -> LibraryRoutine | None:
        return self._library.routine(problem)


def run_form(
    form: LibraryForm, inputs: Sequence[np.ndarray], outputs: Sequence[TensorSpec]
) -> list[np.ndarray]:
    """Return the results of a form. Skip where this machine has no routine for it."""
    device: Accelerator = hardware.device() if hardware.is_chosen() else DeviceWithCudnn()
    call = NativeCall((), library_forms=(form,))
    results, chosen = library_calls.run_form(device, call, inputs, outputs)
    if not chosen.launches:
        assert hardware.is_chosen(), kinds_of(form)
        pytest.skip("the library of this machine has no routine for it")
    return results


def kinds_of(form: LibraryForm) -> list[str]:
    """Return "routine" or the title of the kernel of each launch."""
    return [
        "routine" if isinstance(one, LibraryLaunch) else one.source.title for one in form.launches
    ]

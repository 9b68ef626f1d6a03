"""Variables whose value moves between host and accelerator."""

from __future__ import annotations

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.runtime.resources.migrating_variable import MigratingVariable
from tfjit.runtime.resources.variables_and_resources import VARIABLE_EPOCH


def test_steps_of_the_host_look_again_when_the_device_has_a_copy() -> None:
    """They write into the array that they know, and the copy is stale then."""
    device = SimulatedAccelerator(1 << 20)
    variable = MigratingVariable(device, "", "v", dtypes.float32, (3,))
    variable.assign(np.ones(3, np.float32))
    before = VARIABLE_EPOCH[0]
    found = np.empty(3, np.float32)
    device.read(found, variable.device_address((3,), False))
    assert VARIABLE_EPOCH[0] != before
    array = variable.value
    assert array is not None
    array[:] = 2
    device.read(found, variable.device_address((3,), False))
    np.testing.assert_array_equal(found, 2)

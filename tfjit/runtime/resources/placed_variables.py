"""Make variables on the devices of a session."""

from __future__ import annotations

from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import Shape
from tfjit.runtime.host.device import DeviceManager
from tfjit.runtime.resources.variables_and_resources import Variable


def variable_on(
    devices: DeviceManager,
    device: str,
    container: str,
    name: str,
    dtype: DType,
    shape: Shape,
    is_resource: bool,
) -> Variable:
    """Return a new variable; that of an accelerator migrates."""
    accelerator = devices.accelerator(device)
    if accelerator is None or not dtype.is_numpy_compatible:
        return Variable(container, name, dtype, shape, is_resource)
    from tfjit.runtime.resources.migrating_variable import MigratingVariable

    return MigratingVariable(accelerator, container, name, dtype, shape, is_resource, device)

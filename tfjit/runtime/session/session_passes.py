"""Hold the options of a session's passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tfjit.runtime.kernel_api.kernel_query import has_kernel
from tfjit.runtime.session import session_config

if TYPE_CHECKING:
    from tfjit.passes.manager.pipeline_spec import Pipeline
    from tfjit.passes.pipeline import PassOptions
    from tfjit.runtime.host.device import DeviceManager
    from tfjit.runtime.kernel_api.custom_kernels import CustomKernels


class SessionPasses:
    """The options of a session's passes, made at the first use.

    They follow from its ConfigProto and the environment. variables: the environment, for settings.
    custom_kernels, pipeline: the user's, or None.
    """

    def __init__(
        self,
        config: Any,
        devices: DeviceManager,
        variables: Mapping[str, str],
        custom_kernels: CustomKernels | None,
        pipeline: Pipeline | None,
    ) -> None:
        self.variables = variables
        self.custom_kernels = custom_kernels
        self._config, self._devices, self._pipeline = config, devices, pipeline
        self._options: PassOptions | None = None

    def options(self) -> PassOptions:
        """Return the options."""
        if self._options is None:
            query = has_kernel(self._devices.backends, _executor_serves)
            self._options = session_config.make_pass_options(
                self._config, self._devices, query, self.custom_kernels, self._pipeline
            )
        return self._options

    def change(self, change: Callable[[PassOptions], PassOptions]) -> None:
        """Change the options. For tools that experiment with passes."""
        self._options = change(self.options())


def _executor_serves(op: str) -> bool:
    """Return whether the executor itself serves an op, on any device."""
    from tfjit.runtime.executor.node_runner import has_own_runner

    return has_own_runner(op)

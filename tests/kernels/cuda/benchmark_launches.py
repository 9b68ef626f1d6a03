"""Build the launches of the GPU benchmark's graphs at full size.

    python -m tests.kernels.cuda.benchmark_launches FOLDER

No kernel runs: a program's results are zeros. `launch_collection` writes the launches.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# before any module reads them
os.environ |= {"TFJIT_STORED_PLANS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}

import numpy as np

from benchmarks.gpu.graphs import graph_of
from benchmarks.gpu.ours import OnGpu
from benchmarks.gpu.workloads import workloads
from tests.kernels.cuda.launch_collection import LaunchCollection, build_only
from tests.simulated_gpu import simulated_gpu
from tfjit.kernels.cuda.device import simulated_accelerator
from tfjit.runtime.offload.graph_form import GraphForm
from tfjit.runtime.op_kernels.control_flow.offload_ops import OffloadKernel
from tfjit.runtime.resources.device_tensor import DeviceTensor

_H100_BYTES = 80 << 30


def _zeros(kernel: Any, _ctx: Any, session: Any, values: Any, types: Any) -> Sequence[object]:
    """Return zeros for the results of an offloaded graph."""
    form = kernel._forms[types]
    assert isinstance(form, GraphForm), f"{kernel.offloaded.explain()} has no program: {form}"
    accelerator = session.devices.accelerator(kernel.offloaded.device)
    results: list[object] = []
    for number, value in enumerate(form.program(values).lowered.fetches):
        result = np.zeros(value.shape, value.dtype.as_numpy_dtype)
        kept = number in kernel.offloaded.kept
        results.append(DeviceTensor.of_array(accelerator, result) if kept else result)
    return results


def main() -> int:
    """Build the launches, of fused graphs and of each node by itself."""
    collection = LaunchCollection(Path(sys.argv[1]))
    collection.install()
    build_only()
    OffloadKernel._run_on_host = _zeros  # type: ignore[method-assign]
    simulated_accelerator.MEMORY_BYTES = _H100_BYTES  # type: ignore[misc]
    with simulated_gpu():
        for workload in workloads():
            collection.origin = f"benchmarks/gpu: {workload.name}"
            feeds = workload.feeds(np.random.default_rng(0))
            for fused in (True, False):
                session = OnGpu(workload, graph_of(workload), fused)
                try:
                    session.run(feeds)
                finally:
                    session.close()
            print(f"{workload.name}: {collection.count} launches so far", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

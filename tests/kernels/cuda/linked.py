"""Resources that compiled kernels take, as the linker tells them. No GPU is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

from tfjit.kernels.cuda.device.compiler import Resources
from tfjit.kernels.source import KernelSource

ALL = ("sm_80", "sm_90", "sm_100")
"""The architectures that kernels are made for."""
_LINK = """
import json, sys
from dataclasses import astuple
from tfjit.kernels.cuda.device.compiler import resources_of
json.dump([astuple(resources_of(*request)) for request in json.load(sys.stdin)], sys.stdout)
"""


def resources(sources: Sequence[KernelSource], *architectures: str) -> list[Resources]:
    """Return the resources of each kernel for sm_90 or other architectures, by one subprocess."""
    requests = [
        (source.text, source.arity, architecture)
        for architecture in architectures or ("sm_90",)
        for source in sources
    ]
    # the compiler is not there in numba-cuda's own simulator
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run(
        [sys.executable, "-c", _LINK], input=json.dumps(requests), capture_output=True, text=True,
        check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [Resources(*found) for found in json.loads(done.stdout)]

"""Ask the installed cuDNN for its plans on a GPU that is only described.

`python -m tests.kernels.cuda.libraries.described_device` reads the fields of problems from
stdin and prints [engine, workspace bytes] or the reason against each. cuDNN plans ahead of
time for the properties of a device, without a device and a driver; a process that has planned so
must not use a GPU afterwards, so tests start it.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.cuda.libraries import cudnn_descriptors as d
from tfjit.kernels.cuda.libraries import library_files
from tfjit.kernels.cuda.libraries.convolution_problem import ConvolutionProblem
from tfjit.kernels.cuda.libraries.cudnn_descriptors import CudnnFunctions, Descriptor
from tfjit.kernels.cuda.libraries.cudnn_plans import Target, find_plan

_JSON = (2702, 24)  # CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, characters
H100 = {
    "version": 1, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536, "multiProcessorCount": 132, "smCountOrigin": 0, "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
    "reservedSharedMemoryPerBlock": 1024, "oversizedSharedMemoryPerBlock": 0,
    "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1,
    "totalGlobalMem": 85520809984, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
    "memoryBusWidth": 5120, "l2CacheSize": 52428800, "cudaDeviceId": 0, "deviceVer": 900,
    "driverVer": 13000, "deviceName": "NVIDIA H100 80GB HBM3",
}  # fmt: skip
A100 = {
    **H100, "multiProcessorCount": 108, "maxSharedMemoryPerBlockOptin": 166912, "deviceVer": 800,
    "totalGlobalMem": 42505273344, "smClockRateKHz": 1410000, "memClockRateKHz": 1215000,
    "l2CacheSize": 41943040, "deviceName": "NVIDIA A100-SXM4-40GB",
}  # fmt: skip
# one of cuDNN's libraries is linked to the driver, of which planning uses nothing
_DRIVER = """
int cuGetErrorString(void) { return 999; }
int cuModuleGetFunction(void) { return 999; }
int cuModuleLoadData(void) { return 999; }
int cuModuleUnload(void) { return 999; }
int cuTensorMapEncodeIm2col(void) { return 999; }
int cuTensorMapEncodeTiled(void) { return 999; }
"""


def missing() -> str:
    """Return what this machine lacks for the module, "" for nothing."""
    try:
        _library()
    except library_files.MissingLibrary as error:
        return f"cuDNN is not installed: {error}"
    return "" if _has_driver() or shutil.which("cc") else "no driver and no C compiler"


def _library() -> ctypes.CDLL:
    return library_files.open_cudnn(13000)


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def ask(
    device: dict[str, Any], problems: Sequence[ConvolutionProblem]
) -> list[tuple[int, int] | str]:
    """Return (engine, workspace bytes) or the reason against each convolution."""
    sent = [
        {f.name: getattr(p, f.name) for f in fields(p)} | {"dtype": p.dtype.name} for p in problems
    ]
    done = subprocess.run(
        [sys.executable, "-m", __name__], input=json.dumps([device, sent]), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return [one if isinstance(one, str) else tuple(one) for one in found]


def _plans(device: Any, problems: Sequence[Any]) -> list[Any]:
    cudnn = CudnnFunctions(_library())
    described = Descriptor(cudnn, d.DEVICE)
    text = json.dumps(device).encode()
    cudnn.call("cudnnBackendSetAttribute", described.address, *_JSON, len(text), text)
    described.finalize()
    found: list[Any] = []
    for values in problems:
        own = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        problem = ConvolutionProblem(**{**own, "dtype": as_dtype(own["dtype"])})
        plan, reason = find_plan(cudnn, Target(device=described), problem)
        found.append(reason if plan is None else (plan.engine, plan.workspace_bytes))
    return found


def main() -> None:
    """Answer the problems on stdin."""
    with tempfile.TemporaryDirectory() as folder:
        if not _has_driver():
            made = Path(folder, "libcuda.so.1")
            source = made.with_suffix(".c")
            source.write_text(_DRIVER)
            named = ["-Wl,-soname,libcuda.so.1", "-o", str(made), str(source)]
            subprocess.run(["cc", "-shared", "-fPIC", *named], check=True)
            ctypes.CDLL(str(made), ctypes.RTLD_GLOBAL)
        print(json.dumps(_plans(*json.load(sys.stdin))))


if __name__ == "__main__":
    main()

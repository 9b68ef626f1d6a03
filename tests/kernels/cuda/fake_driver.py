"""A driver without a GPU: it records the calls, and gives handles and error codes.

It runs no kernel and moves no byte. Captures are followed as the driver describes them: a stream
joins by a wait for an event that was recorded within, and the first stream has to have waited for
all others when the capture ends. What the driver promises beyond is not checked.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfjit.kernels.cuda.device import driver

GIB = 1 << 30
INVALIDATED = 901
UNJOINED = 904
ATTRIBUTES = {75: 9, 76: 0, 16: 132, 97: 232448, 115: 1}


def _value(argument: Any) -> Any:
    return argument.value if hasattr(argument, "value") else argument


QUEUED = frozenset({"cuLaunchKernel", "cuMemsetD8Async"}) | {
    f"cuMemcpy{way}Async_v2" for way in ("HtoD", "DtoH", "DtoD")
}


class Capture:
    """A capture under way, or the graph that it gave.

    nodes: the calls that became nodes. before: for each one, the nodes that it waits for, directly
    or through others. done: for each stream, the nodes that its next one waits for.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self.nodes: list[tuple[Any, ...]] = []
        self.before: list[frozenset[int]] = []
        self.done: dict[int, frozenset[int]] = {first: frozenset()}
        self._recorded: dict[int, frozenset[int]] = {}

    def follow(self, name: str, plain: list[Any]) -> None:
        """Follow a call within the capture."""
        if name in QUEUED:
            stream = plain[8] if name == "cuLaunchKernel" else plain[-1]
            assert stream in self.done, f"{name} in a stream outside of the capture"
            self.nodes.append((name, *plain))
            self.before.append(self.done[stream])
            self.done[stream] |= {len(self.nodes) - 1}
        elif name == "cuEventRecord":
            assert plain[1] in self.done, "an event of a stream outside of the capture"
            self._recorded[plain[0]] = self.done[plain[1]]
        elif name == "cuStreamWaitEvent":
            stream, event, _ = plain
            assert event in self._recorded, "a wait for an event that is not recorded"
            self.done[stream] = self.done.get(stream, frozenset()) | self._recorded[event]
        elif name == "cuEventSynchronize":
            assert plain[0] not in self._recorded, "a wait for an event of a capture"
        elif name in ("cuCtxSynchronize", "cuStreamSynchronize"):
            assert name[2] == "S" and plain[0] not in self.done, "a wait for a stream in a capture"
        elif name == "cuEventDestroy_v2":
            assert plain[0] not in self._recorded, "an event of a capture under way is destroyed"

    @property
    def is_joined(self) -> bool:
        """Return whether the first stream has waited for all nodes."""
        return self.done[self.first] == frozenset(range(len(self.nodes)))


class FakeDriver:
    """The functions of libcuda that tfjit calls.

    calls: their names with the arguments that are no pointers to results. failing: function -> the
    code that it returns. free: bytes that the device still has. captured: ended captures. spoiled:
    the captures from now on that another thread makes invalid. is_late: the driver has the later
    functions, too. watching: is told each function.
    """

    def __init__(self, devices: int = 1, version: int = 13000) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.failing: dict[str, int] = {}
        self.devices, self.version = devices, version
        self.free = 4 * GIB
        self.current: int | None = None
        self.attributes = dict(ATTRIBUTES)
        self.host: dict[int, Any] = {}
        self.captured: list[Capture] = []
        self.spoiled = 0
        self.is_late = False
        self.watching: Callable[[str], object] = lambda name: None
        self._capture: Capture | None = None
        self._handles = itertools.count(0x1000, 0x100)

    def names(self) -> list[str]:
        """Return the names of the recorded calls but those of contexts, and forget them."""
        found = [call[0] for call in self.calls if not call[0].startswith("cuCtx")]
        self.calls.clear()
        return found

    def __getattr__(self, name: str) -> Callable[..., int]:
        signatures = {**driver._SIGNATURES, **(driver._LATER_SIGNATURES if self.is_late else {})}
        if name not in signatures:
            raise AttributeError(name)

        def function(*arguments: Any) -> int:
            for kind, argument in zip(signatures[name], arguments, strict=True):
                kind.from_param(argument)  # type: ignore[attr-defined]  (as ctypes converts it)
            outputs = [a._obj for a in arguments if type(a).__name__ == "CArgObject"]
            plain = [_value(a) for a in arguments if type(a).__name__ != "CArgObject"]
            self.watching(name)
            if not name.startswith("cuGetError"):
                self.calls.append((name, *plain))
            if name in self.failing:
                return self.failing[name]
            if name not in ("cuMemPoolSetAttribute", "cuDeviceGetName"):
                return self._answer(name, outputs, plain)
            if name == "cuDeviceGetName":
                arguments[0].value = b"Fake GPU"
            return 0

        return function

    def _answer(self, name: str, outputs: list[Any], plain: list[Any]) -> int:
        if self._capture is not None:
            self._capture.follow(name, plain)
        if name == "cuStreamBeginCapture_v2":
            assert self._capture is None
            self._capture = Capture(plain[0])
        elif name == "cuStreamEndCapture":
            capture, self._capture = self._capture, None
            assert capture is not None and capture.first == plain[0]
            self.captured.append(capture)
            if self.spoiled:
                self.spoiled -= 1
                return INVALIDATED
            if not capture.is_joined:
                return UNJOINED
            outputs[0].value = next(self._handles)
        elif name == "cuGetErrorName":
            outputs[0].value = {
                2: b"CUDA_ERROR_OUT_OF_MEMORY",
                100: b"CUDA_ERROR_NO_DEVICE",
                209: b"CUDA_ERROR_NO_BINARY_FOR_GPU",
                700: b"CUDA_ERROR_ILLEGAL_ADDRESS",
                901: b"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
            }.get(plain[0])
        elif name == "cuGetErrorString":
            outputs[0].value = b"the text of the driver"
        elif name == "cuDriverGetVersion":
            outputs[0].value = self.version
        elif name == "cuDeviceGetCount":
            outputs[0].value = self.devices
        elif name == "cuDeviceGet":
            outputs[0].value = plain[0]
        elif name == "cuDeviceGetAttribute":
            outputs[0].value = self.attributes[plain[0]]
        elif name == "cuDeviceTotalMem_v2":
            outputs[0].value = 4 * GIB
        elif name == "cuCtxGetCurrent":
            outputs[0].value = self.current
        elif name in ("cuCtxSetCurrent", "cuCtxPushCurrent_v2"):
            self.current = plain[0]
        elif name == "cuMemGetInfo_v2":
            outputs[0].value, outputs[1].value = self.free, 4 * GIB
        elif name in ("cuMemAllocFromPoolAsync", "cuMemAlloc_v2"):
            if plain[0] > self.free:
                return driver.OUT_OF_MEMORY
            self.free -= plain[0]
            outputs[0].value = next(self._handles)
        elif name == "cuMemHostAlloc":
            memory = np.zeros(plain[0], np.uint8)
            self.host[memory.ctypes.data] = memory
            outputs[0].value = memory.ctypes.data
        elif name == "cuMemFreeHost":
            del self.host[plain[0]]
        else:
            for output in outputs:
                output.value = next(self._handles)
        return 0


def launched_words(call: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the argument words of a recorded cuLaunchKernel."""
    extra = call[-1]
    assert (extra[0], extra[2], extra[4]) == (1, 2, None)
    size = ctypes.c_size_t.from_address(extra[3]).value
    return tuple((ctypes.c_int64 * (size // 8)).from_address(extra[1]))


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeDriver) -> FakeDriver:
    """Make `driver` use a fake, as in a process that has not used CUDA."""
    monkeypatch.setattr(driver, "_functions", None)
    monkeypatch.setattr(driver, "_reason", "")
    monkeypatch.setattr(driver, "_forked", False)
    monkeypatch.setattr(driver, "_lost", "")
    monkeypatch.setattr(driver, "_open_library", lambda: fake)
    driver.properties.cache_clear()
    return fake

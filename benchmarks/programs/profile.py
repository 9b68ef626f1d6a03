"""Sample a running program: the time of each thread by stage.

Stages are tfjit's. The step thread's wall time and every thread's processor time are counted by
stage. Threads of libraries show no Python frame; they are counted by the name that the system has
of them. The sampler takes the interpreter for well under a hundredth of the time.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

_INTERVAL_S: Final = 0.04
REFERENCE: Final = "reference"
# A sample counts for the stage of the first rule with a frame in one of its modules, at any depth:
# passes that fold constants run reference kernels, and lowering asks for the kernels' texts.
_RULES: Final = (
    ("passes", ("tfjit.passes.",)),
    (REFERENCE, ("tfjit.kernels.cpu.reference.", "tfjit.framework.scalar.scalar_reference")),
    ("kernel text", ("tfjit.kernels.codegen.", "tfjit.kernels.cpu.", "tfjit.kernels.ir.")),
    ("loading kernels", ("tfjit.kernels.jit.loader",)),
    ("kernel store", ("tfjit.kernels.jit.",)),
    ("lowering", ("tfjit.runtime.lowering.", "tfjit.runtime.schedule.")),
    ("building the step", ("tfjit.runtime.step.",)),
    ("table walk", ("tfjit.kernels.executor.",)),
    ("dataflow executor", ("tfjit.runtime.executor.", "tfjit.runtime.op_kernels.")),
    ("plan and session", ("tfjit.",)),
    ("program", ("benchmarks.programs.models.",)),
)
_REFERENCE_RULE: Final = next(n for n, (stage, _) in enumerate(_RULES) if stage == REFERENCE)


def _rule(module: str) -> int:
    """Return the first rule that names the module.

    The result is the rule's number, or the count of rules if none does.
    """
    for number, (_, prefixes) in enumerate(_RULES):
        if module.startswith(prefixes):
            return number
    return len(_RULES)


class Profile(threading.Thread):
    """Samples all threads until `stop`, or for `seconds`.

    step_wall: seconds of the thread that made this one, by stage. cpu: processor seconds of all
    threads, by stage.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(name="profile", daemon=True)
        self.step_wall: Counter[str] = Counter()
        self.cpu: Counter[str] = Counter()
        self._step_thread = threading.get_ident()
        self._seconds = seconds
        self._ended = threading.Event()
        self._rules: dict[CodeType, int] = {}
        self._used: dict[int, float] = self._thread_seconds()

    def stop(self) -> None:
        """End the sampling."""
        self._ended.set()
        self.join()

    def run(self) -> None:
        """Sample at intervals."""
        begin = last = time.perf_counter()
        while not self._ended.wait(_INTERVAL_S) and last - begin < self._seconds:
            now = time.perf_counter()
            self._sample(now - last)
            last = now

    def _sample(self, elapsed_s: float) -> None:
        frames = sys._current_frames()
        idents = {t.native_id: t.ident for t in threading.enumerate() if t is not self}
        stages = {ident: self._stage(frame) for ident, frame in frames.items()}
        self.step_wall[stages.get(self._step_thread, "ended")] += elapsed_s
        used = self._thread_seconds()
        for native, seconds in used.items():
            spent = seconds - self._used.get(native, 0.0)
            if not spent or native == self.native_id:
                continue
            stage = stages.get(idents.get(native, 0) or 0)
            self.cpu[stage or f"library threads: {_name(native)}"] += spent
        self._used = used

    def _stage(self, frame: FrameType | None) -> str:
        """Return the stage of a stack; a reference kernel's with its function."""
        best, kernel = len(_RULES), ""
        while frame is not None:
            code = frame.f_code
            rule = self._rules.get(code)
            if rule is None:
                rule = self._rules[code] = _rule(frame.f_globals.get("__name__", ""))
            best = min(best, rule)
            if rule == _REFERENCE_RULE and not kernel:
                module = Path(code.co_filename).stem
                kernel = f"{module}.{code.co_name}:{code.co_firstlineno}"
            frame = frame.f_back
        if best == _REFERENCE_RULE:
            return f"{REFERENCE} {kernel}"
        return _RULES[best][0] if best < len(_RULES) else "other"

    @staticmethod
    def _thread_seconds() -> dict[int, float]:
        """Return the processor seconds of this process's threads."""
        found = {}
        for entry in os.scandir("/proc/self/task"):
            try:
                nanoseconds = Path(entry.path, "schedstat").read_text().split()[0]
            except OSError:  # it has ended
                continue
            found[int(entry.name)] = int(nanoseconds) / 1e9
        return found


def _name(native: int) -> str:
    """Return the system's name of a thread."""
    try:
        return Path(f"/proc/self/task/{native}/comm").read_text().strip()
    except OSError:
        return "ended"


def largest(seconds: dict[str, Any], count: int = 12, least_s: float = 0.05) -> list[str]:
    """Return the largest entries as text; reference kernels are summed, then named."""
    order = sorted(seconds.items(), key=lambda entry: -entry[1])
    summed: Counter[str] = Counter()
    for stage, value in order:
        summed[stage.partition(" ")[0] if stage.startswith(REFERENCE) else stage] += value
    lines = [f"{v:.1f} {s}" for s, v in summed.most_common(count) if v >= least_s]
    kernels = [f"{v:.1f} {s.partition(' ')[2]}" for s, v in order if s.startswith(REFERENCE)]
    return [
        ", ".join(lines),
        *([f"reference kernels: {', '.join(kernels[:count])}"] * bool(kernels)),
    ]

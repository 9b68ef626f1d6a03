"""Every TFJIT_* environment variable with type, default and meaning.

Variables are read when used, so tests may set them. A session may have other variables
(framework/env.py): work on its behalf runs in a `using` block, which looks settings up there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable.

    kind: "flag" (0/1), "int", "path", "name", "names" (comma-separated), "choice".
    """

    name: str
    kind: str
    default: str
    meaning: str
    choices: tuple[str, ...] = ()


WAYS: Final = (
    "bundle",
    "direct_channel",
    "fed_sizes",
    "generic",
    "local_channel",
    "overlap",
    "split_rows",
    "stages",
    "straight_line",
)
"""Ways to run steps that TFJIT_DISABLE may leave out, beside the optional passes."""
LOG_SUBJECTS: Final = ("passes", "cache", "placement", "kernels", "executor", "rendezvous")
SETTINGS: Final = (
    Setting(
        "TFJIT_CACHE_DIR",
        "path",
        "",
        "folder of compiled kernels (default: tfjit in the user's cache directory)",
    ),
    Setting(
        "TFJIT_CPU",
        "choice",
        "",
        "x86-64 level that kernels are compiled for, as LLVM names it (default: all this CPU has); "
        "read once by a process",
        ("", "x86-64-v2", "x86-64-v3", "x86-64-v4"),
    ),
    Setting(
        "TFJIT_CUDA_ARCH",
        "name",
        "",
        "architecture that GPU kernels are compiled for, such as sm_90 (default: that of the first "
        "GPU); read once by a process",
    ),
    Setting(
        "TFJIT_CUDA_LIBRARIES",
        "flag",
        "1",
        "use NVIDIA's libraries on GPUs where they are installed; 0: kernels of tfjit alone; read "
        "once by a process",
    ),
    Setting(
        "TFJIT_TF32",
        "flag",
        "1",
        "NVIDIA's libraries may round float32 operands to 10 bits of mantissa for tensor cores, as "
        "TensorFlow lets them; 0: never; read once by a process",
    ),
    Setting(
        "TFJIT_PRECOMPILED",
        "flag",
        "1",
        "use the generic kernels that are installed with tfjit, or that this machine has built; 0: "
        "compile all for this CPU",
    ),
    Setting(
        "TFJIT_BUILD_ARCHIVE",
        "flag",
        "1",
        "a background process builds the archive of generic kernels once a machine, where none is "
        "installed; 0: `tfjit warm` alone does",
    ),
    Setting(
        "TFJIT_STORED_PLANS",
        "flag",
        "1",
        "keep finished plans beside the kernels for later processes; 0: plan anew in each process",
    ),
    Setting(
        "TFJIT_JIT",
        "choice",
        "lazy",
        "off: reference kernels only; lazy: compile behind the first runs; eager: compile first",
        ("off", "lazy", "eager"),
    ),
    Setting(
        "TFJIT_DISABLE",
        "names",
        "",
        f"optional passes to leave out, by name; also these ways to run steps: {', '.join(WAYS)}",
    ),
    Setting(
        "TFJIT_DUMP",
        "path",
        "",
        "directory for the graph and its bodies after each pass, lowered partitions and kernels",
    ),
    Setting(
        "TFJIT_EVENT_LIMIT",
        "int",
        "",
        "the number of optional rewrites after which passes make none, over all plans of the "
        "process in the order of planning (default: no limit)",
    ),
    Setting(
        "TFJIT_EVENT_LOG",
        "path",
        "",
        "file to which each optional rewrite is written as a line of JSON",
    ),
    Setting("TFJIT_LOG", "names", "", f"subjects to log: {', '.join(LOG_SUBJECTS)}"),
    Setting(
        "TFJIT_VERIFY",
        "flag",
        "0",
        "check the working graph after each pass, and lowered partitions",
    ),
    Setting(
        "TFJIT_COMPARE",
        "flag",
        "0",
        "run each compiled kernel beside its reference, and log differences; compiles first unless "
        "TFJIT_JIT is set",
    ),
    Setting(
        "TFJIT_THREADS",
        "int",
        "0",
        "threads of the pools (0: the number of cores; 1: one thread, fixed order)",
    ),
    Setting(
        "TFJIT_PLAN_MEMORY",
        "int",
        "2048",
        "MB that a session's plans may hold; variants (feed shapes) longest unused give way",
    ),
    Setting(
        "TFJIT_RECURSION",
        "int",
        "500",
        "depth of recursion of functions, beyond which ResourceExhaustedError is raised",
    ),
    Setting(
        "TFJIT_STRICT_PLACEMENT",
        "flag",
        "0",
        "a node that cannot be placed fails every run, as in TensorFlow",
    ),
    Setting(
        "TFJIT_WINOGRAD",
        "flag",
        "1",
        "3x3 convolutions in Winograd's form where that is faster; 0: always the direct sum",
    ),
    Setting(
        "TFJIT_BIND",
        "name",
        "",
        "address of the interface that servers of a cluster listen at, 0.0.0.0 for all (default: "
        "loopback); a server runs what it is sent",
    ),
    Setting(
        "TFJIT_SESSION_GC_S",
        "int",
        "0",
        "seconds without a call after which a master closes a session, whose client may have been "
        "killed (default: never, as in TensorFlow)",
    ),
    Setting("TFJIT_PROGRESS", "flag", "0", "a line on stderr tells how many kernels are compiled"),
    Setting(
        "TFJIT_FULL_TRACEBACK", "flag", "0", "the command line prints the traceback of an error"
    ),
    Setting(
        "TFJIT_SEED_RULE",
        "choice",
        "2",
        "op seeds under a graph seed: 2 counts per graph as TensorFlow 2 does; 1 takes the number "
        "of ops so far as 1.15 did",
        ("2", "1"),
    ),
)
_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
_VARIABLES: Final[ContextVar[Mapping[str, str] | None]] = ContextVar(
    "tfjit_variables", default=None
)


@contextmanager
def using(variables: Mapping[str, str]) -> Iterator[None]:
    """Look settings up in `variables` for the block, in this thread.

    Outside such blocks they are looked up in `os.environ`.
    """
    token = _VARIABLES.set(variables)
    try:
        yield
    finally:
        _VARIABLES.reset(token)


def is_set(name: str) -> bool:
    """Return whether the variable is given, be it as "".

    Raises KeyError for a name that is not listed.
    """
    return _BY_NAME[name].name in _variables()


def _variables() -> Mapping[str, str]:
    chosen = _VARIABLES.get()
    return os.environ if chosen is None else chosen


def text(name: str) -> str:
    """Return the variable's text, or its default.

    Raises KeyError for a name that is not listed, ValueError for a bad choice.
    """
    setting = _BY_NAME[name]
    value = _variables().get(name, "").strip() or setting.default
    if setting.choices and value not in setting.choices:
        raise ValueError(
            f"{name}={value!r}: expected one of {', '.join(filter(None, setting.choices))}"
        )
    return value


def flag(name: str) -> bool:
    """Return whether the variable is set to true.

    All values but 0, false, off and no are true.
    """
    return text(name).lower() not in ("", "0", "false", "off", "no")


def integer(name: str) -> int:
    """Return the variable as a number.

    Raises ValueError naming it when it is none.
    """
    value = text(name)
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"{name}={value!r}: expected a number") from None


def names(name: str) -> frozenset[str]:
    """Return the variable as a set of names."""
    return frozenset(part.strip() for part in text(name).split(",") if part.strip())


def logs(subject: str) -> bool:
    """Return whether TFJIT_LOG names the subject.

    Raises KeyError for one that is not listed.
    """
    if subject not in LOG_SUBJECTS:
        raise KeyError(subject)
    return subject in names("TFJIT_LOG")


def say(subject: str, text: str, *values: object) -> None:
    """Log to `tfjit.<subject>` if the user asked for the subject.

    TFJIT_LOG asks, or the level of a logger of tfjit's.
    """
    if asked(logging.getLogger(f"tfjit.{subject}"), logging.INFO) or logs(subject):
        tell(subject, text, *values)


def asked(logger: logging.Logger, level: int) -> bool:
    """Return whether a logger of tfjit's was set to show a level.

    Loggers above it count, but the root logger: a program sets that for its own messages.
    """
    found: logging.Logger | None = logger
    while found is not None and found.parent is not None:
        if found.level:
            return found.level <= level
        found = found.parent
    return False


def tell(subject: str, text: str, *values: object) -> None:
    """Log to `tfjit.<subject>`, as a warning where the logger would hide information."""
    logger = logging.getLogger(f"tfjit.{subject}")
    logger.log(
        logging.INFO if logger.isEnabledFor(logging.INFO) else logging.WARNING, text, *values
    )


def path(name: str) -> Path | None:
    """Return the variable as a path, None when it is not set."""
    value = text(name)
    return Path(value).expanduser() if value else None


def cache_dir() -> Path:
    """Return the folder of compiled kernels.

    TFJIT_CACHE_DIR of the process, else `tfjit` in XDG_CACHE_HOME or ~/.cache.
    """
    with using(os.environ):
        chosen = path("TFJIT_CACHE_DIR")
    if chosen is not None:
        return chosen
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tfjit"


def describe() -> str:
    """Return all variables with their values, one a line."""
    lines = []
    for setting in SETTINGS:
        value = _variables().get(setting.name)
        lines.append(
            f"{setting.name:22} {value if value is not None else setting.default!r:10} "
            f"{setting.meaning}"
        )
    return "\n".join(lines)

"""Give other processes more of the cores.

Linux may share the cores among sessions first (`sched_autogroup`), and among the processes of one
session by their niceness. A process that leads a new session then counts as much as all of its
parent's, however nice it is, until its group is nice, too.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

_GROUP: Final = Path("/proc/self/autogroup")
_TRIES: Final = 3  # an unprivileged process may set a group's niceness ten times a second
_PAUSE_S: Final = 0.12


def be_nice(niceness: int) -> None:
    """Raise this process's niceness, and that of the session it leads."""
    if not hasattr(os, "nice"):
        return
    os.nice(niceness)
    if os.getsid(0) != os.getpid():  # the session has the user's own processes
        return
    for _ in range(_TRIES):
        try:
            _GROUP.write_text(str(niceness))
        except BlockingIOError:
            time.sleep(_PAUSE_S)
            continue
        except OSError:  # a system without groups
            pass
        return


__all__ = ["be_nice"]

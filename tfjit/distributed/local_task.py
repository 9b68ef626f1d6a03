"""One process of a local cluster: `python -m tfjit.distributed.local_task`.

Its input has a line of JSON that says which task it is, and stays open as long as the process is
wanted. Its output has a line once it serves.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

READY = "ready"
_PARENT_S = 1.0
_STOP_S = 3.0


def main() -> int:
    """Serve until the input or the parent process ends."""
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the parent decides
    over = threading.Event()
    place = json.loads(sys.stdin.readline())

    def read() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=read, name="tfjit-parent", daemon=True).start()

    from tfjit.distributed.server.server import Server
    from tfjit.protos import ConfigProto

    config = ConfigProto.FromString(bytes.fromhex(place["config"]))
    # bound to loopback by name: TFJIT_BIND is for servers that other hosts are to reach
    server = Server(place["cluster"], place["job"], place["task"], config=config, bind="127.0.0.1")
    print(READY, flush=True)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the parent reads errors alone from now on
    # a process that the parent has forked may hold the other end of the input
    while not over.wait(_PARENT_S):
        if os.getppid() != parent:
            break
    threading.Timer(_STOP_S, os._exit, (0,)).start()
    server.stop()
    sys.stderr.flush()
    os._exit(0)  # a compiler in the background must not hold it up


if __name__ == "__main__":
    sys.exit(main())

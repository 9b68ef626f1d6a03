"""The ids of steps with collectives, chosen by the leader."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any, Final

from tfjit.distributed.protocol.interfaces import WorkerInterface

_IDS: Final = random.SystemRandom()
_ID_BITS: Final = 57
_MASK: Final = (1 << _ID_BITS) - 1

FindWorker = Callable[[str], WorkerInterface]


class StepSequences:
    """The next step ids by graph key. Thread-safe.

    The tasks of a group run a step each, with graphs of the same key; its id has to be the same, as
    it is part of the names of buffers. The leader draws the first one; each step adds one.
    """

    def __init__(self, find_worker: FindWorker) -> None:
        """Make an empty table. find_worker: returns the worker of a task."""
        self._find_worker = find_worker
        self._lock = threading.Lock()
        self._next: dict[int, int] = {}

    def next(self, key: int, leader: str) -> int:
        """Return the id of the next step.

        leader: the task to ask, "" if this one leads.
        """
        with self._lock:
            found = self._next.get(key)
            if found is None and not leader:
                found = self._next[key] = _IDS.getrandbits(_ID_BITS)
        if found is not None:
            return found
        from tfjit.protos import GetStepSequenceRequest

        request = GetStepSequenceRequest(graph_key=[key])
        answer = self._find_worker(leader).get_step_sequence(request)
        ids = {sequence.graph_key: sequence.next_step_id for sequence in answer.step_sequence}
        with self._lock:
            return self._next.setdefault(key, ids[key])

    def retire(self, key: int, step_id: int) -> None:
        """Count a step that has succeeded.

        A failed one leaves its id to the next.
        """
        with self._lock:
            if self._next.get(key) == step_id:
                self._next[key] = (step_id + 1) & _MASK
            else:
                self._next.pop(key, None)

    def answer(self, request: Any) -> Any:
        """Return the GetStepSequenceResponse of the leader to a GetStepSequenceRequest."""
        from tfjit.protos import GetStepSequenceResponse

        response = GetStepSequenceResponse()
        with self._lock:
            for key in request.graph_key:
                if key not in self._next:
                    self._next[key] = _IDS.getrandbits(_ID_BITS)
                response.step_sequence.add(graph_key=key, next_step_id=self._next[key])
        return response


__all__ = ["StepSequences"]

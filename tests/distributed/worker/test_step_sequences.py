"""The ids of steps that several masters run together."""

from __future__ import annotations

from typing import Any

from tfjit import protos
from tfjit.distributed.worker.step_sequences import StepSequences


class Leader:
    """A worker that answers from a table, and counts."""

    def __init__(self) -> None:
        self.table = StepSequences(self.nobody)
        self.asked = 0

    @staticmethod
    def nobody(task: str) -> Any:
        raise AssertionError(task)

    def get_step_sequence(self, request: Any) -> Any:
        self.asked += 1
        return self.table.answer(request)


def test_members_have_the_leaders_ids() -> None:
    leader = Leader()
    member: Any = StepSequences(lambda task: leader)  # type: ignore[arg-type, return-value]
    for key in (7, -3):
        for _ in range(3):
            number = member.next(key, "leader")
            assert number == leader.table.next(key, "") < 1 << 57
            member.retire(key, number)
            leader.table.retire(key, number)
    assert leader.asked == 2


def test_a_failed_step_leaves_its_id() -> None:
    table = Leader().table
    assert table.next(1, "") == table.next(1, "")


def test_an_id_out_of_order_is_asked_for_again() -> None:
    leader = Leader()
    member: Any = StepSequences(lambda task: leader)  # type: ignore[arg-type, return-value]
    number = member.next(1, "leader")
    member.retire(1, number + 5)
    assert member.next(1, "leader") == number and leader.asked == 2


def test_ids_stay_in_their_range() -> None:
    table = Leader().table
    table._next[1] = (1 << 57) - 1
    table.retire(1, (1 << 57) - 1)
    answer = table.answer(protos.GetStepSequenceRequest(graph_key=[1]))
    assert [(one.graph_key, one.next_step_id) for one in answer.step_sequence] == [(1, 0)]

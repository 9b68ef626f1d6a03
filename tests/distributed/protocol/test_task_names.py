"""Names of tasks in names of devices and in clusters."""

from __future__ import annotations

from tfjit import protos
from tfjit.distributed.protocol.task_names import addresses_of, task_name, task_of

TASK = "/job:w/replica:0/task:1"


def test_names() -> None:
    assert task_name("w", 1) == TASK and task_name("w", 1, 2) == "/job:w/replica:2/task:1"
    assert task_of(f"{TASK}/device:GPU:3") == task_of(TASK) == TASK
    jobs = [protos.JobDef(name="ps", tasks={2: "c:3", 0: "a:1"})]
    found = addresses_of(protos.ClusterDef(job=jobs))
    assert found == {task_name("ps", 0): "a:1", task_name("ps", 2): "c:3"}

"""Dataflow control flow (Switch, Merge, frames) and ops that only order, check or print."""

from __future__ import annotations

from tfjit.ops.declare import register_op

register_op("Assert", inputs=("condition: bool", "data: T"), attrs=("T: list(type) >= 1", "summarize: int = 3"), stateful=True)
register_op("ControlTrigger")
register_op(
    "Enter",
    inputs=("data: T",),
    outputs=("output: T",),
    attrs=("T: type", "frame_name: string", "is_constant: bool = false", "parallel_iterations: int = 10"),
)
register_op("Exit", inputs=("data: T",), outputs=("output: T",), attrs=("T: type",))
register_op("LoopCond", inputs=("input: bool",), outputs=("output: bool",))
register_op("Merge", inputs=("inputs: N * T",), outputs=("output: T", "value_index: int32"), attrs=("T: type", "N: int >= 1"))
register_op("NextIteration", inputs=("data: T",), outputs=("output: T",), attrs=("T: type",))
register_op("NoOp")
register_op(
    "Print",
    inputs=("input: T", "data: U"),
    outputs=("output: T",),
    attrs=("T: type", "U: list(type) >= 0", "message: string = ''", "first_n: int = -1", "summarize: int = 3"),
    stateful=True,
)
register_op("PrintV2", inputs=("input: string",), attrs=("output_stream: string = 'stderr'", "end: string = '\\n'"), stateful=True)
register_op(
    "RefEnter",
    inputs=("data: Ref(T)",),
    outputs=("output: Ref(T)",),
    attrs=("T: type", "frame_name: string", "is_constant: bool = false", "parallel_iterations: int = 10"),
)
register_op("RefExit", inputs=("data: Ref(T)",), outputs=("output: Ref(T)",), attrs=("T: type",))
register_op("RefIdentity", inputs=("input: Ref(T)",), outputs=("output: Ref(T)",), attrs=("T: type",), allows_uninitialized_input=True)
register_op("RefMerge", inputs=("inputs: Ref(N * T)",), outputs=("output: Ref(T)", "value_index: int32"), attrs=("T: type", "N: int >= 1"))
register_op("RefNextIteration", inputs=("data: Ref(T)",), outputs=("output: Ref(T)",), attrs=("T: type",))
register_op("RefSelect", inputs=("index: int32", "inputs: Ref(N * T)"), outputs=("output: Ref(T)",), attrs=("T: type", "N: int >= 1"))
register_op(
    "RefSwitch",
    inputs=("data: Ref(T)", "pred: bool"),
    outputs=("output_false: Ref(T)", "output_true: Ref(T)"),
    attrs=("T: type",),
    allows_uninitialized_input=True,
)
register_op("Switch", inputs=("data: T", "pred: bool"), outputs=("output_false: T", "output_true: T"), attrs=("T: type",))
register_op(
    "_SwitchN", inputs=("data: T", "output_index: int32"), outputs=("outputs: num_outs * T",), attrs=("num_outs: int >= 1", "T: type")
)
register_op("Timestamp", outputs=("ts: double",), stateful=True)

"""Traits: facts about an op type, declared with the op and asked by passes, runtime and kernels.

A trait is a bit. An op's traits are given to `register_op(..., traits=VIEW | CANNOT_FAIL)` in
`tfjit.ops`; `completed` adds the ones that follow. They are asked as `node.has_trait(SWITCH)`,
`graph.has_trait(CONTROL_FLOW)`, or, where there is only a type, `registry.has_trait(op, REDUCTION)`;
several bits ask for any of them. State, commutativity and aggregation are flags of TensorFlow's own
OpDef (`is_stateful`, `is_commutative`, `is_aggregate`) and no traits.
"""

from __future__ import annotations

from typing import Final

# ---- values

VIEW: Final = 1 << 0
"""Output 0 holds the elements of input 0 in their order, and may have the memory of input 0."""
IDENTITY: Final = 1 << 1
"""Output 0 is input 0 with its dtype and shape, and nothing is checked: a VIEW."""
RESHAPE: Final = 1 << 2
"""Output 0 is input 0 with a shape of its own: a VIEW."""
ELEMENTWISE: Final = 1 << 3
"""Elements are computed one by one, by a row of framework/scalar/elementwise.py."""
REDUCTION: Final = 1 << 4
"""Input 0 is folded along the dims in input 1; attr keep_dims."""
MATRIX_PRODUCT: Final = 1 << 5
"""The product of the matrices in the last two dims of inputs 0 and 1."""
SHAPE_QUERY: Final = 1 << 6
"""The outputs say shapes of the inputs; no element is read."""
SIZED_BY_VALUES: Final = 1 << 34
"""Elements of an input decide the size of an output."""

# ---- errors and effects

CANNOT_FAIL: Final = 1 << 7
"""No error where variables are initialized and the shape function accepts the inputs: their shapes,
and the values that it would read of constants."""
FAILS_ON_INTEGERS: Final = 1 << 8
"""Some integers are an error (a division by zero), nothing else is."""
SPECULATABLE: Final = 1 << 9
"""No error and no effect, so a node may run though its result may not be needed. Derived:
CANNOT_FAIL, not stateful, no trait of state or control flow."""
NEVER_EVALUATED: Final = 1 << 10
"""The value is not computed while planning, although the op has no state."""
CALLS_PYTHON: Final = 1 << 11
"""A Python function of the user's runs, which may do anything."""
BLOCKING: Final = 1 << 12
"""The op may wait for another step, thread or process."""

CHECKS_NUMBERS: Final = 1 << 36
"""Input 0 is passed on; NaN and infinite elements are an error."""

COLLECTIVE: Final = 1 << 35
"""Nodes on several devices compute the value together: BLOCKING."""

# ---- state

VARIABLE: Final = 1 << 13
"""The output is the handle of, or a reference to, a variable that the node names."""
READS_STATE: Final = 1 << 14
"""A variable, queue or the size of a tensor array is read, and no state changes."""
WRITES_VARIABLE: Final = 1 << 15
"""The variable of input 0 changes."""
ASSIGN: Final = 1 << 16
"""The variable of input 0 becomes input 1: WRITES_VARIABLE."""
ASSIGN_ADD: Final = 1 << 17
"""Input 1 is added to, or subtracted from, the variable under its lock: WRITES_VARIABLE."""

# ---- control flow

CONTROL_FLOW: Final = 1 << 18
"""Outputs may be dead, or belong to another frame or iteration than the inputs."""
SWITCH: Final = 1 << 19
"""One of two outputs is alive: CONTROL_FLOW."""
MERGE: Final = 1 << 20
"""The input that is alive goes on: CONTROL_FLOW."""
ENTER: Final = 1 << 21
"""Input 0 goes into a frame: CONTROL_FLOW."""
EXIT: Final = 1 << 22
"""Input 0 leaves its frame: CONTROL_FLOW."""
NEXT_ITERATION: Final = 1 << 23
"""Input 0 goes into the next iteration of its frame: CONTROL_FLOW."""
RUNS_FUNCTIONS: Final = 1 << 24
"""Attrs name functions that the node runs."""
WHILE: Final = 1 << 25
"""A loop over the functions `cond` and `body`: RUNS_FUNCTIONS."""
IF: Final = 1 << 26
"""One of two functions runs, by a truth value: RUNS_FUNCTIONS."""
CASE: Final = 1 << 27
"""One of the functions `branches` runs, by number: RUNS_FUNCTIONS."""
CALL: Final = 1 << 28
"""The function `f` runs: RUNS_FUNCTIONS."""

# ---- ends of a graph

PLACEHOLDER: Final = 1 << 29
"""The node has no value of its own: the run feeds it."""
SEND: Final = 1 << 30
"""Input 0 goes to another partition: TRANSFER."""
RECV: Final = 1 << 31
"""Output 0 comes from another partition: TRANSFER."""
TRANSFER: Final = 1 << 32
"""A tensor goes between two partitions of one run."""

# ---- state, row by row

WRITES_ROWS: Final = 1 << 33
"""Rows of variables change one after the other, at indices: WRITES_VARIABLE."""

_IMPLIED: Final = (
    (IDENTITY | RESHAPE, VIEW),
    (ASSIGN | ASSIGN_ADD | WRITES_ROWS, WRITES_VARIABLE),
    (SWITCH | MERGE | ENTER | EXIT | NEXT_ITERATION, CONTROL_FLOW),
    (WHILE | IF | CASE | CALL, RUNS_FUNCTIONS),
    (SEND | RECV, TRANSFER),
    (COLLECTIVE, BLOCKING),
    (CONTROL_FLOW | RUNS_FUNCTIONS | PLACEHOLDER, NEVER_EVALUATED),
)
_NOT_SPECULATABLE: Final = (
    VARIABLE | READS_STATE | WRITES_VARIABLE | NEVER_EVALUATED | CALLS_PYTHON | BLOCKING | TRANSFER
)


def completed(traits: int, is_stateful: bool) -> int:
    """Return declared traits with those that follow from them."""
    if not traits:
        return 0
    for some, implied in _IMPLIED:
        if traits & some:
            traits |= implied
    if traits & CANNOT_FAIL and not is_stateful and not traits & _NOT_SPECULATABLE:
        traits |= SPECULATABLE
    return traits


def names(traits: int) -> list[str]:
    """Return the names of traits, in the order of their declaration."""
    return [
        name
        for name, bit in globals().items()
        if name.isupper() and not name.startswith("_") and isinstance(bit, int) and traits & bit
    ]

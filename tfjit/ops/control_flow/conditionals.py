"""`cond`, `case`, `switch_case`: branches of which one runs; `Assert`, which is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph, name_scope
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes, nest
from tfjit.ops.control_flow import conditionals_v2
from tfjit.ops.control_flow.cond_context import CondContext
from tfjit.ops.control_flow.control_flow import merge, no_op, switch, with_dependencies
from tfjit.ops.control_flow.control_flow_form import uses_functions
from tfjit.ops.control_flow.flow_tensor_array import from_flow, to_flow
from tfjit.ops.control_flow.ragged_values import Branch, rebuilt
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import constant, convert_n_to_tensor, convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike

# Values that are in host memory on every device.
_ON_THE_HOST: Final = frozenset({dtypes.string, dtypes.int32})


def cond(
    pred: TensorLike,
    true_fn: Callable[[], object] | None = None,
    false_fn: Callable[[], object] | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Callable[[], object] | None = None,
    fn2: Callable[[], object] | None = None,
) -> Structure:
    """Return the result of `true_fn` if `pred` is true, else of `false_fn`.

    pred: a bool scalar. Only one of the functions runs. Both return the same structure of tensors,
    ragged tensors, TensorArrays or operations, with the same dtypes. strict: a list of one stays a
    list. Tensors that the branches take from outside are computed in any case. Raises TypeError for
    functions that cannot be called, ValueError for a branch that returns nothing and for dtypes
    that differ, either for structures that differ.
    """
    for given, old, new in ((fn1, "fn1", "true_fn"), (fn2, "fn2", "false_fn")):
        if given is not None and (true_fn if new == "true_fn" else false_fn) is not None:
            raise TypeError(f"cond(): '{new}' and '{old}' may not be set simultaneously.")
    true_fn, false_fn = true_fn or fn1, false_fn or fn2
    for function, called in ((true_fn, "true_fn"), (false_fn, "false_fn")):
        if function is None:
            raise TypeError(f"cond(): '{called}' argument required")
        if not callable(function):
            raise TypeError(f"'{called}' must be callable.")
    assert true_fn is not None and false_fn is not None
    branches = Branch(true_fn), Branch(false_fn)
    made = _branched(pred, *branches, strict, name)
    like = branches[0].result
    if like is None:
        return made
    return rebuilt(like if strict or uses_functions() else _unpacked(like), made)


def _branched(
    pred: TensorLike,
    true_fn: Callable[[], object],
    false_fn: Callable[[], object],
    strict: bool,
    name: str | None,
) -> Structure:
    """Return the result of one of two functions of tensors; see `cond`."""
    if uses_functions():
        return conditionals_v2.cond(pred, true_fn, false_fn, name)
    if isinstance(pred, bool):
        raise TypeError("'pred' must not be a Python bool.")
    with name_scope(name, "cond", [pred]):
        not_taken, taken = switch(pred, pred)
        pivots = [
            tensor("Identity", "switch_t", input=taken),
            tensor("Identity", "switch_f", input=not_taken),
        ]
        chosen = tensor("Identity", "pred_id", input=pred)
        for made in (not_taken, taken, *pivots, chosen):
            made.graph.prevent_fetching(made.op)
        contexts = [
            CondContext(chosen, pivots[0], branch=1),
            CondContext(chosen, pivots[1], branch=0),
        ]
        originals, results = [], []
        for context, function, called in zip(
            contexts, (true_fn, false_fn), ("true_fn", "false_fn"), strict=True
        ):
            with context.entered():
                original = function()
                if original is None:
                    raise ValueError(f"'{called}' must have a return value.")
                flat = [_result(context, value) for value in nest.flatten(original)]
            context.ExitResult(flat)
            originals.append(original if strict else _unpacked(original))
            results.append(flat)
        nest.assert_same_structure(originals[0], originals[1])
        for x, y in zip(*results, strict=True):
            if x.dtype.base_dtype is not y.dtype.base_dtype:
                raise ValueError(
                    "Outputs of 'true_fn' and 'false_fn' must have the same type(s). Received "
                    f"{x.dtype.name} from 'true_fn' and "
                    f"{y.dtype.name} from 'false_fn'."
                )
        merges = [merge([no, yes])[0] for yes, no in zip(*results, strict=True)]
        if contexts[0].outer_context is None:
            for context in contexts:
                get_default_graph().add_to_collection(GraphKeys.COND_CONTEXT, context)
        leaves = nest.flatten(originals[0])
        return nest.pack_sequence_as(
            originals[0],
            [from_flow(like, value) for like, value in zip(leaves, merges, strict=True)],
        )


def _unpacked(result: object) -> Structure:
    """Return the element of a sequence of one, other values unchanged."""
    return result[0] if isinstance(result, (list, tuple)) and len(result) == 1 else result


def _result(context: CondContext, value: TensorLike) -> Tensor:
    if isinstance(value, Operation):
        return with_dependencies([value], context.pivot)
    if value is None:
        return with_dependencies([no_op()], context.pivot)
    return context.output(convert_to_tensor(to_flow(value)))


def case(
    pred_fn_pairs: Structure,
    default: object = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Structure:
    """Return the result of the first true predicate's function, or `default`'s.

    pred_fn_pairs: pairs of a bool scalar and a function, or a dictionary of them. Without a default
    it is an error when the step runs that no predicate is true; `exclusive` makes it one that two
    are. Raises TypeError for other values.
    """
    pairs = _pairs(pred_fn_pairs)
    if default is not None and not callable(default):
        raise TypeError("'default' must be callable.")
    predicates = [pred for pred, _ in pairs]
    with name_scope(name, "case", [p for p in predicates if isinstance(p, Tensor)]):
        if default is None:
            default = _none_is_true(predicates, pairs[-1][1])
            pairs, predicates = pairs[:-1], predicates[:-1]
        choose: Callable[[], object] = default
        for pred, action in reversed(pairs):
            choose = _nested(pred, action, choose, strict)
        if not exclusive:
            return choose()
        with control_dependencies([_at_most(1, predicates, "Input error: exclusive=True")]):
            return choose()


def _nested(
    pred: TensorLike, action: Callable[[], object], otherwise: Callable[[], object], strict: bool
) -> Callable[[], object]:
    return lambda: cond(pred, action, otherwise, strict=strict)


def _pairs(given: object) -> list[tuple[Tensor, Callable[[], object]]]:
    if isinstance(given, Mapping):
        given = list(given.items())
    if not isinstance(given, (list, tuple)) or not given:
        raise TypeError(f"'pred_fn_pairs' must be a list, tuple, or dict. Received: {type(given)}")
    for pair in given:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"Each entry in 'pred_fn_pairs' must be a 2-tuple. Received {pair}.")
        pred, function = pair
        pred = pred.deref() if hasattr(pred, "deref") else pred
        if not isinstance(pred, Tensor):
            raise TypeError(f"pred must be a Tensor, got: {pred}")
        if pred.dtype.base_dtype is not dtypes.bool:
            raise TypeError(f"pred must be Tensor of type bool: {pred.name}")
        if not callable(function):
            raise TypeError(f"fn for pred {pred.name} must be callable.")
    return [
        (pred.deref() if hasattr(pred, "deref") else pred, function) for pred, function in given
    ]


def _none_is_true(
    predicates: Sequence[Tensor], action: Callable[[], object]
) -> Callable[[], object]:
    """Return the last function behind a check that its predicate is true.

    All other predicates are false there.
    """
    from tfjit.ops.arrays.movement_functions import stack

    *others, last = predicates
    wrong = (
        f"Implementation error: selected default action #{len(others)} was called, but some of "
        "other predicates are True: "
    )
    missing = "Input error: None of conditions evaluated as True:"

    def checked() -> Structure:
        values = stack(list(predicates), name="preds_c")
        checks = [_at_most(0, others, wrong), Assert(last, [missing, values])]
        with control_dependencies(checks):
            return action()

    return checked


def _at_most(count: int, predicates: Sequence[Tensor], reason: str) -> Operation:
    """Assert that at most `count` of the predicates are true."""
    from tfjit.ops.arithmetic.elementwise_functions import cast, less_equal
    from tfjit.ops.arithmetic.reduction import reduce_sum
    from tfjit.ops.arrays.movement_functions import stack

    values = stack(list(predicates), name="preds_c")
    found = reduce_sum(cast(values, dtypes.int32), name="num_true_conds")
    allowed = less_equal(found, constant(count, name="n_true_conds"))
    names = ", ".join(predicate.name for predicate in predicates)
    text = f"{reason}: more than {count} conditions ({names}) evaluated as True:"
    return Assert(allowed, [text, values], summarize=len(predicates))


def switch_case(
    branch_index: TensorLike, branch_fns: Structure, default: object = None, name: str | None = None
) -> Structure:
    """Return the result of the function at `branch_index`, or `default`'s.

    branch_index: an int32 scalar; for an index without function, `default` runs, or the last
    function without one. branch_fns: functions, pairs of an index and a function, or a dictionary
    of them; the indices are 0, 1, .. len - 1. The result is from a Case node with functions of the
    graph as branches. Raises TypeError and ValueError for others.
    """
    functions = _indexed(branch_fns)
    if default is not None:
        if not callable(default):
            raise TypeError("'default' must be callable.")
        functions.append(default)
    if isinstance(branch_index, int):
        raise TypeError("branch_index must not be a Python int", branch_index)
    with name_scope(
        name, "switch_case", [branch_index] if isinstance(branch_index, Tensor) else []
    ):
        index = convert_to_tensor(branch_index, name="branch_index")
        if index.dtype.base_dtype is not dtypes.int32:
            raise TypeError(f"'branch_index' must be an integer Tensor, got {index.dtype}")
        return conditionals_v2.indexed_case(index, functions)


def _indexed(given: object) -> list[Callable[[], object]]:
    if isinstance(given, Mapping):
        given = list(given.items())
    if not isinstance(given, (list, tuple)) or not given:
        raise TypeError("'branch_fns' must be a list, tuple, or dict")
    if callable(given[0]):
        given = list(enumerate(given))
    for pair in given:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"Each entry in 'branch_fns' must be a 2-tuple. Received {pair}.")
        index, function = pair
        if isinstance(index, bool) or not isinstance(index, int):
            raise TypeError(f"key must be a Python `int`, got {type(index)}")
        if not callable(function):
            raise TypeError(f"fn for key {index} must be callable.")
    if sorted(index for index, _ in given) != list(range(len(given))):
        raise ValueError(
            f"branch indices (keys) must form contiguous range of [0 to {len(given)}) but found "
            f"{{{','.join(str(i) for i in sorted(index for index, _ in given))}}}"
        )
    return [function for _, function in sorted(given, key=lambda pair: pair[0])]


def Assert(
    condition: object,
    data: Sequence[TensorLike],
    summarize: int | None = None,
    name: str | None = None,
) -> Operation:
    """Return an operation that checks a condition.

    It raises InvalidArgumentError with `data` when the condition is false; the first `summarize`
    elements of each tensor (3 by default, all of them for -1) are in the message. Data of other
    dtypes than string and int32 are read in a branch of their own, for a false condition alone.
    """
    with name_scope(name, "Assert", [condition, data]):
        if all(x.dtype in _ON_THE_HOST for x in convert_n_to_tensor(data)):
            return create(
                "Assert", "Assert", condition=condition, data=list(data), summarize=summarize
            )
        wanted = convert_to_tensor(condition, name="Condition")
        guarded = cond(
            wanted,
            no_op,
            lambda: create(
                "Assert", "Assert", condition=wanted, data=list(data), summarize=summarize
            ),
            name="AssertGuard",
        )
        return guarded if isinstance(guarded, Operation) else guarded.op

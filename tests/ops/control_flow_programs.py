"""Programs of conditionals, loops, folds and tensor arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any], Any]


PROGRAMS: dict[str, Program] = {}


def program(build: Program) -> Program:
    PROGRAMS[build.__name__] = build
    return build


@program
def one_of_two(m: Any) -> Any:
    x, y = m.constant(3.0), m.constant(4.0)
    return m.cond(m.constant(True), lambda: m.add(x, y), lambda: x * 2.0)


@program
def passed_on(m: Any) -> Any:
    x = m.constant(3.0)
    return m.cond(m.constant(False), lambda: (x, m.constant(1.0)), lambda: (m.constant(2.0), x))


@program
def one_in_the_other(m: Any) -> Any:
    x, q = m.constant(3.0), m.constant(False)
    inner = m.cond(m.constant(True), lambda: m.cond(q, lambda: x + 1.0, lambda: x + 2.0), lambda: x)
    with m.device("/cpu:0"):
        return inner, m.cond(
            x > 0,
            lambda: m.cond(x > 1, lambda: m.constant(1.0), lambda: x),
            lambda: m.constant(7.0),
            name="named",
        )


@program
def a_sequence_of_one(m: Any) -> Any:
    p = m.constant(True)
    strict = m.cond(p, lambda: [m.constant(1.0)], lambda: [m.constant(2.0)], strict=True)
    return strict, m.cond(p, lambda: [m.constant(1.0)], lambda: [m.constant(2.0)])


@program
def operations(m: Any) -> Any:
    x = m.constant(1.0)
    return m.cond(x > 0, lambda: m.group(x), lambda: m.no_op())


@program
def arrays_in_branches(m: Any) -> Any:
    array = m.TensorArray(m.float32, 1)
    return m.cond(
        m.constant(True), lambda: array.write(0, 1.0), lambda: array.write(0, 2.0)
    ).stack()


@program
def cases(m: Any) -> Any:
    x = m.constant(3)
    return m.case(
        [(m.less(x, 2), lambda: m.constant(1)), (m.less(x, 4), lambda: m.constant(2))],
        default=lambda: m.constant(3),
    )


@program
def count(m: Any) -> Any:
    return m.while_loop(lambda i: m.less(i, 10), lambda i: m.add(i, 1), [m.constant(0)])


@program
def count_numbers(m: Any) -> Any:
    with m.name_scope("s"):
        return m.while_loop(lambda i: i < 3, lambda i: m.identity(i + 1), [0], name="named")


@program
def invariant(m: Any) -> Any:
    k = m.constant(2.0)
    return m.while_loop(
        lambda i, x: i < 5, lambda i, x: (i + 1, x * k + k), [m.constant(0), m.constant([1.0, 2.0])]
    )


@program
def loop_in_a_loop(m: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        return i + 1, m.while_loop(
            lambda j, y: j < 3, lambda j, y: (j + 1, y + m.cast(i, m.float32)), [m.constant(0), x]
        )[1]

    return m.while_loop(lambda i, x: i < 4, body, [m.constant(0), m.constant(1.0)])


@program
def branch_in_a_loop(m: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        return i + 1, m.cond(m.less(i, 2), lambda: x + 1.0, lambda: x * 2.0)

    return m.while_loop(lambda i, x: i < 4, body, [m.constant(0), m.constant(1.0)])


@program
def loop_in_a_branch(m: Any) -> Any:
    x = m.constant(2.0)
    return m.cond(
        m.constant(True),
        lambda: m.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * x), [m.constant(0), x])[
            1
        ],
        lambda: x,
    )


@program
def deep(m: Any) -> Any:
    x = m.constant(1.0)

    def body(i: Any, x: Any) -> Any:
        def inner(j: Any, y: Any) -> Any:
            return j + 1, y + m.cond(y > 5.0, lambda: x, lambda: m.constant(1.0))

        return i + 1, m.cond(
            x > 3.0, lambda: m.while_loop(lambda j, y: j < i, inner, [0, x])[1], lambda: x * 2.0
        )

    return m.while_loop(lambda i, x: i < 5, body, [0, x])


@program
def bounded(m: Any) -> Any:
    body = lambda i, x: (i + 1, x + 1.0)  # noqa: E731
    return (
        m.while_loop(
            lambda i, x: i < 40, body, (m.constant(0), m.constant(1.0)), maximum_iterations=3
        ),
        m.while_loop(lambda i: i < 3, lambda i: i + 1, [0], maximum_iterations=m.constant(2)),
        m.while_loop(
            lambda i: i < 3,
            lambda i: (i + 1,),
            (m.constant(0),),
            return_same_structure=True,
            maximum_iterations=9,
        ),
        m.while_loop(lambda i: i < 3, lambda i: i + 1, [m.constant(0)], return_same_structure=True),
    )


@program
def control_dependencies(m: Any) -> Any:
    x = m.constant(2.0)
    outside = m.identity(x, name="outside")

    def body(i: Any, y: Any) -> Any:
        with m.control_dependencies([outside]):
            z = y * 2.0
        with m.control_dependencies([z]):
            return i + 1, m.identity(y) + m.constant(1.0)

    with m.control_dependencies([m.no_op(name="before")]):
        return m.while_loop(lambda i, y: i < 4, body, [m.constant(0), x])


@program
def invariants(m: Any) -> Any:
    return m.while_loop(
        lambda i, x: i < 3,
        lambda i, x: (i + 1, m.concat([x, x], 0)),
        [m.constant(0), m.constant([1.0])],
        shape_invariants=[m.TensorShape([]), m.TensorShape([None])],
        parallel_iterations=3,
        swap_memory=True,
        back_prop=False,
    )


@program
def nested_variables(m: Any) -> Any:
    start = {"b": m.constant(1.0), "a": (m.constant(2.0), m.constant(0))}
    return m.while_loop(
        lambda d: d["a"][1] < 3,
        lambda d: [{"b": d["b"] * 2.0, "a": (d["a"][0] + d["b"], d["a"][1] + 1)}],
        [start],
    )


@program
def written_elements(m: Any) -> Any:
    array = m.TensorArray(m.float32, 3)
    return array.write(0, m.constant(1.0)).write(1, 2.0).write(2, 3.0).stack()


@program
def every_method(m: Any) -> Any:
    array = m.TensorArray(m.float32, 3, clear_after_read=False).unstack(
        m.constant([[1.0], [2.0], [3.0]])
    )
    gradient = array.grad("q")
    cut = m.TensorArray(
        m.float32,
        size=2,
        infer_shape=False,
        colocate_with_first_write_call=False,
        name="cut",
        tensor_array_name="t",
    )
    first = array.read(0)
    return (
        array.read(1),
        array.gather([0, 2]),
        array.concat(),
        array.size() + array.size(),
        array.identity().stack(),
        gradient.write(1, m.constant([5.0])).stack(),
        gradient.size(),
        cut.split(m.constant([1.0, 2.0, 3.0]), [1, 2]).concat(),
        m.TensorArray(m.float32, size=2).split(m.constant([[1.0], [2.0]]), [1, 1]).stack(),
        first,
    )


@program
def closed(m: Any) -> Any:
    array = m.TensorArray(m.float32, 1).write(0, 1.0)
    value = array.read(0)
    with m.control_dependencies([value]), m.control_dependencies([array.close()]):
        return m.identity(value)


@program
def written_in_a_loop(m: Any) -> Any:
    array = m.TensorArray(m.float32, size=0, dynamic_size=True, element_shape=[2])
    return m.while_loop(
        lambda i, a: i < 4,
        lambda i, a: (i + 1, a.write(i, m.fill([2], 1.5))),
        [m.constant(0), array],
    )[1].stack()


@program
def mapped(m: Any) -> Any:
    a, b = m.constant([[1.0, 2.0], [3.0, 4.0]]), m.constant([1, 2])
    dtypes = (m.float32, m.int32, m.float32)
    return (
        m.map_fn(lambda x: x * 2.0, m.constant([1.0, 2.0])),
        m.map_fn(lambda t: (t[0] * 2.0, t[1] + 1, m.reduce_sum(t[0])), (a, b), dtype=dtypes),
        m.map_fn(lambda x: m.cast(x, m.int32), a, dtype=m.int32),
    )


@program
def folded(m: Any) -> Any:
    a, b = m.constant([1.0, 2.0, 5.0]), m.constant([[1.0, 2.0], [3.0, 4.0]])
    return (
        m.scan(lambda s, x: s + x, a),
        m.scan(lambda s, x: (s[0] + x, s[1] + 1), b, initializer=(m.zeros([2]), m.constant(0))),
        m.scan(lambda s, x: s * x, b, reverse=True),
        m.foldl(lambda s, x: s - x, a),
        m.foldr(lambda s, x: s - x, a),
        m.foldl(lambda s, x: s - x, b, initializer=m.zeros([2])),
        m.foldr(lambda s, x: s - x, b, initializer=m.zeros([2])),
    )


@program
def folded_of_unknown_size(m: Any) -> Any:
    p = m.placeholder_with_default(np.array([1.0, 2.0], np.float32), [None])
    return (
        m.map_fn(lambda x: x * 2.0, p),
        m.scan(lambda s, x: s + x, p),
        m.scan(lambda s, x: s + x, p, reverse=True),
        m.foldl(lambda s, x: s - x, p),
        m.foldr(lambda s, x: s - x, p),
    )


def spoiled(m: Any) -> dict[str, Program]:
    true, one = lambda m: m.constant(True), lambda m: m.constant(1)
    less = lambda i: i < 3  # noqa: E731
    return {
        "a bool for a predicate": lambda m: m.cond(True, lambda: 1, lambda: 2),
        "no function": lambda m: m.cond(true(m), 3, lambda: 2),
        "no second function": lambda m: m.cond(true(m), lambda: 1),
        "two first functions": lambda m: m.cond(true(m), lambda: 1, lambda: 2, fn1=lambda: 2),
        "nothing returned": lambda m: m.cond(true(m), lambda: None, lambda: one(m)),
        "other dtypes": lambda m: m.cond(true(m), lambda: one(m), lambda: m.constant(1.0)),
        "a number for a predicate": lambda m: m.cond(one(m), lambda: one(m), lambda: one(m)),
        "no condition": lambda m: m.while_loop(3, lambda i: i, [1]),
        "no body": lambda m: m.while_loop(less, 3, [1]),
        "no variables": lambda m: m.while_loop(lambda: True, lambda: 1, []),
        "no parallel iterations": lambda m: m.while_loop(
            less, lambda i: i + 1, [one(m)], parallel_iterations=0
        ),
        "a fraction of iterations": lambda m: m.while_loop(
            less, lambda i: i + 1, [one(m)], parallel_iterations=2.0
        ),
        "a shape that grows": lambda m: m.while_loop(
            lambda x: m.reduce_sum(x) < 3, lambda x: m.concat([x, x], 0), [m.constant([1])]
        ),
        "an invariant that does not fit": lambda m: m.while_loop(
            lambda x: m.reduce_sum(x) < 3,
            lambda x: x,
            [m.constant([1])],
            shape_invariants=[m.TensorShape([2])],
        ),
        "a body that gives nothing": lambda m: m.while_loop(less, lambda i: None, [one(m)]),
        "iterations that are a vector": lambda m: m.while_loop(
            less, lambda i: i, [one(m)], maximum_iterations=[1, 2]
        ),
        "no pairs": lambda m: m.case(3),
        "three of a pair": lambda m: m.case([(1, 2, 3)]),
        "a bool in a pair": lambda m: m.case([(True, lambda: 1)]),
        "no function in a pair": lambda m: m.case([(true(m), 1)]),
        "no branches": lambda m: m.switch_case(one(m), 3),
        "an index left out": lambda m: m.switch_case(one(m), {0: lambda: 1, 2: lambda: 1}),
        "a word for an index": lambda m: m.switch_case(one(m), {"a": lambda: 1}),
        "a float for an index": lambda m: m.switch_case(m.constant(1.0), [lambda: 1]),
        "a scalar mapped": lambda m: m.map_fn(lambda x: x, one(m)),
        "nothing mapped": lambda m: m.map_fn(lambda x: x, []),
        "an array of no size": lambda m: m.TensorArray(m.float32),
        "a size beside a handle": lambda m: m.TensorArray(m.float32, size=1, handle=one(m)),
        "a name beside a handle": lambda m: m.TensorArray(
            m.float32, handle=one(m), tensor_array_name="x"
        ),
        "no flow": lambda m: m.TensorArray(m.float32, handle=one(m)),
        "another element shape": lambda m: m.TensorArray(m.float32, 2, element_shape=[2]).write(
            0, m.constant([1.0])
        ),
        "a second shape": lambda m: (
            m.TensorArray(m.float32, 2).write(0, m.constant([1.0])).write(1, m.constant([1.0, 2.0]))
        ),
        "other rows": lambda m: m.TensorArray(m.float32, 2, element_shape=[2]).unstack(
            m.constant([[1.0]])
        ),
    }

"""The key of a stored plan changes with all that decides the plan, and with nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import tfjit
from tfjit.framework.types.device_ends import DeviceEnds
from tfjit.kernels.jit import target
from tfjit.passes import Pipeline
from tfjit.passes.manager import user_passes
from tfjit.protos import ConfigProto
from tfjit.runtime.stored_plans import plan_key as module
from tfjit.runtime.stored_plans.plan_key import PlanKey, plan_key

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)


def build(
    values: np.ndarray = WEIGHTS,
    transpose: bool = False,
    seed: int = 5,
    columns: int = 4,
    name: str = "product",
    after: bool = False,
    text: bytes = b"a",
    alpha: float = 0.5,
) -> tfjit.Graph:
    """Return a small graph with a constant, a variable, a random op and a string."""
    with tfjit.Graph().as_default() as graph:
        x = tfjit.placeholder(tfjit.float32, [None, 3], name="x")
        w = tfjit.Variable(np.zeros((3, columns), np.float32), name="w", use_resource=True)
        words = tfjit.constant(text, name="text")
        noise = tfjit.identity(tfjit.random.uniform([3], seed=seed), name="noise")
        order = [noise] if after else []
        with tfjit.control_dependencies(order):
            product = tfjit.matmul(
                x, values.T.copy() if transpose else values, transpose_b=transpose, name=name
            )
        total = tfjit.reduce_sum(product) + tfjit.reduce_sum(noise) + tfjit.reduce_sum(w)
        scaled = tfjit.nn.leaky_relu(total, alpha)
        with tfjit.control_dependencies([words]):
            tfjit.identity(scaled, name="out")
    return graph


def key_of(
    graph: tfjit.Graph,
    shape: tuple[int, ...] = (2, 3),
    fetches: tuple[str, ...] = ("out:0",),
    feeds: tuple[str, ...] = ("x:0",),
    prepare: Callable[[tfjit.Session], object] = lambda session: None,
    **options: Any,
) -> PlanKey:
    """Return the key of a run in a new session."""
    with tfjit.Session(graph=graph, **options) as session:
        session.run(graph.get_operation_by_name("w/Assign"))
        prepare(session)
        host = session._runtime_session
        plan = host.plan(feeds, fetches, ())
        with host.settings():
            return plan_key(host, plan.spec((shape,)))


def test_a_graph_that_is_made_again_has_the_same_key() -> None:
    first, second = key_of(build()), key_of(build())
    assert first.name and first.name == second.name
    assert set(first.variables) == {"w"} and "product/b" in first.constants


@pytest.mark.parametrize(
    "changes",
    [
        {"values": WEIGHTS + np.float32(1e-6)},
        {"values": WEIGHTS[:, :3].copy()},
        {"values": WEIGHTS.astype(np.float32) * np.float32(-0.0)},
        {"transpose": True},
        {"seed": 6},
        {"columns": 5},
        {"name": "other"},
        {"after": True},
        {"text": b"b"},
        {"alpha": 0.25},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_another_graph_has_another_key(changes: dict[str, Any]) -> None:
    assert key_of(build(**changes)).name != key_of(build()).name


def config(**fields: Any) -> ConfigProto:
    made = ConfigProto()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def optimizer_level() -> ConfigProto:
    made = ConfigProto()
    made.graph_options.optimizer_options.opt_level = -1
    return made


def rewriter() -> ConfigProto:
    made = ConfigProto()
    made.graph_options.rewrite_options.constant_folding = 2
    return made


@pytest.mark.parametrize(
    "options",
    [
        {"shape": (5, 3)},
        {"fetches": ("noise:0", "out:0")},
        {"feeds": ("x:0",), "fetches": ("product:0",)},
        {"config": config(intra_op_parallelism_threads=3)},
        {"config": config(allow_soft_placement=True)},
        {"config": optimizer_level()},
        {"config": rewriter()},
        {"passes": "default without fuse"},
        {"passes": "default repeat simplify up to 2 times"},
    ],
    ids=str,
)
def test_another_run_has_another_key(options: dict[str, Any]) -> None:
    graph = build()
    changed = key_of(graph, **options)
    assert changed.name and changed.name != key_of(graph).name


@pytest.mark.parametrize(
    ("name", "value"),
    [("TFJIT_DISABLE", "fuse"), ("TFJIT_WINOGRAD", "0"), ("TFJIT_THREADS", "5")],
)
def test_settings_count(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = build()
    before = key_of(graph)
    monkeypatch.setenv(name, value)
    changed = key_of(graph)
    assert changed.name and changed.name != before.name


def test_pipelines_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """By order, names and versions: no plan serves sessions with other passes."""
    monkeypatch.setattr(user_passes, "_REGISTERED", {})

    def own(graph: Any, ctx: Any) -> None:
        pass

    def other(graph: Any, ctx: Any) -> None:
        pass

    user_passes.register_pass("own", own, version="1")
    default, graph = Pipeline.default(), build()
    made = [
        default,
        default.without("loop_sums").before("size_slices", "loop_sums"),
        default.then("own"),
        default.before("fold", "own"),
        default.before("fuse", "own"),
    ]
    keys = [key_of(graph, passes=pipeline).name for pipeline in made]
    assert all(keys) and len(set(keys)) == len(keys)
    assert key_of(graph, passes="default").name == keys[0] == key_of(graph).name
    user_passes._REGISTERED.clear()
    user_passes.register_pass("own", other, version="2")
    assert key_of(graph, passes="default then own").name not in keys
    unnamed = key_of(graph, passes=default.then(_unversioned))
    assert (
        not unnamed.name
        and unnamed.reason == "the pass '_unversioned' of its pipeline has no version"
    )


def _unversioned(graph: Any, ctx: Any) -> None:
    pass


def test_a_variable_of_another_shape_changes_the_key() -> None:
    graph = build()
    with graph.as_default():
        free = tfjit.Variable(
            np.zeros(2, np.float32), name="free", validate_shape=False, use_resource=False
        )
        longer = tfjit.assign(free, np.zeros(3, np.float32), validate_shape=False)
    runs: list[Callable[[tfjit.Session], object]] = [
        lambda session: None,
        lambda session: session.run(free.initializer),
        lambda session: session.run(longer),
    ]
    keys = [key_of(graph, fetches=("free:0", "out:0"), prepare=run) for run in runs]
    assert len({key.name for key in keys}) == 3


def test_nodes_that_the_run_does_not_need_do_not_count() -> None:
    graph = build()
    before = key_of(graph)
    with graph.as_default():
        tfjit.constant(3.0, name="unneeded")
    assert key_of(graph).name == before.name


def test_functions_count() -> None:
    def made(factor: float) -> tfjit.Graph:
        graph = build()
        with graph.as_default():
            branch = tfjit.cond(
                graph.get_tensor_by_name("out:0") > 0,
                lambda: tfjit.constant(factor),
                lambda: tfjit.constant(1.0),
            )
            tfjit.identity(branch, name="chosen")
        return graph

    tfjit.enable_control_flow_v2()
    try:
        one, two = (key_of(made(factor), fetches=("chosen:0",)) for factor in (2.0, 3.0))
    finally:
        tfjit.disable_control_flow_v2()
    assert one.name and one.name != two.name


def test_code_and_machine_count(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = build()
    names = {key_of(graph).name}
    with monkeypatch.context() as patch:
        patch.setattr(module, "code_digest", lambda: "other code")
        names.add(key_of(graph).name)
    cpu = target.host()
    for other in (
        replace(cpu, l2_bytes=cpu.l2_bytes + 1),
        replace(cpu, features=cpu.features - {"avx2"}),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, "host", lambda other=other: other)
            names.add(key_of(graph).name)
    assert len(names) == 4


@pytest.mark.parametrize(
    ("name", "value"), [("TFJIT_COMPARE", "1"), ("TFJIT_VERIFY", "1"), ("TFJIT_LOG", "passes")]
)
def test_runs_that_show_passes_or_kernels_are_excluded(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    found = key_of(build())
    assert found.name == "" and found.reason


def test_an_op_of_the_users_is_excluded() -> None:
    double = tfjit.register_op(
        "TwiceForKeys", inputs=["x: float"], outputs=["y: float"], expression="x + x"
    )
    try:
        graph = build()
        with graph.as_default():
            tfjit.identity(double(graph.get_tensor_by_name("out:0")), name="doubled")
        found = key_of(graph, fetches=("doubled:0",))
        assert found.name == "" and "TwiceForKeys" in found.reason
    finally:
        tfjit.unregister_op("TwiceForKeys")


def test_every_field_of_a_run_counts() -> None:
    """A field that is added to `RunSpec` has to be added to the key and to this test."""
    changes: dict[str, Any] = {
        "feeds": (),
        "fetches": ("product:0",),
        "targets": ("noise",),
        "feed_types": {},
        "connections": (("x:0", "noise:0"),),
        "cut": frozenset({"noise"}),
        "feed_values": {"x:0": np.ones((2, 3), np.float32)},
        "sampled": True,
        "ends": DeviceEnds((("x:0", "a device"),)),
    }
    with tfjit.Session(graph=build()) as session:
        session.run("w/Assign")
        host = session._runtime_session
        with host.settings():
            spec = host.plan(("x:0",), ("out:0",), ()).spec(((2, 3),))
            assert {field.name for field in fields(spec)} == set(changes)
            keys = [plan_key(host, replace(spec, **{k: v})) for k, v in changes.items()]
            keys.append(plan_key(host, replace(spec, feed_values={"x:0": np.zeros((2, 3))})))
            keys.append(plan_key(host, spec))
    assert len({key.name for key in keys}) == len(keys)
    assert not keys[list(changes).index("connections")].name  # such a run is never stored

"""Hash all that decides a plan variant.

A stored plan runs in place of passes, lowering and builders, so its key has to be exact. It covers
the needed nodes with attrs, edges, devices, shapes and the contents of constants; the functions;
the signature; the shapes of variables; config, settings, threads and the CPU; and the code.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import marshal
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import errors, settings
from tfjit.framework.code_digest import code_digest, content_digest
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import VARIABLE
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape
from tfjit.kernels.ir.backend import HOST
from tfjit.kernels.jit import target

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.passes.ir.run_spec import RunSpec
    from tfjit.passes.manager.pass_context import PassOptions
    from tfjit.runtime.resources.variables_and_resources import Variable
    from tfjit.runtime.stored_plans.keyed_session import KeyedSession

MAX_NODES: Final = 50_000
"""Largest number of nodes of a stored plan.

The key costs 5 us a node.
"""
_FORMAT: Final = 1
_OF_NO_PLAN: Final = frozenset(
    {
        "TFJIT_CACHE_DIR",
        "TFJIT_FULL_TRACEBACK",
        "TFJIT_LOG",
        "TFJIT_PLAN_MEMORY",
        "TFJIT_PRECOMPILED",
        "TFJIT_PROGRESS",
        "TFJIT_RECURSION",
        "TFJIT_SEED_RULE",
        "TFJIT_STORED_PLANS",
    }
)
"""Settings that change no plan."""
_EXCLUDING: Final = ("TFJIT_COMPARE", "TFJIT_VERIFY")
"""Settings with work that a stored plan would leave out."""
_EXCLUDING_TEXTS: Final = ("TFJIT_DUMP", "TFJIT_EVENT_LIMIT", "TFJIT_EVENT_LOG")
"""The same, of settings that are no flags."""
_BUILTIN_BACKEND: Final = "tfjit.kernels.cpu.backend"


@dataclass(frozen=True, slots=True)
class PlanKey:
    """Name a plan variant on disk.

    name: the hash; "" of a variant that is never stored, with the reason. threads: of the session
    that may divide a loop's batch. all_sizes: the hash of the run with any feed shapes.
    without_values: the hash without the present shapes of variables, which the run itself may set.
    variables: the session's Variables by node. constants: the arrays of constants by node.
    """

    name: str
    reason: str = ""
    threads: int = 1
    content: str = ""
    all_sizes: str = ""
    without_values: str = ""
    variables: Mapping[str, Variable] = field(default_factory=dict)
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def name_in_packs(self) -> str:
        """Return the hash in place of `name` in packs, or "".

        The hash covers the code's text and the kind of CPU, and neither threads nor caches.
        """
        if not self.name:
            return ""
        cpu = target.host()
        machine = (sys.platform, platform.machine(), cpu.isa, cpu.vector_bytes)
        return _hash([self.content, content_digest(), machine, cpu.vector_registers])


class _Excluded(Exception):
    """Signal that a plan is never stored. The text gives the reason."""


_PLAIN: Final = frozenset({bool, bytes, float, int, str})


def _plain(value: Any) -> object:
    """Return an attr's value as types that `marshal` writes by value."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is DType:
        return "type", value.as_datatype_enum
    if kind is tuple:
        return "list", [_plain(item) for item in value]
    if kind is TensorShape:
        return "shape", value.dims_tuple
    if kind is np.ndarray:
        return _array(value)
    if kind is FuncRef:
        return "func", value.name, _attrs(value.attrs)
    raise _Excluded(f"an attr is a {kind.__name__}")


def _array(value: np.ndarray) -> object:
    if value.dtype == object:
        items = value.ravel().tolist()
        if any(type(item) is not bytes for item in items):
            raise _Excluded("a constant holds objects")
        return "strings", value.shape, items
    content = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    if content.nbytes > 64:
        whole = memoryview(content)  # type: ignore[arg-type]
        return value.dtype.str, value.shape, hashlib.sha256(whole).digest()
    return value.dtype.str, value.shape, content.tobytes()


def _attrs(attrs: Mapping[str, object]) -> list[object]:
    # a message keeps them in no order
    return [
        (name, value if type(value) in _PLAIN else _plain(value))
        for name, value in sorted(attrs.items())
    ]


def _nodes(graph: DataflowGraph, names: Iterable[str]) -> list[object]:
    """Return the nodes as types that `marshal` writes by value."""
    found: list[object] = []
    before = graph._pred
    for name in names:
        node = graph.node(name)
        inputs = sorted(
            (source, data["src_output"], data["dst_input"])
            for source, keyed in before[name].items()
            for data in keyed.values()
        )
        found.append(
            (
                name,
                node.op,
                node.device,
                node.assigned_device,
                node.origin,
                node.output_shapes,
                _attrs(node.attrs),
                inputs,
            )
        )
    return found


def _functions(graph: DataflowGraph, nodes: Iterable[Node]) -> list[object]:
    """Return the function library, if a node may name a function."""
    library = graph._functions
    definitions = library.definitions if library is not None else {}
    if not definitions:
        return []
    used = any(
        node.op in definitions or any(_names_function(value) for value in node.attrs.values())
        for node in nodes
    )
    if not used or library is None:
        return []
    for message in definitions.values():
        for body in message.node_def:
            if body.op not in definitions:
                _check_op(body.op)
    return [
        [
            (name, message.SerializeToString(deterministic=True))
            for name, message in sorted(definitions.items())
        ],
        sorted(library.gradients.items()),
    ]


def _names_function(value: object) -> bool:
    return isinstance(value, FuncRef) or (
        type(value) is tuple and any(isinstance(item, FuncRef) for item in value)
    )


def _check_op(op: str) -> None:
    """Raise _Excluded for an op of the user's.

    The key does not see the op's code.
    """
    if not op.startswith("_") and not registry.family_name(op):
        raise _Excluded(f"{op} is an op of the user's")


def _variables(session: KeyedSession, nodes: Iterable[Node]) -> dict[str, Variable]:
    try:
        return {
            node.name: session.find_variable(node) for node in nodes if node.has_trait(VARIABLE)
        }
    except errors.OpError as error:  # the run reports it, with the node's name
        raise _Excluded(error.message) from None


def _shapes(variables: Mapping[str, Variable]) -> list[object]:
    """Return the declared and present shapes of variables by node."""
    return [
        (name, variable.shape, None if variable.value is None else variable.value.shape)
        for name, variable in variables.items()
    ]


def _constants(nodes: Iterable[Node]) -> dict[str, np.ndarray]:
    return {
        node.name: node.attrs["value"]
        for node in nodes
        if node.op == "Const" and type(node.attrs["value"]) is np.ndarray
    }


def _session(session: KeyedSession) -> list[object]:
    """Return the options of a session. Raises _Excluded."""
    for name in _EXCLUDING:
        if settings.flag(name):
            raise _Excluded(f"{name} is set")
    for name in _EXCLUDING_TEXTS:
        if settings.text(name):
            raise _Excluded(f"{name} is set")
    if settings.logs("passes"):
        raise _Excluded("the passes are logged")
    devices = session.devices.devices
    if len(devices) != 1 or type(devices[0].backend).__module__ != _BUILTIN_BACKEND:
        raise _Excluded("the session has other devices than the CPU")
    if session.observer is not None:
        raise _Excluded("the session observes its steps")
    options: PassOptions = session.pass_options()
    for name in ("kernel_creator", "client"):
        if getattr(options, name):
            raise _Excluded(f"the session has its own {name}")
    for name in ("location", "distributed_names", "verify", "dump_dir", "time_limit_s"):
        if getattr(options, name):
            raise _Excluded(f"its passes have the option {name}")
    if options.section != "graph" or not options.over_partitions:
        raise _Excluded("the session leaves passes out")
    if options.pipeline.unversioned:
        raise _Excluded(
            f"the pass {options.pipeline.unversioned[0]!r} of its pipeline has no version"
        )
    if options.event_limit is not None or options.history is not None:
        raise _Excluded("its rewrites are counted or recorded")
    config = session.config
    if config is not None and config.graph_options.place_pruned_graph:
        raise _Excluded("the session places a run's nodes at its first run")
    return [
        devices[0].name,
        config.SerializeToString(deterministic=True) if config is not None else b"",
        [
            (setting.name, settings.text(setting.name))
            for setting in settings.SETTINGS
            if setting.name not in _OF_NO_PLAN
        ],
        options.pipeline.identity(),
        session.jit,
        session.straight_line,
        session.stages,
    ]


@functools.cache
def _compiler() -> list[object]:
    """Identify the compiler, on which names of kernels depend."""
    found: list[object] = []
    for package in ("numba", "llvmlite"):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin:
            stat = os.stat(spec.origin)
            found.append((spec.origin, stat.st_size, stat.st_mtime_ns))
    return found


def _machine() -> list[object]:
    cpu = target.host()
    return [
        sys.platform,
        platform.machine(),
        sorted(cpu.features),
        (cpu.isa, cpu.vector_bytes, cpu.vector_registers),
        (cpu.l1_bytes, cpu.l2_bytes, cpu.l3_bytes),
        target.available_cpus(),
        np.__version__,
        _compiler(),
    ]


def plan_key(session: KeyedSession, spec: RunSpec) -> PlanKey:
    """Return the key of a run's plan.

    It has a reason and no name for a run with a plan that depends on more than the key can cover.
    """
    from tfjit.passes.ir.subgraph import needed_nodes

    try:
        if spec.connections:
            raise _Excluded("tensors are connected")
        with session.graph_lock:
            graph = session.graph
            if graph is None:
                raise _Excluded("there is no graph")
            needed, shields = needed_nodes(graph, spec)
            if len(needed) > MAX_NODES:
                raise _Excluded(f"{len(needed)} nodes")
            nodes = [graph.node(name) for name in (*needed, *shields)]
            nodes.sort(key=lambda node: node.id)
            for op in {node.op for node in nodes}:
                _check_op(op)
            variables = _variables(session, nodes)
            types = [
                (name, dtype.as_datatype_enum, shape)
                for name, (dtype, shape) in sorted((spec.feed_types or {}).items())
            ]
            content = [
                _FORMAT,
                HOST,
                _session(session),
                (spec.feeds, spec.fetches, spec.targets, sorted(spec.cut), sorted(shields)),
                (spec.ends.feeds, spec.ends.fetches),
                [(name, _array(value)) for name, value in sorted(spec.feed_values.items())],
                graph.versions,
                _nodes(graph, [node.name for node in nodes]),
                _functions(graph, nodes),
            ]
            values = _shapes(variables)
            constants = _constants(nodes)
    except _Excluded as why:
        return PlanKey("", str(why))
    run = _hash(content)
    shared = _hash([run, values])
    digest = _hash([shared, types, spec.sampled])
    place = _place(session)
    name = _hash([digest, *place])
    all_sizes = _hash([_hash([shared, [], True]), *place])
    rest = _hash([run, types, spec.sampled, *place])
    threads = session.split_threads
    return PlanKey(name, "", threads, digest, all_sizes, rest, variables, constants)


def body_key(session: KeyedSession, graph: DataflowGraph, digest: str) -> PlanKey:
    """Return the key of a loop body's plan for any sizes.

    graph, digest: of the body. The key has no name, since no variant of a body is stored, and a
    reason where the plan depends on more than the key can cover.
    """
    nodes = list(graph.op_nodes())
    try:
        for op in {node.op for node in nodes}:
            _check_op(op)
        variables = _variables(session, nodes)
        content = [_FORMAT, HOST, _session(session), digest, _shapes(variables)]
    except _Excluded as why:
        return PlanKey("", str(why))
    threads, all_sizes = session.split_threads, _hash([_hash(content), *_place(session)])
    return PlanKey("", "", threads, "", all_sizes, "", variables, _constants(nodes))


def _place(session: KeyedSession) -> list[object]:
    """Return the code, the machine and the threads of a session."""
    all_threads = session.step_environment(session.devices.default.name).threads
    return [code_digest(), _machine(), session.split_threads, all_threads]


def _hash(content: list[object]) -> str:
    # by value alone: later versions of the format mark objects that are the same
    return hashlib.sha256(marshal.dumps(content, 2)).hexdigest()[:48]


__all__ = ["MAX_NODES", "PlanKey", "body_key", "plan_key"]

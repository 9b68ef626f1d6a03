"""Inline function bodies in place of their calls.

Every later pass then sees the nodes of the bodies. Bodies that are left get unique names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.errors import InvalidArgumentError, OpError
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.op_traits import (
    CALL,
    CASE,
    CONTROL_FLOW,
    ENTER,
    IF,
    READS_STATE,
    RUNS_FUNCTIONS,
    VARIABLE,
)
from tfjit.framework.types.device_spec import merge_names
from tfjit.framework.types.tensors import truth
from tfjit.passes.ir.constant_value import constant_value
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph, Node
from tfjit.passes.ir.function_library import (
    SCALAR_PREDICATE,
    Function,
    FunctionLibrary,
    key_of,
)
from tfjit.passes.legalize.symbolic_gradient import gradient_function
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import reads_reference

# Calls that double at each level could fill the memory. Beyond this number they stay calls.
MAX_NODES: Final = 200_000

_MAY_GO: Final = frozenset(
    {
        "_Retval",
        "TensorArrayV3",
        "TensorArrayReadV3",
        "TensorArrayGatherV3",
        "TensorArrayConcatV3",
    }
)
"""Ops besides variable reads and handles that a body may lose."""

Stack = frozenset[tuple[Any, ...]]  # keys of the functions that a node comes from


def inline_functions(graph: DataflowGraph, ctx: PassContext) -> None:
    """Inline functions in place of their calls, and constant branches.

    A branch replaces an If or Case with a constant choice. The bodies that are left (of While, If,
    Case and calls that stay) are inlined into as well.

    Before: x -> call=PartitionedCall(f) -> y
    After: x -> call/Square -> call/Neg -> y
    Keeps: the order by a call's control inputs, effects and control outputs. Effects of the body
    wait for the control inputs of the call, and the control outputs of the call wait for those
    effects (by a NoOp of the call's name). In a graph with Switch nodes a body is dead when any of
    the call's inputs is.
    Needs: `prune`, so that no unneeded function is instantiated. The pass may run again when more
    choices have become constant.

    Nodes are named `call/node`. They get the call's `origin`, and the call's device if they have
    none. Bodies that are left are copies for this run, with nodes named `node/attr/name`. No two
    nodes of a plan share a name, so errors, random streams and other state of nodes are identified
    by name alone. Two kinds of call stay: a function inside of itself, and a `_noinline` function
    with effects, which then happen before any result is available.
    """
    if not graph.has_trait(RUNS_FUNCTIONS) and graph.op_types.isdisjoint(
        graph.functions.definitions
    ):
        return
    _Inliner(graph.functions, ctx).expand(graph, frozenset())


def _may_name_functions(node: Node) -> bool:
    return node.has_trait(RUNS_FUNCTIONS) or (
        node.op_def is not None and node.op in node._graph.functions.definitions
    )


def _may_go(node: Node) -> bool:
    """Return whether a body may lose a node that no result needs."""
    return node.op in _MAY_GO or node.has_trait(VARIABLE | READS_STATE)


class _Inliner:
    """One run of the pass over one plan's graph."""

    def __init__(self, library: FunctionLibrary, ctx: PassContext) -> None:
        self.library, self.ctx = library, ctx
        # functions that stay calls -> the body that serves them
        self.called: dict[tuple[Any, ...], FuncRef] = {}
        self.nodes = 0
        self.may_be_dead = False  # the current graph has Switch nodes

    def expand(self, graph: DataflowGraph, whole: Stack) -> None:
        """Inline into `graph` until no call is left to inline.

        The bodies that its nodes name come next. whole: the functions that the graph is a body of.
        """
        stacks: dict[str, Stack] = {}
        self.may_be_dead = graph.has_trait(CONTROL_FLOW)
        work = [node.name for node in graph.op_nodes() if _may_name_functions(node)]
        left: list[str] = []
        while work:
            yield_interpreter()
            name = work.pop()
            node = graph.node(name)
            stack = stacks.get(name, whole)
            chosen = self.choice(graph, node)
            if chosen is not None:
                attr, branch = chosen
                new = self.splice(graph, node, branch, graph.inputs(name)[1:], f"{name}/{attr}/")
                self.ctx.rewrote(name, f"{node.op} is always '{branch.name}'")
            else:
                ref = (
                    self.gradient(node)
                    if node.op == "SymbolicGradient"
                    else self.library.called(node)
                )
                if ref is None or self.stays(graph, node, ref, stack):
                    left.append(name)
                    continue
                new = self.splice(graph, node, ref, graph.inputs(name), f"{name}/")
                self.ctx.rewrote(name, f"'{ref.name}' inlined: {len(new)} nodes")
                stack |= {key_of(ref)}
            for made in new:
                self.may_be_dead = self.may_be_dead or graph.node(made).has_trait(CONTROL_FLOW)
                if _may_name_functions(graph.node(made)):
                    stacks[made] = stack
                    work.append(made)
        self.ctx.run(graph, "prune")
        for name in left:
            if name in graph:
                self.adopt(graph.node(name), stacks.get(name, whole))
        run = [
            edge.src
            for edge in graph.edges_into(SINK)
            if edge.src != SOURCE and not _may_go(graph.node(edge.src))
        ]
        graph.tie_ends()
        for name in run:  # Users of their results may be dropped now, and these nodes shall stay.
            graph.add_control_edge(name, SINK)

    def choice(self, graph: DataflowGraph, node: Node) -> tuple[str, FuncRef] | None:
        """Return (attr, branch) of an If or Case with a constant choice."""
        if not node.has_trait(IF | CASE):
            return None
        source = graph.inputs(node.name)[0]
        value = constant_value(graph, *source)
        if value is None:
            return None
        if node.has_trait(IF):
            if value.shape and node.attrs.get(SCALAR_PREDICATE):
                return None  # an error at run time
            attr = "then_branch" if truth(value) else "else_branch"
            return attr, node.attrs[attr]
        branches = node.attrs["branches"]
        if value.size != 1:
            return None  # an error at run time
        index = int(value.reshape(-1)[0])
        index = index if 0 <= index < len(branches) else len(branches) - 1
        return f"branches_{index}", branches[index]

    def stays(self, graph: DataflowGraph, node: Node, ref: FuncRef, stack: Stack) -> bool:
        """Return whether a node stays a call, and log the reason."""
        if node.op == "RemoteCall":
            self.ctx.log(node.name, "stays: its device is known when it runs")
            return True
        if key_of(ref) in stack:
            self.ctx.log(node.name, f"stays: '{ref.name}' calls itself")
            return True
        body = self.library.body(ref)
        if (body.attrs.get("_noinline") or node.attrs.get("_noinline")) and body.is_stateful:
            self.ctx.log(node.name, f"stays: '{ref.name}' has effects and is not to be inlined")
            return True
        if body.unique:
            return True  # has been left before
        if self.nodes + len(body.graph) > MAX_NODES:
            self.ctx.log(
                node.name, f"stays: {self.nodes} nodes have been inlined, the limit is {MAX_NODES}"
            )
            return True
        return False

    def gradient(self, node: Node) -> FuncRef:
        """Return the function that a SymbolicGradient node calls."""
        ref: FuncRef = node.attrs["f"]
        key = ("gradient", *key_of(ref))
        found = self.called.get(key)
        if found is None:
            body = self.library.body(ref)
            if ref.name not in self.library.gradients:
                # under separate names: the same plan may call the function itself
                name = self.library.new_name(f"{ref.name}_to_differentiate")
                prefix = name.lstrip("_")  # a prefix of no node's name
                body = self.copied(body, name, prefix, node, frozenset({key_of(ref)}))
            found = self.called[key] = gradient_function(self.library, ref, body)
        return found

    # ---- bodies that are left

    def adopt(self, node: Node, stack: Stack) -> None:
        """Give a node separate bodies, and inline into these.

        A call that stays gets a body that all calls of the function share.
        """
        ref = self.library.called(node)
        if ref is not None:
            self.adopt_call(node, ref)
            return
        for attr in sorted(node.attrs):
            value = node.attrs[attr]
            if isinstance(value, FuncRef):
                node.attrs[attr] = self.own(node, value, attr, stack)
            elif isinstance(value, tuple) and value and isinstance(value[0], FuncRef):
                node.attrs[attr] = tuple(
                    self.own(node, ref, f"{attr}_{i}", stack) for i, ref in enumerate(value)
                )

    def own(self, node: Node, ref: FuncRef, attr: str, stack: Stack) -> FuncRef:
        """Return a body for one attr of one node."""
        body = self.library.body(ref)
        if body.unique:
            return ref
        key = key_of(ref)
        if key in stack:
            return self.shared(node, ref)
        prefix = f"{node.name}/{attr}"
        return self.library.add(
            self.copied(body, self.library.new_name(prefix), prefix, node, stack | {key})
        )

    def shared(self, node: Node, ref: FuncRef) -> FuncRef:
        """Return the body of a recursive function or a staying call."""
        key = key_of(ref)
        made = self.called.get(key)
        if made is None:
            # first: the body may call itself
            made = self.called[key] = FuncRef(self.library.new_name(ref.name))
            self.library.add(
                self.copied(self.library.body(ref), made.name, ref.name, node, frozenset({key}))
            )
        return made

    def adopt_call(self, node: Node, ref: FuncRef) -> None:
        body = self.library.body(ref) if key_of(ref) not in self.called else None
        if body is not None and body.unique:
            return
        made = self.shared(node, ref)
        graph = node._graph
        if node.has_trait(CALL) or node.op == "RemoteCall":
            node.attrs["f"] = made
            return
        body = self.library.body(ref)
        kept = {name: value for name, value in node.attrs.items() if name.startswith("_")}
        op = "StatefulPartitionedCall" if node.is_stateful else "PartitionedCall"
        graph.change_op(
            node.name,
            op,
            graph.inputs(node.name),
            {"Tin": body.inputs, "Tout": body.outputs, "f": made, **kept},
        )

    def copied(self, body: Function, name: str, prefix: str, node: Node, stack: Stack) -> Function:
        """Return a copy of a body with everything inlined.

        Its nodes are named after `prefix` and get the origin of `node`.
        """
        graph = DataflowGraph()
        graph.functions = self.library
        graph.versions = body.graph.versions
        names = self.copy_nodes(body.graph, graph, f"{prefix}/", node, whole=True)
        self.connect(graph, body.graph, names, {})
        for old, new in names.items():
            if SINK in body.graph._succ[old]:
                graph.add_control_edge(new, SINK)
        outer, self.may_be_dead = self.may_be_dead, False
        self.expand(graph, stack)
        self.may_be_dead = outer
        for effect in body.must_run:  # the ends are tied again where a call was inlined
            if names[effect] in graph:
                graph.add_control_edge(names[effect], SINK)
        # effects of inlined functions are tied to the sink: they are the body's effects
        run = [
            edge.src
            for edge in graph.edges_into(SINK)
            if edge.src != SOURCE and graph.node(edge.src).op != "_Retval"
        ]
        return replace(
            body,
            name=name,
            graph=graph,
            must_run=tuple(run),
            unique=True,
            copy_of=body.copy_of or body.name,
        )

    # ---- splicing

    def copy_nodes(
        self, body: DataflowGraph, graph: DataflowGraph, prefix: str, node: Node, *, whole: bool
    ) -> dict[str, str]:
        """Copy a body's nodes without edges; return old name -> new one.

        whole: with arguments and results.
        """
        names: dict[str, str] = {}
        for old in sorted(body.op_nodes(), key=lambda node: node.id):
            yield_interpreter()
            if whole or old.op not in ("_Arg", "_Retval"):
                names[old.name] = _free(graph, prefix + old.name)
        self.nodes += len(names)
        for name, new in names.items():
            old = body.node(name)
            attrs = dict(old.attrs)
            if "_class" in attrs:
                attrs["_class"] = tuple(_renamed(group, names) for group in attrs["_class"])
            if old.has_trait(ENTER):
                attrs["frame_name"] = prefix.encode() + attrs["frame_name"]
            # a user of a variable goes to the device of the variable
            reads_variable = any(
                dtype.is_ref or dtype.name == "resource" for dtype in old.input_dtypes
            )
            device = (
                merge_names(old.device, node.device)
                if old.device
                else ""
                if reads_variable
                else node.device
            )
            graph._insert(
                Node(
                    graph,
                    new,
                    graph._new_node_id(),
                    old.op,
                    attrs,
                    old.op_def,
                    old.input_dtypes,
                    old.output_dtypes,
                    device,
                    "",
                    node.origin,
                    old.output_shapes,
                )
            )
        return names

    def splice(
        self,
        graph: DataflowGraph,
        call: Node,
        ref: FuncRef,
        inputs: list[tuple[str, int]],
        prefix: str,
    ) -> list[str]:
        """Replace a node by a function body; return the new names."""
        body = self.library.body(ref)
        if len(inputs) != len(body.inputs) or len(call.output_dtypes) != len(body.outputs):
            raise _misfit(
                call, body, f"{len(inputs)} arguments and {len(call.output_dtypes)} results"
            )
        if body.unique:
            prefix = ""
        waits = graph.control_inputs(call.name)
        inner = body.graph
        sources = self.sources(graph, call, inputs, body, prefix or f"{call.name}/")
        names = self.copy_nodes(inner, graph, prefix, call, whole=False)
        argument = {node.name: sources[index] for index, node in body.args.items()}
        self.connect(graph, inner, names, argument)

        gate = ""
        effects = [names[name] for name in body.must_run]
        consumers, targeted = graph.control_consumers(call.name), SINK in graph._succ[call.name]
        asked = bool(consumers) or targeted
        held = [name for name in names.values() if self.is_held(graph, name, bool(waits))]
        if waits:  # an awaited node may write a value that an argument shows
            shown = {src for src, _ in sources if reads_reference(graph, src)}
            held += [
                name
                for name in names.values()
                if name not in held and any(src in shown for src, _ in graph.inputs(name))
            ]
        starts = [*waits, *(src for src, _ in sources)] if self.may_be_dead else waits
        if starts and (held or asked or waits):
            gate = _free(graph, f"{call.name}/_begin")
            graph.add_node_op(
                gate, "NoOp", control_inputs=starts, device=call.device, origin=call.origin
            )
            for name in held:
                graph.add_control_edge(gate, name)
            if waits:
                graph.add_control_edge(gate, SINK)
        for name in effects:
            graph.add_control_edge(name, SINK)

        for result, (src, output) in enumerate(body.returned):
            source = argument[src] if src in argument else (names[src], output)
            given = graph.node(source[0]).output_dtypes[source[1]]
            if given.base_dtype is not call.output_dtypes[result].base_dtype:
                raise _misfit(call, body, f"{call.output_dtypes[result].name} as result {result}")
            graph.redirect_output(call.name, result, *source)
        graph.remove_op(call.name)
        if asked:
            before = [*effects, *([gate] if gate else [])]
            graph.add_node_op(
                call.name, "NoOp", control_inputs=before, device=call.device, origin=call.origin
            )
            for name in consumers:
                graph.add_control_edge(call.name, name)
            if targeted:
                graph.add_control_edge(call.name, SINK)
        return list(names.values())

    def is_held(self, graph: DataflowGraph, name: str, waits: bool) -> bool:
        """Return whether a new node waits for the gate.

        Effects wait for order. Nodes without inputs wait so that they are dead when the call is.
        """
        node = graph.node(name)
        if waits and node.is_stateful:
            return True
        return self.may_be_dead and not graph.edges_into(name)

    def sources(
        self,
        graph: DataflowGraph,
        call: Node,
        inputs: list[tuple[str, int]],
        body: Function,
        prefix: str,
    ) -> list[tuple[str, int]]:
        """Return the sources of the arguments.

        A reference is read where the call would read the value. A Switch's output gets an Identity,
        which is dead when the output is: a control edge from the Switch would not be.
        """
        found: list[tuple[str, int]] = []
        for index, (src, output) in enumerate(inputs):
            given, wanted = graph.node(src).output_dtypes[output], body.inputs[index]
            if given.base_dtype is not wanted.base_dtype:
                raise _misfit(call, body, f"{given.name} as argument {index}")
            if (given.is_ref and not wanted.is_ref) or (
                self.may_be_dead and graph.node(src).op in ("Switch", "RefSwitch")
            ):
                op = "RefIdentity" if given.is_ref and wanted.is_ref else "Identity"
                name = _free(graph, f"{prefix}_arg_{index}")
                graph.add_node_op(
                    name,
                    op,
                    [(src, output)],
                    control_inputs=graph.control_inputs(call.name),
                    device=call.device,
                    origin=call.origin,
                    output_shapes=(graph.node(src).output_shapes[output],),
                )
                found.append((name, 0))
            else:
                found.append((src, output))
        return found

    def connect(
        self,
        graph: DataflowGraph,
        inner: DataflowGraph,
        names: Mapping[str, str],
        argument: Mapping[str, tuple[str, int]],
    ) -> None:
        for old, new in names.items():
            yield_interpreter()
            for edge in inner.edges_into(old):
                if edge.src == SOURCE:
                    continue
                if edge.is_control:
                    graph.add_control_edge(
                        argument[edge.src][0] if edge.src in argument else names[edge.src], new
                    )
                elif edge.src in argument:
                    graph._connect(*argument[edge.src], new, edge.dst_input)
                else:
                    graph._connect(names[edge.src], edge.src_output, new, edge.dst_input)


def _free(graph: DataflowGraph, name: str) -> str:
    return graph.new_name(name) if name in graph else name


def _renamed(group: bytes, names: Mapping[str, str]) -> bytes:
    if not group.startswith(b"loc:@"):
        return group
    other = group[5:].decode()
    return b"loc:@" + names.get(other, other).encode()


def _misfit(call: Node, body: Function, found: str) -> OpError:
    wanted = (
        ", ".join(dtype.name for dtype in body.inputs),
        ", ".join(dtype.name for dtype in body.outputs),
    )
    return InvalidArgumentError(
        None,
        None,
        f"{{{{node {call.name}}}}} ({call.op}) gives function '{body.name}' {found}, but its "
        f"signature is ({wanted[0]}) -> ({wanted[1]})",
    )

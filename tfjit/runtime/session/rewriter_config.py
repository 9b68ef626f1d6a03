"""OptimizerOptions and RewriterConfig as choices of passes.

TensorFlow's optimizers by name, and users' own passes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework import errors
from tfjit.runtime.host import fork_safety

if TYPE_CHECKING:
    from tfjit.passes.manager.pass_context import Pass

_OFF: Final = 2
_ON: Final = frozenset({1, 3})  # ON, AGGRESSIVE
_ONE_ITERATION: Final = 1

# TensorFlow's names of its optimizers; a pass of the same purpose has the name as its group
OPTIMIZERS: Final = frozenset(
    {
        "arithmetic",
        "auto_mixed_precision",
        "auto_mixed_precision_cpu",
        "auto_mixed_precision_mkl",
        "auto_mixed_precision_onednn_bfloat16",
        "autoparallel",
        "common_subgraph_elimination",
        "constfold",
        "debug_stripper",
        "dependency",
        "function",
        "implementation_selector",
        "layout",
        "loop",
        "memory",
        "pin_to_host",
        "pruning",
        "remap",
        "scoped_allocator",
        "shape",
    }
)
# RewriterConfig's toggle -> the optimizer that it controls
TOGGLES: Final[Mapping[str, str]] = {
    "arithmetic_optimization": "arithmetic",
    "common_subgraph_elimination": "common_subgraph_elimination",
    "constant_folding": "constfold",
    "dependency_optimization": "dependency",
    "function_optimization": "function",
    "loop_optimization": "loop",
    "remapping": "remap",
}
# Groups of passes that disable_meta_optimizer leaves out.
META_GROUPS: Final = ("arithmetic", "remap", "dependency")

# parameters (name -> Python value) -> the pass
PassMaker = Callable[[Mapping[str, Any]], "Pass"]
_LOCK = threading.Lock()
fork_safety.hold(_LOCK, fork_safety.EXTENSION)
_CUSTOM: dict[str, PassMaker] = {}


def register_graph_optimizer(name: str, make: PassMaker) -> None:
    """Make a graph pass available to configs, as `graph_options.rewrite_options.custom_optimizers`.

    make: called with the parameters of the config (name -> bytes, number, list...) for each
    session; returns a pass `(graph: DataflowGraph, ctx: PassContext) -> None` that rewrites the
    graph in place. It runs after tfjit's own graph passes. A pass that fails is left out with a
    warning, as in TensorFlow, unless `fail_on_optimizer_errors` is set.
    Raises AlreadyExistsError for a name that is taken.
    """
    with _LOCK:
        if name in OPTIMIZERS or name in _CUSTOM:
            raise errors.AlreadyExistsError(
                None, None, f"an optimizer {name!r} is registered already"
            )
        _CUSTOM[name] = make


def known_optimizers() -> list[str]:
    """Return every name that `optimizers` and `custom_optimizers` may hold."""
    with _LOCK:
        return sorted([*OPTIMIZERS, *_CUSTOM])


def check_names(rewriter: Any) -> None:
    """Check the optimizers' names.

    Raises InvalidArgumentError for an unknown optimizer, with the names of the known ones.
    """
    named = [("optimizers", name) for name in rewriter.optimizers]
    named += [("custom_optimizers", entry.name) for entry in rewriter.custom_optimizers]
    for field, name in named:
        if name not in OPTIMIZERS and name not in _CUSTOM:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"graph_options.rewrite_options.{field} names {name!r}, which is no optimizer. "
                f"Known ones: {', '.join(known_optimizers())}. tfjit.register_graph_optimizer adds "
                "others.",
            )


def disabled_passes(graph_options: Any, optional: frozenset[str]) -> frozenset[str]:
    """Return the optional passes that these GraphOptions leave out.

    optional: the names of all of them.
    """
    from tfjit.passes.manager.pass_registry import passes_of_group

    optimizer, rewriter = graph_options.optimizer_options, graph_options.rewrite_options
    disabled: set[str] = set()
    if optimizer.opt_level < 0:  # L0 leaves out all passes but those asked for by name
        kept = set()
        if optimizer.do_common_subexpression_elimination:
            kept.add("eliminate_common_subexpressions")
        if optimizer.do_constant_folding:
            kept.add("fold_constants")
        disabled |= optional - kept
    for toggle, name in TOGGLES.items():
        if getattr(rewriter, toggle) == _OFF:
            disabled.update(passes_of_group(name))
    if rewriter.optimizers:
        wanted: set[str] = set()
        for name in rewriter.optimizers:
            wanted.update(passes_of_group(name))
        replaced = {pass_ for group in OPTIMIZERS for pass_ in passes_of_group(group)}
        disabled |= replaced - wanted
        disabled -= wanted - _disabled_by(rewriter)
    if rewriter.disable_meta_optimizer:
        for name in META_GROUPS:
            disabled.update(passes_of_group(name))
    return frozenset(disabled)


def _disabled_by(rewriter: Any) -> set[str]:
    from tfjit.passes.manager.pass_registry import passes_of_group

    off = [name for toggle, name in TOGGLES.items() if getattr(rewriter, toggle) == _OFF]
    return {pass_ for name in off for pass_ in passes_of_group(name)}


def custom_passes(rewriter: Any) -> tuple[tuple[str, Pass], ...]:
    """Return (name, pass) of the custom optimizers, in their order.

    The RewriterConfig names them.
    """
    from tfjit.framework.op_defs.attrs import from_proto

    made: list[tuple[str, Pass]] = []
    if rewriter.disable_meta_optimizer:
        return ()
    for entry in rewriter.custom_optimizers:
        if entry.name in OPTIMIZERS:
            continue  # TensorFlow takes its own optimizers here too; they run by their toggles
        made.append(
            (
                entry.name,
                _CUSTOM[entry.name](
                    {key: from_proto(value) for key, value in entry.parameter_map.items()}
                ),
            )
        )
    given = {name for name, _ in made}
    made += [
        (name, _CUSTOM[name]({}))
        for name in rewriter.optimizers
        if name in _CUSTOM and name not in given
    ]
    return tuple(made)


def strips_debug(rewriter: Any) -> bool:
    """Return whether Assert, CheckNumerics and Print are removed.

    debug_stripper removes them, and only runs where it is asked for.
    """
    if rewriter.disable_meta_optimizer:
        return False
    return (
        "debug_stripper" in rewriter.optimizers
        if rewriter.optimizers
        else rewriter.debug_stripper in _ON
    )


def runs_once(rewriter: Any) -> bool:
    """Return whether each optional pass runs once only (meta_optimizer_iterations ONE)."""
    return bool(rewriter.meta_optimizer_iterations == _ONE_ITERATION)


def verifies(rewriter: Any) -> bool | None:
    """Return whether the graph is checked after each pass.

    None leaves it to TFJIT_VERIFY.
    """
    toggles = (
        rewriter.inter_optimizer_verifier_config.structure_verifier,
        rewriter.post_optimization_verifier_config.structure_verifier,
    )
    return True if 1 in toggles else False if _OFF in toggles else None

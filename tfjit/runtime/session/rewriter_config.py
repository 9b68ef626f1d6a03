"""OptimizerOptions and RewriterConfig as choices of passes.

TensorFlow's optimizers by name, and users' own passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework import errors
from tfjit.passes.manager import user_passes
from tfjit.passes.manager.user_passes import PassMaker
from tfjit.runtime.host import fork_safety

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message
    from tfjit.passes.manager.pipeline_spec import Pipeline
    from tfjit.passes.manager.steps import Step

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

PIPELINE: Final = "pipeline"
"""The custom optimizer whose parameter "text" is a pipeline's text."""

fork_safety.hold(user_passes.LOCK, fork_safety.EXTENSION)


def register_graph_optimizer(name: str, make: PassMaker) -> None:
    """Make a graph pass available to configs, as `graph_options.rewrite_options.custom_optimizers`.

    make: called with the parameters of the config (name -> bytes, number, list...) for each
    session; returns a pass `(graph: DataflowGraph, ctx: PassContext) -> None` that rewrites the
    graph in place. It runs after tfjit's own graph passes. A pass that fails is left out with a
    warning, as in TensorFlow, unless `fail_on_optimizer_errors` is set.
    A text of a pipeline may name it, too. Raises AlreadyExistsError for a name that is taken.
    """
    if name in OPTIMIZERS or name == PIPELINE:
        raise errors.AlreadyExistsError(None, None, f"an optimizer {name!r} is registered already")
    user_passes.register_maker(name, make)


def known_optimizers() -> list[str]:
    """Return every name that `optimizers` and `custom_optimizers` may hold."""
    return sorted([*OPTIMIZERS, PIPELINE, *user_passes.registered_names(), *_pipelines()])


def _pipelines() -> Mapping[str, Pipeline]:
    """Return the pipelines that a config may name; TensorFlow's names win."""
    from tfjit.passes.manager.pipeline_spec import registered_pipelines

    known = registered_pipelines()
    return {name: known[name] for name in known if name not in OPTIMIZERS}


def check_names(rewriter: Any) -> None:
    """Check the optimizers' names, and the text of a pipeline.

    Raises InvalidArgumentError for an unknown optimizer, with the names of the known ones.
    """
    named = [("optimizers", name) for name in rewriter.optimizers]
    named += [("custom_optimizers", entry.name) for entry in rewriter.custom_optimizers]
    known = set(known_optimizers()) if named else set()
    for field, name in named:
        if name not in known:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"graph_options.rewrite_options.{field} names {name!r}, which is no optimizer. "
                f"Known ones: {', '.join(known_optimizers())}. tfjit.register_graph_optimizer adds "
                "others.",
            )
    _named_pipeline(rewriter)


def pipeline_of(graph_options: Message, own: Pipeline | None = None) -> Pipeline:
    """Return the pipeline that these GraphOptions choose.

    own: the session's, in place of one that the options name. Toggles leave passes out of either,
    and custom optimizers are added.
    """
    pipeline = own if own is not None else _named_pipeline(graph_options.rewrite_options)
    pipeline = pipeline.without(*_disabled_passes(graph_options))
    custom = _custom_passes(graph_options.rewrite_options)
    return (
        pipeline.with_section("graph", (*pipeline.section("graph"), *custom))
        if custom
        else pipeline
    )


def _named_pipeline(rewriter: Message) -> Pipeline:
    """Return the pipeline that a RewriterConfig chooses."""
    from tfjit.passes.manager.pipeline_spec import Pipeline
    from tfjit.passes.manager.pipeline_text import parse

    known = _pipelines()
    named = [name for name in rewriter.optimizers if name in known]
    texts = []
    for entry in rewriter.custom_optimizers:
        if entry.name == PIPELINE:
            if list(entry.parameter_map) != ["text"]:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    "graph_options.rewrite_options.custom_optimizers 'pipeline': expected one "
                    "parameter 'text', as in 'default without cse'",
                )
            texts.append(entry.parameter_map["text"].s.decode(errors="replace"))
        elif entry.name in known:
            named.append(entry.name)
    if len(named) + len(texts) > 1:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"graph_options.rewrite_options has several pipelines: {', '.join([*named, *texts])}",
        )
    # a config may come from another process, which is not to choose modules to import
    return (
        parse(texts[0], imports=False)
        if texts
        else known[named[0]]
        if named
        else Pipeline.default()
    )


def _disabled_passes(graph_options: Message) -> frozenset[str]:
    """Return the optional passes that these GraphOptions leave out."""
    from tfjit.passes.manager.pass_registry import OPTIMIZATIONS, passes_of_group

    optimizer, rewriter = graph_options.optimizer_options, graph_options.rewrite_options
    disabled: set[str] = set()
    if optimizer.opt_level < 0:  # L0 leaves out all passes but those asked for by name
        kept = set()
        if optimizer.do_common_subexpression_elimination:
            kept.add("eliminate_common_subexpressions")
        if optimizer.do_constant_folding:
            kept.add("fold_constants")
        disabled |= OPTIMIZATIONS - kept
    for toggle, name in TOGGLES.items():
        if getattr(rewriter, toggle) == _OFF:
            disabled.update(passes_of_group(name))
    pipelines = _pipelines()
    optimizers = [name for name in rewriter.optimizers if name not in pipelines]
    if optimizers:
        wanted: set[str] = set()
        for name in optimizers:
            wanted.update(passes_of_group(name))
        replaced = {pass_ for group in OPTIMIZERS for pass_ in passes_of_group(group)}
        disabled |= replaced - wanted
        disabled -= wanted - _disabled_by(rewriter)
    if rewriter.disable_meta_optimizer:
        for name in META_GROUPS:
            disabled.update(passes_of_group(name))
    return frozenset(disabled)


def _disabled_by(rewriter: Message) -> set[str]:
    from tfjit.passes.manager.pass_registry import passes_of_group

    off = [name for toggle, name in TOGGLES.items() if getattr(rewriter, toggle) == _OFF]
    return {pass_ for name in off for pass_ in passes_of_group(name)}


def _custom_passes(rewriter: Message) -> list[Step]:
    """Return the custom optimizers of a RewriterConfig, in their order."""
    from tfjit.framework.op_defs.attrs import from_proto
    from tfjit.passes.manager.steps import Step

    if rewriter.disable_meta_optimizer:
        return []
    # TensorFlow takes its own optimizers here too; they run by their toggles
    others = {*OPTIMIZERS, PIPELINE, *_pipelines()}
    parameters: dict[str, user_passes.Parameters] = {}
    for entry in rewriter.custom_optimizers:
        if entry.name not in others:
            given = {key: from_proto(value) for key, value in entry.parameter_map.items()}
            parameters[entry.name] = given
    for name in rewriter.optimizers:
        if name not in others:
            parameters.setdefault(name, {})
    return [
        Step(name, user=user_passes.make_registered(name, given))
        for name, given in parameters.items()
    ]


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

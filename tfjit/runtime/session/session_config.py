"""Settings of one session, from its ConfigProto and the environment."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework import errors, settings
from tfjit.framework.types import device_spec
from tfjit.runtime.host.thread_counts import SINGLE_THREADED, cores
from tfjit.runtime.session import rewriter_config
from tfjit.runtime.stored_plans.keyed_session import JitMode

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import Node
    from tfjit.passes.manager.pass_context import HasKernel, PassOptions
    from tfjit.passes.manager.pipeline_spec import Pipeline
    from tfjit.runtime.host.device import DeviceManager


EXECUTORS: Final = ("DEFAULT", "", SINGLE_THREADED)


log: Final = logging.getLogger("tfjit.session")


def check_device_filters(config: Any) -> None:
    """Check the device filters.

    Raises InvalidArgumentError for a filter that is no device name. Local devices are never hidden
    by any filter.
    """
    for text in config.device_filters:
        try:
            device_spec.parse(text)
        except ValueError:
            raise errors.InvalidArgumentError(
                None, None, f"Invalid device filter: {text}"
            ) from None


def check_executor(config: Any) -> None:
    """Check the config's executor type.

    Raises NotFoundError for an unknown one, as TensorFlow does at the first run.
    """
    chosen = config.experimental.executor_type if config is not None else ""
    if chosen not in EXECUTORS:
        raise errors.NotFoundError(
            None,
            None,
            f"No executor factory registered for the given executor type: {chosen} Registered "
            f"factories are {{{', '.join(EXECUTORS)}}}.",
        )


def jit_mode(config: Any) -> JitMode:
    """Return when plans are compiled.

    Never, behind the first runs, or before the first result (also with run_graph_mode). TFJIT_JIT
    wins over global_jit_level, and that over run_graph_mode. TFJIT_COMPARE without TFJIT_JIT
    compiles first: a short program would end before there is anything to compare.
    """
    if settings.is_set("TFJIT_JIT"):
        mode: JitMode = settings.text("TFJIT_JIT")  # type: ignore[assignment]
        if mode == "off" and compares():
            log.warning("TFJIT_COMPARE: nothing is compiled with TFJIT_JIT=off, nor compared")
        return mode
    if compares():
        return "eager"
    level = config.graph_options.optimizer_options.global_jit_level if config is not None else 0
    if level == 0 and config is not None and config.run_graph_mode:
        return "eager"
    return "off" if level < 0 else "eager" if level > 0 else "lazy"


def intra_op_threads(config: Any) -> int:
    """Return the number of threads that share one kernel's work."""
    forced = settings.integer("TFJIT_THREADS")
    if forced:
        return forced
    asked = config.intra_op_parallelism_threads if config is not None else 0
    return asked if asked > 0 else cores()


def straight_line() -> bool:
    """Return whether static partitions run as straight-line steps.

    TFJIT_DISABLE=straight_line leaves all to the dataflow executor.
    """
    return "straight_line" not in settings.names("TFJIT_DISABLE")


def stages() -> bool:
    """Return whether runs are cut into stages at waiting nodes.

    TFJIT_DISABLE=stages leaves them to the dataflow executor.
    """
    return "stages" not in settings.names("TFJIT_DISABLE")


def bundles() -> bool:
    """Return whether independent launches run at the same time.

    TFJIT_DISABLE=bundle runs them one after the other.
    """
    return "bundle" not in settings.names("TFJIT_DISABLE")


def compares() -> bool:
    """Return whether each compiled call runs beside its reference."""
    return settings.flag("TFJIT_COMPARE")


def splits_rows() -> bool:
    """Return whether loops are divided between threads by rows.

    TFJIT_DISABLE=split_rows has each launch divided by itself.
    """
    return "split_rows" not in settings.names("TFJIT_DISABLE")


def strict_placement() -> bool:
    """Return whether an unplaceable node fails every run.

    TensorFlow does so.
    """
    return settings.flag("TFJIT_STRICT_PLACEMENT")


def make_pass_options(
    config: Any,
    devices: DeviceManager,
    has_kernel: HasKernel,
    kernel_creator: Callable[[Node], Any] | None = None,
    pipeline: Pipeline | None = None,
) -> PassOptions:
    """Return the options of the passes of a session on these devices.

    pipeline: the session's own, or None for the config's.
    """
    from tfjit.passes.manager.pass_context import DeviceInfo

    infos = tuple(
        DeviceInfo(d.name, d.device_type, 1, d.backend.priority, d.backend.accelerates)
        for d in devices.devices
    )
    options = pass_options_of(config, pipeline)
    return replace(
        options,
        devices=infos,
        has_kernel=has_kernel,
        backend_of=lambda device: devices.lookup(device).backend,
        kernel_creator=kernel_creator,
    )


def pass_options_of(config: Any, pipeline: Pipeline | None = None) -> PassOptions:
    """Return the options of passes that follow from a ConfigProto or None.

    pipeline: the session's own, in place of one that the config names.
    """
    from tfjit.passes.manager.pass_context import DEFAULT_MAX_FOLDED_BYTES, PassOptions
    from tfjit.passes.manager.pipeline_spec import Pipeline

    if config is None:
        return PassOptions(pipeline=pipeline or Pipeline.default())
    optimizer = config.graph_options.optimizer_options
    rewriter = config.graph_options.rewrite_options
    return PassOptions(
        soft_placement=config.allow_soft_placement,
        log_device_placement=config.log_device_placement,
        max_folded_bytes=optimizer.max_folded_constant_in_bytes or DEFAULT_MAX_FOLDED_BYTES,
        strip_debug=rewriter_config.strips_debug(rewriter),
        once=rewriter_config.runs_once(rewriter),
        min_nodes=rewriter.min_graph_nodes,
        time_limit_s=rewriter.meta_optimizer_timeout_ms / 1000,
        pipeline=rewriter_config.pipeline_of(config.graph_options, pipeline),
        fail_on_errors=rewriter.fail_on_optimizer_errors,
        verify=rewriter_config.verifies(rewriter),
    )

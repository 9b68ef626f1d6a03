"""Lower the partition of a run that is static."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit.framework import settings
from tfjit.runtime.lowering.lowered import Lowered
from tfjit.runtime.lowering.lowering import NotStatic

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.pipeline import Partition, PipelineReport
    from tfjit.runtime.plan.plan import Plan

log = logging.getLogger("tfjit.plan")


def lower_static(
    plan: Plan,
    feed_shapes: Sequence[Shape],
    partitions: Sequence[Partition],
    report: PipelineReport,
) -> tuple[Lowered | None, str]:
    """Return the instructions of a run's only partition, and "".

    None and a reason where the dataflow executor has to run the partitions. The instructions are
    verified and dumped if the settings ask for it.
    """
    lowered, reason = _lower(plan, feed_shapes, partitions)
    if lowered is not None:
        if settings.flag("TFJIT_VERIFY"):
            from tfjit.runtime.lowering.verifier import verify_lowered

            verify_lowered(lowered)
        if report.folder is not None:
            from tfjit.runtime.step.dumps import dump_lowered

            dump_lowered(report.folder, lowered)
        return lowered, ""
    config = plan.session.config
    settings.say("executor", "plan %s: run by the dataflow executor: %s", plan.name, reason)
    if config is not None and config.run_graph_mode:
        log.warning(
            "run_graph_mode: the dataflow executor runs plan %s: %s",
            plan.name,
            reason,
        )
    return None, reason


def _lower(
    plan: Plan, feed_shapes: Sequence[Shape], partitions: Sequence[Partition]
) -> tuple[Lowered | None, str]:
    session = plan.session
    if not session.straight_line:
        return None, "the straight-line step is turned off"
    if len(partitions) > 1:
        return None, f"{len(partitions)} partitions"
    backend = session.devices.lookup(partitions[0].device).backend
    if not backend.lowers:
        return None, f"the {backend.name} backend runs node by node"
    try:
        return plan.lower(partitions[0], feed_shapes), ""
    except NotStatic as why:
        return None, str(why)


__all__ = ["lower_static"]

"""Ops that may wait for other steps have blocking kernels."""

from __future__ import annotations

from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import BLOCKING
from tfjit.runtime.kernel_api.op_kernel import has_runtime_kernel, is_blocking

# Their kernels use threads of their own, but wait for nothing that a step does.
ON_FILES = {
    "CloseSummaryWriter",
    "CreateSummaryFileWriter",
    "FlushSummaryWriter",
    "GenerateVocabRemapping",
    "ImmutableConst",
    "InitializeTableFromTextFile",
    "InitializeTableFromTextFileV2",
    "LoadAndRemapMatrix",
    "MatchingFiles",
    "MergeV2Checkpoints",
    "ReadFile",
    "Restore",
    "RestoreSlice",
    "RestoreV2",
    "Save",
    "SaveSlices",
    "SaveV2",
    "WriteAudioSummary",
    "WriteFile",
    "WriteGraphSummary",
    "WriteHistogramSummary",
    "WriteImageSummary",
    "WriteRawProtoSummary",
    "WriteScalarSummary",
    "WriteSummary",
}
CLOSES = {"QueueClose", "QueueCloseV2"}


def test_ops_that_may_wait_are_those_with_blocking_kernels() -> None:
    kernels = {op for op in registry if has_runtime_kernel(op) and is_blocking(op)}
    waits = {op for op in registry if registry.has_trait(op, BLOCKING)}
    assert kernels - waits == ON_FILES | CLOSES
    assert waits - kernels == set()

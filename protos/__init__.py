"""The wire format: message classes of package `tfjit`, with the field numbers of TensorFlow's.

A class is imported with its module on first use: `from tfjit.protos import GraphDef` loads what
GraphDef needs and no more. The `*_pb2` modules are generated from the `.proto` files by `make
protos`.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfjit.protos.attr_value_pb2 import AttrValue, NameAttrList
    from tfjit.protos.checkpoint_state_pb2 import CheckpointState
    from tfjit.protos.cluster_pb2 import ClusterDef, JobDef
    from tfjit.protos.config_pb2 import (
        BatchingOptions,
        CallableOptions,
        ConfigProto,
        GPUOptions,
        GraphOptions,
        OptimizerOptions,
        RunMetadata,
        RunOptions,
        SessionMetadata,
        TensorConnection,
        ThreadPoolOptionProto,
    )
    from tfjit.protos.control_flow_pb2 import (
        CondContextDef,
        ControlFlowContextDef,
        ValuesDef,
        WhileContextDef,
    )
    from tfjit.protos.coordination_config_pb2 import CoordinatedJob, CoordinationServiceConfig
    from tfjit.protos.cost_graph_pb2 import CostGraphDef
    from tfjit.protos.debug_pb2 import (
        DebuggedSourceFile,
        DebuggedSourceFiles,
        DebugOptions,
        DebugTensorWatch,
    )
    from tfjit.protos.device_attributes_pb2 import (
        DeviceAttributes,
        DeviceLocality,
        InterconnectLink,
        LocalLinks,
    )
    from tfjit.protos.error_codes_pb2 import Code
    from tfjit.protos.event_pb2 import (
        Event,
        LogMessage,
        SessionLog,
        SourceMetadata,
        TaggedRunMetadata,
    )
    from tfjit.protos.example_pb2 import (
        BytesList,
        Example,
        Feature,
        FeatureList,
        FeatureLists,
        Features,
        FloatList,
        Int64List,
        SequenceExample,
    )
    from tfjit.protos.full_type_pb2 import FullTypeDef, FullTypeId
    from tfjit.protos.function_pb2 import (
        FunctionDef,
        FunctionDefLibrary,
        GradientDef,
        RegisteredGradient,
    )
    from tfjit.protos.graph_debug_info_pb2 import GraphDebugInfo
    from tfjit.protos.graph_pb2 import GraphDef
    from tfjit.protos.meta_graph_pb2 import (
        AssetFileDef,
        CollectionDef,
        MetaGraphDef,
        SignatureDef,
        TensorInfo,
    )
    from tfjit.protos.node_def_pb2 import NodeDef
    from tfjit.protos.op_def_pb2 import OpDef, OpDeprecation, OpList
    from tfjit.protos.queue_runner_pb2 import QueueRunnerDef
    from tfjit.protos.rewriter_config_pb2 import (
        AutoParallelOptions,
        RewriterConfig,
        ScopedAllocatorOptions,
        VerifierConfig,
    )
    from tfjit.protos.rpc_options_pb2 import RPCOptions
    from tfjit.protos.saved_model_pb2 import SavedModel
    from tfjit.protos.saved_object_graph_pb2 import (
        CapturedTensor,
        FunctionSpec,
        RegisteredSaver,
        SaveableObject,
        SavedAsset,
        SavedBareConcreteFunction,
        SavedConcreteFunction,
        SavedConstant,
        SavedFunction,
        SavedObject,
        SavedObjectGraph,
        SavedResource,
        SavedUserObject,
        SavedVariable,
        TrackableObjectGraph,
    )
    from tfjit.protos.saver_pb2 import SaverDef
    from tfjit.protos.server_pb2 import (
        ClusterDeviceFilters,
        JobDeviceFilters,
        ServerDef,
        TaskDeviceFilters,
    )
    from tfjit.protos.step_stats_pb2 import (
        AllocationDescription,
        AllocationRecord,
        AllocatorMemoryUsed,
        DeviceStepStats,
        MemoryStats,
        NodeExecStats,
        NodeOutput,
        StepStats,
        TensorDescription,
    )
    from tfjit.protos.struct_pb2 import (
        BoundedTensorSpecProto,
        DictValue,
        ListValue,
        NamedTupleValue,
        NoneValue,
        PairValue,
        StructuredValue,
        TensorSpecProto,
        TupleValue,
        TypeSpecProto,
    )
    from tfjit.protos.summary_pb2 import (
        DataClass,
        HistogramProto,
        Summary,
        SummaryDescription,
        SummaryMetadata,
    )
    from tfjit.protos.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto
    from tfjit.protos.tensor_pb2 import ResourceHandleProto, TensorProto, VariantTensorDataProto
    from tfjit.protos.tensor_shape_pb2 import TensorShapeProto
    from tfjit.protos.tensor_slice_pb2 import TensorSliceProto
    from tfjit.protos.types_pb2 import DataType, SerializedDType
    from tfjit.protos.variable_pb2 import (
        SaveSliceInfoDef,
        VariableAggregation,
        VariableDef,
        VariableSynchronization,
    )
    from tfjit.protos.versions_pb2 import VersionDef

# The generated code is 5.28's because protobuf 5, 6 and 7 all load it; some releases of 6 warn of
# that, once for each module.
warnings.filterwarnings("ignore", message=r"Protobuf gencode version 5\.28\.1 .* at tfjit/protos/")

_MODULES = {
    "attr_value_pb2": (
        "AttrValue",
        "NameAttrList",
    ),
    "checkpoint_state_pb2": ("CheckpointState",),
    "cluster_pb2": (
        "ClusterDef",
        "JobDef",
    ),
    "config_pb2": (
        "BatchingOptions",
        "CallableOptions",
        "ConfigProto",
        "GPUOptions",
        "GraphOptions",
        "OptimizerOptions",
        "RunMetadata",
        "RunOptions",
        "SessionMetadata",
        "TensorConnection",
        "ThreadPoolOptionProto",
    ),
    "control_flow_pb2": ("CondContextDef", "ControlFlowContextDef", "ValuesDef", "WhileContextDef"),
    "coordination_config_pb2": (
        "CoordinatedJob",
        "CoordinationServiceConfig",
    ),
    "cost_graph_pb2": ("CostGraphDef",),
    "debug_pb2": (
        "DebugOptions",
        "DebugTensorWatch",
        "DebuggedSourceFile",
        "DebuggedSourceFiles",
    ),
    "device_attributes_pb2": (
        "DeviceAttributes",
        "DeviceLocality",
        "InterconnectLink",
        "LocalLinks",
    ),
    "error_codes_pb2": ("Code",),
    "event_pb2": (
        "Event",
        "LogMessage",
        "SessionLog",
        "SourceMetadata",
        "TaggedRunMetadata",
    ),
    "example_pb2": (
        "BytesList",
        "Example",
        "Feature",
        "FeatureList",
        "FeatureLists",
        "Features",
        "FloatList",
        "Int64List",
        "SequenceExample",
    ),
    "full_type_pb2": (
        "FullTypeDef",
        "FullTypeId",
    ),
    "function_pb2": (
        "FunctionDef",
        "FunctionDefLibrary",
        "GradientDef",
        "RegisteredGradient",
    ),
    "graph_pb2": ("GraphDef",),
    "graph_debug_info_pb2": ("GraphDebugInfo",),
    "meta_graph_pb2": (
        "AssetFileDef",
        "CollectionDef",
        "MetaGraphDef",
        "SignatureDef",
        "TensorInfo",
    ),
    "node_def_pb2": ("NodeDef",),
    "op_def_pb2": (
        "OpDef",
        "OpDeprecation",
        "OpList",
    ),
    "queue_runner_pb2": ("QueueRunnerDef",),
    "rewriter_config_pb2": (
        "AutoParallelOptions",
        "RewriterConfig",
        "ScopedAllocatorOptions",
        "VerifierConfig",
    ),
    "rpc_options_pb2": ("RPCOptions",),
    "saved_model_pb2": ("SavedModel",),
    "saved_object_graph_pb2": (
        "CapturedTensor",
        "FunctionSpec",
        "RegisteredSaver",
        "SaveableObject",
        "SavedAsset",
        "SavedBareConcreteFunction",
        "SavedConcreteFunction",
        "SavedConstant",
        "SavedFunction",
        "SavedObject",
        "SavedObjectGraph",
        "SavedResource",
        "SavedUserObject",
        "SavedVariable",
        "TrackableObjectGraph",
    ),
    "saver_pb2": ("SaverDef",),
    "server_pb2": (
        "ClusterDeviceFilters",
        "JobDeviceFilters",
        "ServerDef",
        "TaskDeviceFilters",
    ),
    "step_stats_pb2": (
        "AllocationDescription",
        "AllocationRecord",
        "AllocatorMemoryUsed",
        "DeviceStepStats",
        "MemoryStats",
        "NodeExecStats",
        "NodeOutput",
        "StepStats",
        "TensorDescription",
    ),
    "struct_pb2": (
        "BoundedTensorSpecProto",
        "DictValue",
        "ListValue",
        "NamedTupleValue",
        "NoneValue",
        "PairValue",
        "StructuredValue",
        "TensorSpecProto",
        "TupleValue",
        "TypeSpecProto",
    ),
    "summary_pb2": (
        "DataClass",
        "HistogramProto",
        "Summary",
        "SummaryDescription",
        "SummaryMetadata",
    ),
    "tensor_pb2": (
        "ResourceHandleProto",
        "TensorProto",
        "VariantTensorDataProto",
    ),
    "tensor_bundle_pb2": (
        "BundleEntryProto",
        "BundleHeaderProto",
    ),
    "tensor_shape_pb2": ("TensorShapeProto",),
    "tensor_slice_pb2": ("TensorSliceProto",),
    "types_pb2": (
        "DataType",
        "SerializedDType",
    ),
    "variable_pb2": (
        "SaveSliceInfoDef",
        "VariableAggregation",
        "VariableDef",
        "VariableSynchronization",
    ),
    "versions_pb2": ("VersionDef",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AllocationDescription",
    "AllocationRecord",
    "AllocatorMemoryUsed",
    "AssetFileDef",
    "AttrValue",
    "AutoParallelOptions",
    "BatchingOptions",
    "BoundedTensorSpecProto",
    "BundleEntryProto",
    "BundleHeaderProto",
    "BytesList",
    "CallableOptions",
    "CapturedTensor",
    "CheckpointState",
    "ClusterDef",
    "ClusterDeviceFilters",
    "Code",
    "CollectionDef",
    "CondContextDef",
    "ConfigProto",
    "ControlFlowContextDef",
    "CoordinatedJob",
    "CoordinationServiceConfig",
    "CostGraphDef",
    "DataClass",
    "DataType",
    "DebugOptions",
    "DebugTensorWatch",
    "DebuggedSourceFile",
    "DebuggedSourceFiles",
    "DeviceAttributes",
    "DeviceLocality",
    "DeviceStepStats",
    "DictValue",
    "Event",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FloatList",
    "FullTypeDef",
    "FullTypeId",
    "FunctionDef",
    "FunctionDefLibrary",
    "FunctionSpec",
    "GPUOptions",
    "GradientDef",
    "GraphDebugInfo",
    "GraphDef",
    "GraphOptions",
    "HistogramProto",
    "Int64List",
    "InterconnectLink",
    "JobDef",
    "JobDeviceFilters",
    "ListValue",
    "LocalLinks",
    "LogMessage",
    "MemoryStats",
    "MetaGraphDef",
    "NameAttrList",
    "NamedTupleValue",
    "NodeDef",
    "NodeExecStats",
    "NodeOutput",
    "NoneValue",
    "OpDef",
    "OpDeprecation",
    "OpList",
    "OptimizerOptions",
    "PairValue",
    "QueueRunnerDef",
    "RPCOptions",
    "RegisteredGradient",
    "RegisteredSaver",
    "ResourceHandleProto",
    "RewriterConfig",
    "RunMetadata",
    "RunOptions",
    "SaveSliceInfoDef",
    "SaveableObject",
    "SavedAsset",
    "SavedBareConcreteFunction",
    "SavedConcreteFunction",
    "SavedConstant",
    "SavedFunction",
    "SavedModel",
    "SavedObject",
    "SavedObjectGraph",
    "SavedResource",
    "SavedUserObject",
    "SavedVariable",
    "SaverDef",
    "ScopedAllocatorOptions",
    "SequenceExample",
    "SerializedDType",
    "ServerDef",
    "SessionLog",
    "SessionMetadata",
    "SignatureDef",
    "SourceMetadata",
    "StepStats",
    "StructuredValue",
    "Summary",
    "SummaryDescription",
    "SummaryMetadata",
    "TaggedRunMetadata",
    "TaskDeviceFilters",
    "TensorConnection",
    "TensorDescription",
    "TensorInfo",
    "TensorProto",
    "TensorShapeProto",
    "TensorSliceProto",
    "TensorSpecProto",
    "ThreadPoolOptionProto",
    "TrackableObjectGraph",
    "TupleValue",
    "TypeSpecProto",
    "ValuesDef",
    "VariableAggregation",
    "VariableDef",
    "VariableSynchronization",
    "VariantTensorDataProto",
    "VerifierConfig",
    "VersionDef",
    "WhileContextDef",
]


def __getattr__(name: str) -> Any:
    """The message class or enum `name`, imported now and kept."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""The effect of each field of ConfigProto and RunOptions.

This is its one table, printed by `tfjit config`. A field acts, or it is accepted and changes
nothing, and then the table gives the reason. `tests/runtime/session/test_config_fields.py` walks
the messages' descriptors, so that no field is missing and none is left over, and has a test for
each field that acts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tfjit.runtime.session.rewriter_config import META_GROUPS, TOGGLES


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a field.

    acts: true if the field has an effect. text: the effect, or the reason for none.
    """

    acts: bool
    text: str


def _acts(text: str) -> Effect:
    return Effect(True, text)


def _none(text: str) -> Effect:
    return Effect(False, text)


def _toggle(field: str) -> Effect:
    return _acts(
        f"OFF: the passes of the group '{TOGGLES[field]}' are left out; `tfjit passes` lists them"
    )


_PARTS: Final = _none("a message; see its own fields")
_GPU: Final = _none("sessions have no GPU devices yet")
_CHANNELS: Final = _none("tfjit chooses its channels: one a task, and a local one on the same host")
_COORDINATION: Final = _none("there is no coordination service")
_CLUSTER: Final = _acts("of cluster_def: the tasks of a cluster and their addresses")
_SCOPED: Final = _none("collectives need no tensors that are adjacent in memory")
_XLA: Final = _none("Numba compiles, not XLA")
_MLIR: Final = _none("the passes are tfjit's own, not MLIR's")
_TFRT: Final = _none("a switch of TensorFlow's other runtime, TFRT")
_PRECISION: Final = _none("kernels keep the dtypes of the graph")
_DEBUGGER: Final = _none("part of a watch, which is refused")
_MAP: Final = _none("part of a map")

FIELDS: Final[Mapping[str, Mapping[str, Effect]]] = {
    "ConfigProto": {
        "device_count": _acts(
            "CPU: number of CPU devices of the session (1); 0 is an error. Unknown types are "
            "ignored"
        ),
        "intra_op_parallelism_threads": _acts(
            "threads that share one kernel's work, the caller among them; 0 or less: all cores"
        ),
        "placement_period": _acts(
            "with several devices: period, in steps, of measuring node times; movable nodes (no "
            "device asked for, no state) are then placed anew, until no node moves or a move did "
            "not pay; moves are logged (tfjit.placement)"
        ),
        "device_filters": _acts(
            "must be device names; on a cluster, tasks that none admits are left out; the devices "
            "of this process are never hidden"
        ),
        "inter_op_parallelism_threads": _acts(
            "threads of the process's pool (the first session's number counts) or of the "
            "session's own; 0: all cores; below 0: every node runs on the caller's thread"
        ),
        "gpu_options": _PARTS,
        "allow_soft_placement": _acts(
            "a device that does not exist, or has no kernel, is replaced by one that has; a "
            "session without a config places softly, as TensorFlow 2's default config does"
        ),
        "log_device_placement": _acts("prints `name: (Op): device` to stdout for each node placed"),
        "use_per_session_threads": _acts(
            "the session has a separate inter-op pool, whose threads end with it"
        ),
        "graph_options": _PARTS,
        "operation_timeout_in_ms": _acts(
            "time limit of a run that sets none itself: DeadlineExceededError; 0 or less: none"
        ),
        "session_inter_op_thread_pool": _acts(
            "the pools that RunOptions.inter_op_thread_pool chooses from; each bounds the number "
            "of threads of its runs together, callers' among them"
        ),
        "rpc_options": _PARTS,
        "cluster_def": _acts("on a cluster: its tasks take the place of the server's own"),
        "isolate_session_state": _acts(
            "the session has separate variables and queues even where it is given a "
            "session_resource, or on the workers of a cluster"
        ),
        "experimental": _PARTS,
        "share_cluster_devices_in_session": _acts(
            "on a cluster: workers are told the devices of all tasks"
        ),
        "pluggable_device_options": _none("there are no pluggable devices"),
        "session_handle": _acts(
            "tfjit's own (200): the client names its session: in thread names and timelines, and "
            "for DirectSessionFactory.find; a second open session of the name is "
            "AlreadyExistsError"
        ),
        "tensor_fuse": _none(
            "tfjit's own (201): to pack small tensors into one transfer between tasks, which is "
            "not there; the transfers between local devices hand over an address and have nothing "
            "to pack"
        ),
        "global_io_parallelism_threads": _acts(
            "tfjit's own (202): threads of the pool for work on files (checkpoints written, read "
            "and merged, whole files), shared by the sessions that ask for the same number; 0: 4"
        ),
        "run_graph_mode": _acts(
            "tfjit's own (203): the captured whole-graph step rather than the dataflow scheduler: "
            "plans are compiled before their first run; a plan that cannot be captured is logged "
            "(tfjit.plan) and scheduled all the same"
        ),
    },
    "ConfigProto.DeviceCountEntry": {"key": _MAP, "value": _MAP},
    "ConfigProto.Experimental": {
        "collective_group_leader": _acts(
            "on a cluster: the task that knows the groups of collectives; a group over several "
            "tasks needs one. That of the server's config comes before the session's"
        ),
        "executor_type": _acts(
            '"" and "DEFAULT"; "SINGLE_THREADED_EXECUTOR": nodes run on the caller\'s thread '
            "alone, control flow and reference variables included; any other is NotFoundError at "
            "the first run"
        ),
        "recv_buf_max_chunk": _none("the buffer of a collective goes in one piece"),
        "use_numa_affinity": _none("memory and threads are placed by the operating system"),
        "collective_deterministic_sequential_execution": _none(
            "collectives give the same values in any order"
        ),
        "collective_nccl": _none("collectives exchange values through the host's memory"),
        "share_session_state_in_clusterspec_propagation": _acts(
            "on a cluster with cluster_def: the session shares the workers' variables and queues"
        ),
        "disable_thread_spinning": _acts(
            "helpers that share a kernel's work sleep at once when there is no work, instead of "
            "looking for more"
        ),
        "share_cluster_devices_in_session": _acts(
            "on a cluster: workers are told the devices of all tasks"
        ),
        "session_metadata": _acts(
            "name and version of the session, in RunMetadata; a version below 0, or one that an "
            "open session of the name has, is InvalidArgumentError"
        ),
        "optimize_for_static_graph": _none(
            "a promise that tfjit does not need: a graph that grows costs nothing unless it does. "
            "TensorFlow's Python sessions extend their graph all the same, and so do tfjit's"
        ),
        "enable_mlir_bridge": _MLIR,
        "disable_output_partition_graphs": _acts(
            "RunOptions.output_partition_graphs is InvalidArgumentError"
        ),
        "xla_fusion_autotuner_thresh": _XLA,
        "enable_mlir_graph_optimization": _MLIR,
        "mlir_bridge_rollout": _MLIR,
        "use_tfrt": _TFRT,
        "disable_functional_ops_lowering": _none(
            "If, While and Case are never lowered to Switch and Merge"
        ),
        "xla_prefer_single_graph_cluster": _XLA,
        "coordination_config": _PARTS,
        "disable_optimize_for_static_graph": _none("see optimize_for_static_graph"),
        "disable_eager_executor_streaming_enqueue": _none("there is no eager execution"),
        "enable_multi_host": _TFRT,
        "backend_server_port": _TFRT,
        "target_tpu": _none("there are no TPUs"),
        "target_gpu": _GPU,
        "stream_merge_threshold": _GPU,
        "tfrt_use_ifrt": _TFRT,
        "finalize_function_library_runtime": _TFRT,
        "finalize_resource_manager": _TFRT,
        "tf2xla_dump_dir": _none("Numba compiles, not XLA; TFJIT_DUMP dumps graphs and kernels"),
        "online_cost_analysis": _TFRT,
    },
    "SessionMetadata": {
        "name": _acts("see session_metadata"),
        "version": _acts("see session_metadata"),
    },
    "CoordinationServiceConfig": dict.fromkeys(
        (
            "service_type",
            "service_leader",
            "enable_health_check",
            "cluster_register_timeout_in_ms",
            "heartbeat_timeout_in_ms",
            "shutdown_barrier_timeout_in_ms",
            "agent_destruction_without_shutdown",
            "recoverable_jobs",
            "coordinated_job_list",
            "allow_new_incarnation_to_reconnect",
            "force_disable",
            "poll_for_error_from_service_at_startup",
            "cluster_register_with_barrier",
        ),
        _COORDINATION,
    ),
    "CoordinatedJob": {"name": _COORDINATION, "num_tasks": _COORDINATION},
    "ThreadPoolOptionProto": {
        "num_threads": _acts("threads of the pool; 0: the number of inter_op_parallelism_threads"),
        "global_name": _acts(
            "sessions that give the same name share the pool; another num_threads than the "
            "first's is InvalidArgumentError"
        ),
    },
    "RPCOptions": dict.fromkeys(
        (
            "use_rpc_for_inprocess_master",
            "compression_algorithm",
            "compression_level",
            "cache_rpc_response",
            "disable_session_connection_sharing",
            "num_channels_per_target",
        ),
        _CHANNELS,
    ),
    "ClusterDef": {"job": _CLUSTER},
    "JobDef": {"name": _CLUSTER, "tasks": _CLUSTER},
    "JobDef.TasksEntry": {"key": _MAP, "value": _MAP},
    "GPUOptions": dict.fromkeys(
        (
            "per_process_gpu_memory_fraction",
            "allocator_type",
            "deferred_deletion_bytes",
            "allow_growth",
            "visible_device_list",
            "polling_active_delay_usecs",
            "polling_inactive_delay_msecs",
            "force_gpu_compatible",
            "experimental",
        ),
        _GPU,
    ),
    "GPUOptions.Experimental": dict.fromkeys(
        (
            "virtual_devices",
            "use_unified_memory",
            "num_dev_to_dev_copy_streams",
            "collective_ring_order",
            "timestamped_allocator",
            "kernel_tracker_max_interval",
            "kernel_tracker_max_bytes",
            "kernel_tracker_max_pending",
            "internal_fragmentation_fraction",
            "use_cuda_malloc_async",
            "disallow_retry_on_allocation_failure",
            "gpu_host_mem_limit_in_mb",
            "gpu_host_mem_disallow_growth",
            "num_virtual_devices_per_gpu",
            "gpu_system_memory_size_in_mb",
            "populate_pjrt_gpu_client_creation_info",
            "node_id",
            "stream_merge_options",
        ),
        _GPU,
    ),
    "GPUOptions.Experimental.VirtualDevices": {
        "memory_limit_mb": _GPU,
        "priority": _GPU,
        "device_ordinal": _GPU,
    },
    "GPUOptions.Experimental.StreamMergeOptions": {
        "merge_host_to_device_stream": _GPU,
        "merge_device_to_host_stream": _GPU,
        "merge_device_to_device_stream": _GPU,
    },
    "GraphOptions": {
        "enable_recv_scheduling": _none(
            "a receive is ready when its value is, and the executor then continues with it"
        ),
        "optimizer_options": _PARTS,
        "build_cost_model": _acts(
            "period, in steps of a signature, of measuring its nodes; RunMetadata then gets "
            "cost_graph and step_stats"
        ),
        "infer_shapes": _acts(
            "nodes sent to the session carry their shapes in an attr `_output_shapes`"
        ),
        "place_pruned_graph": _acts(
            "a node is placed when the first run needs it, not when it is added; interactive "
            "sessions set this"
        ),
        "enable_bfloat16_sendrecv": _none("concerns transfers between processes"),
        "timeline_step": _acts(
            "period, in steps, of writing a timeline, `timeline_<session>_<step>.json`, into "
            "TFJIT_DUMP, else into tfjit-timelines-<process> in the folder for temporary files"
        ),
        "build_cost_model_after": _acts(
            "steps of a signature before the first that build_cost_model measures"
        ),
        "rewrite_options": _PARTS,
    },
    "OptimizerOptions": {
        "do_common_subexpression_elimination": _acts(
            "at L0: run this pass all the same (it runs at L1 in any case)"
        ),
        "do_constant_folding": _acts(
            "at L0: run this pass all the same (it runs at L1 in any case)"
        ),
        "opt_level": _acts("L0: no optional pass runs; L1, the default: all of them"),
        "do_function_inlining": _none(
            "calls of functions are inlined at every level: the executor runs bodies, not calls"
        ),
        "global_jit_level": _acts(
            "ON_1, ON_2: kernels are compiled before the first result; OFF: never; DEFAULT: "
            "behind the first runs. TFJIT_JIT wins"
        ),
        "max_folded_constant_in_bytes": _acts(
            "no constant larger than this is made by folding; 0: 10 MiB"
        ),
        "cpu_global_jit": _none("a switch of XLA; global_jit_level alone decides here"),
    },
    "RewriterConfig": {
        "layout_optimizer": _none(
            "convolutions run in the layout they have, NCHW compiled as well as NHWC"
        ),
        "disable_model_pruning": _none(
            "nodes that a run does not need are never executed, for any value"
        ),
        "constant_folding": _toggle("constant_folding"),
        "memory_optimization": _none(
            "buffers are shared by lifetime in every step; nothing is recomputed or swapped"
        ),
        "auto_parallel": _PARTS,
        "memory_optimizer_target_node_name_scope": _none("see memory_optimization"),
        "arithmetic_optimization": _toggle("arithmetic_optimization"),
        "dependency_optimization": _toggle("dependency_optimization"),
        "loop_optimization": _toggle("loop_optimization"),
        "function_optimization": _none("see do_function_inlining"),
        "debug_stripper": _acts(
            "ON: Assert, Print, PrintV2 and CheckNumerics are removed (strip_debug)"
        ),
        "meta_optimizer_iterations": _acts(
            "ONE: each optional pass runs once; TWO and DEFAULT: as often as it stands in the "
            "list of passes"
        ),
        "shape_optimization": _none(
            "shapes are inferred for every feed shape in any case, and constants that follow from "
            "them are folded"
        ),
        "remapping": _toggle("remapping"),
        "scoped_allocator_optimization": _SCOPED,
        "scoped_allocator_opts": _SCOPED,
        "min_graph_nodes": _acts(
            "a run of fewer nodes gets no optional pass; 0 or less: no such limit"
        ),
        "pin_to_host_optimization": _GPU,
        "disable_meta_optimizer": _acts(
            f"the passes of the groups {', '.join(META_GROUPS)} are left out, and so are "
            "strip_debug and custom optimizers"
        ),
        "meta_optimizer_timeout_ms": _acts(
            "time limit of a plan's passes, after which further optional ones are left out; 0 or "
            "less: no limit"
        ),
        "fail_on_optimizer_errors": _acts(
            "a pass of the user's that fails, fails the run; else it is undone and left out with a "
            "warning. Sessions without a config: it fails the run"
        ),
        "implementation_selector": _none(
            "there are no alternative implementations of functions to choose from"
        ),
        "auto_mixed_precision": _PRECISION,
        "common_subgraph_elimination": _toggle("common_subgraph_elimination"),
        "auto_mixed_precision_mkl": _PRECISION,
        "experimental_disable_compressed_tensor_optimization": _none(
            "constants are not compressed"
        ),
        "experimental_disable_folding_quantization_emulation": _none(
            "FakeQuant operations are folded only where their inputs are constant"
        ),
        "use_plugin_optimizers": _none("there are no plug-ins; see custom_optimizers"),
        "auto_mixed_precision_cpu": _PRECISION,
        "experimental_conditional_code_motion": _none("code is not moved out of conditionals"),
        "auto_mixed_precision_onednn_bfloat16": _PRECISION,
        "disable_tfg_optimizer": _MLIR,
        "cpu_layout_conversion": _none("see layout_optimizer"),
        "optimizers": _acts(
            "the optimizers that run, instead of the toggles' choice; the order stays tfjit's. The "
            "name of a pipeline (tfjit.passes.register_pipeline) chooses that pipeline. An unknown "
            "name is InvalidArgumentError and lists the known ones"
        ),
        "custom_optimizers": _acts(
            "graph passes registered by tfjit.register_graph_optimizer, and pipelines as in "
            "optimizers; 'pipeline' with the parameter 'text' is the text of one. An unknown name "
            "is InvalidArgumentError"
        ),
        "inter_optimizer_verifier_config": _PARTS,
        "post_optimization_verifier_config": _PARTS,
    },
    "RewriterConfig.CustomGraphOptimizer": {
        "name": _acts("see custom_optimizers"),
        "parameter_map": _acts("handed to the function that makes the pass, as Python values"),
    },
    "RewriterConfig.CustomGraphOptimizer.ParameterMapEntry": {"key": _MAP, "value": _MAP},
    "AutoParallelOptions": {"enable": _GPU, "num_replicas": _GPU},
    "ScopedAllocatorOptions": {"enable_op": _SCOPED},
    "VerifierConfig": {
        "verification_timeout_in_ms": _none("the check takes a few microseconds a node"),
        "structure_verifier": _acts(
            "ON: the graph is checked after each pass; OFF: not even with TFJIT_VERIFY"
        ),
    },
    "RunOptions": {
        "trace_level": _acts(
            "above NO_TRACE: RunMetadata.step_stats has the time and the outputs of each node's "
            "run; all levels alike"
        ),
        "timeout_in_ms": _acts(
            "time limit of the run: DeadlineExceededError, and the step is cancelled; 0 or less: "
            "the session's"
        ),
        "inter_op_thread_pool": _acts(
            "index of a pool of the session; -1: the caller's thread alone; any other is "
            "InvalidArgumentError"
        ),
        "output_partition_graphs": _acts(
            "RunMetadata.partition_graphs gets the graph of each device as it runs"
        ),
        "debug_options": _PARTS,
        "report_tensor_allocations_upon_oom": _acts(
            "the error of a step that runs out of memory lists the largest tensors it had made"
        ),
        "experimental": _PARTS,
    },
    "RunOptions.Experimental": {
        "collective_graph_key": _acts(
            "on a cluster: steps of this key have the same ids in all tasks, as collectives need; "
            "by default the instance keys in the graph decide"
        ),
        "use_run_handler_pool": _acts(
            "the run takes a place in one pool of the process, which has a place for each core"
        ),
        "run_handler_pool_options": _PARTS,
    },
    "RunOptions.Experimental.RunHandlerPoolOptions": {
        "priority": _acts("order of the runs that wait in that pool, the highest first"),
    },
    "DebugOptions": {
        "debug_tensor_watch_opts": _acts("UnimplementedError: there is no debugger"),
        "global_step": _DEBUGGER,
        "reset_disk_byte_usage": _DEBUGGER,
    },
    "DebugTensorWatch": {
        "node_name": _DEBUGGER,
        "output_slot": _DEBUGGER,
        "debug_ops": _DEBUGGER,
        "debug_urls": _DEBUGGER,
        "tolerate_debug_op_creation_failures": _DEBUGGER,
    },
}


def message_fields() -> Iterator[tuple[str, Any]]:
    """Yield (message name, field descriptor) of every field.

    The fields are those of ConfigProto and RunOptions and of the messages in them, each message
    once.
    """
    from tfjit.protos import ConfigProto, RunOptions

    waiting = [ConfigProto.DESCRIPTOR, RunOptions.DESCRIPTOR]
    seen = {message.full_name for message in waiting}
    while waiting:
        message = waiting.pop(0)
        for field in message.fields:
            yield message.full_name.partition(".")[2], field
            inner = field.message_type
            # a value of any kind, not an option
            if inner is not None and inner.full_name not in seen and inner.name != "AttrValue":
                seen.add(inner.full_name)
                waiting.append(inner)


def describe(pattern: str = "") -> str:
    """Return the table as text: number, name and effect of each field.

    pattern: only fields whose path has it.
    """
    lines: list[str] = []
    current = ""
    for message, field in message_fields():
        effect = FIELDS[message][field.name]
        if pattern.lower() not in f"{message}.{field.name}".lower() or effect is _MAP:
            continue
        if message != current:
            lines += ["", message]
            current = message
        mark = " " if effect is _PARTS else "+" if effect.acts else "-"
        lines.append(f"  {mark} {field.number:3} {field.name}: {effect.text}")
    legend = "+ acts; - accepted, and changes nothing"
    return "\n".join([legend, *lines]) + "\n"

"""The namespace `tfjit.train`.

It holds savers, checkpoints, coordinators, queue runners, input queues, monitored sessions and
their hooks, the global step, messages.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from tfjit.client.variables.global_step import (
    assert_global_step as assert_global_step,
)
from tfjit.client.variables.global_step import (
    create_global_step as create_global_step,
)
from tfjit.client.variables.global_step import (
    get_global_step as get_global_step,
)
from tfjit.client.variables.global_step import (
    get_or_create_global_step as get_or_create_global_step,
)
from tfjit.client.variables.global_step import (
    global_step as global_step,
)

_OPTIMIZERS: Final = (
    *(
        "AdadeltaOptimizer",
        "AdagradDAOptimizer",
        "AdagradOptimizer",
        "AdamOptimizer",
        "FtrlOptimizer",
        "GradientDescentOptimizer",
    ),
    *(
        "MomentumOptimizer",
        "ProximalAdagradOptimizer",
        "ProximalGradientDescentOptimizer",
        "RMSPropOptimizer",
    ),
)
_HOMES: Final = {
    "saving.checkpoints": (
        "CheckpointReader NewCheckpointReader checkpoint_exists checkpoints_iterator "
        "generate_checkpoint_state_proto get_checkpoint_mtimes get_checkpoint_state "
        "latest_checkpoint list_variables load_checkpoint "
        "load_variable remove_checkpoint update_checkpoint_state"
    ),
    "saving.checkpoint_values": "init_from_checkpoint",
    "saving.warm_starting": "VocabInfo warm_start",
    "data.event_files": "summary_iterator",
    "training.coordinator": "Coordinator LooperThread",
    "training.batching": (
        "batch batch_join maybe_batch maybe_batch_join maybe_shuffle_batch "
        "maybe_shuffle_batch_join shuffle_batch shuffle_batch_join"
    ),
    "training.input_queues": (
        "input_producer limit_epochs match_filenames_once range_input_producer "
        "slice_input_producer string_input_producer"
    ),
    "saving.meta_graph": "export_meta_graph",
    "training.learning_rate_decay": (
        "cosine_decay cosine_decay_restarts exponential_decay inverse_time_decay "
        "linear_cosine_decay natural_exp_decay noisy_linear_cosine_decay piecewise_constant "
        "piecewise_constant_decay polynomial_decay"
    ),
    "training.moving_averages": "ExponentialMovingAverage",
    "training.optimizer": "Optimizer",
    "training.optimizers": " ".join(_OPTIMIZERS),
    "monitored.checkpoint_hooks": "CheckpointSaverHook CheckpointSaverListener",
    "monitored.event_hooks": "StepCounterHook SummarySaverHook",
    "monitored.hooks": (
        "FeedFnHook FinalOpsHook GlobalStepWaiterHook LoggingTensorHook "
        "NanLossDuringTrainingError NanTensorHook StopAtStepHook"
    ),
    "monitored.monitored_session": "MonitoredSession SingularMonitoredSession",
    "monitored.monitored_training_session": "MonitoredTrainingSession",
    "monitored.profiler_hook": "ProfilerHook",
    "monitored.scaffold": "Scaffold",
    "monitored.session_creators": "ChiefSessionCreator SessionCreator WorkerSessionCreator",
    "monitored.session_manager": "SessionManager",
    "monitored.supervisor": "Supervisor",
    "monitored.train_loop": "basic_train_loop",
    "monitored.timers": "SecondOrStepTimer",
    "training.session_run_hook": (
        "SessionRunArgs SessionRunContext SessionRunHook SessionRunValues"
    ),
    "training.queue_runner": "QueueRunner add_queue_runner start_queue_runners",
    "training.sync_replicas_optimizer": "SyncReplicasOptimizer",
    "training.replica_device_setter": "replica_device_setter",
    "saving.saver": "Saver import_meta_graph",
    "saving.write_graph": "write_graph",
}
_NAMES: Final = {
    **{name: f"tfjit.client.{home}" for home, names in _HOMES.items() for name in names.split()},
    "ClusterSpec": "tfjit.framework.types.cluster_spec",
    "Server": "tfjit.distributed.server.server",
}
_MESSAGES: Final = (
    *(
        "BytesList",
        "CheckpointState",
        "ClusterDef",
        "Example",
        "Feature",
        "FeatureList",
        "FeatureLists",
        "Features",
        "FloatList",
    ),
    *("Int64List", "JobDef", "SaverDef", "SequenceExample", "ServerDef"),
)
# The end or beginning of a name in TensorFlow's tf.train, and the feature that it needs.
_MISSING: Final = (
    ("Checkpoint", "object-based checkpoints"),
    ("checkpoint", "object-based checkpoints"),
)


def __getattr__(name: str) -> Any:
    if name == "queue_runner":  # a module of three functions, which is in tf.train, too
        value = globals()[name] = importlib.import_module("tfjit.client.training.queue_runner")
        return value
    if name in _MESSAGES:
        value = globals()[name] = getattr(importlib.import_module("tfjit.protos"), name)
        return value
    if name in _NAMES:
        value = globals()[name] = getattr(importlib.import_module(_NAMES[name]), name)
        return value
    reason = next(
        (f": {feature} are not supported yet" for part, feature in _MISSING if part in name), ""
    )
    raise AttributeError(f"module 'tfjit.train' has no attribute {name!r}{reason}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MESSAGES, *_NAMES, "queue_runner"})

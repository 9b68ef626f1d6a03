"""Options of a dataset, kept for programs that set them."""

from __future__ import annotations


class _Group:
    """Options by name. Raises AttributeError for an unknown one.

    Those of threads, autotuning, distribution and rewriting do not change any value: the runtime
    chooses them itself.
    """

    _names: tuple[str, ...] = ()

    def __init__(self) -> None:
        for name in self._names:
            object.__setattr__(self, name, None)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._names:
            raise AttributeError(
                f"Cannot set the property {name} on {type(self).__name__}; it has "
                f"{', '.join(self._names)}."
            )
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # options change


class ThreadingOptions(_Group):
    """Options of the threads that make elements."""

    _names = ("max_intra_op_parallelism", "private_threadpool_size")


class AutotuneOptions(_Group):
    """Options of the search for numbers of threads and sizes of buffers."""

    _names = (
        *("autotune_algorithm", "cpu_budget", "enabled", "initial_parallelism"),
        *("min_parallelism", "ram_budget"),
    )


class DistributeOptions(_Group):
    """Options of datasets that several workers share."""

    _names = ("auto_shard_policy", "num_devices")


class OptimizationOptions(_Group):
    """Options of rewriting pipelines."""

    _names = (
        "apply_default_optimizations",
        "filter_fusion",
        "filter_parallelization",
        "inject_prefetch",
        "map_and_batch_fusion",
        "map_and_filter_fusion",
        "map_fusion",
        "map_parallelization",
        "noop_elimination",
        "parallel_batch",
        "seq_interleave_prefetch",
        "shuffle_and_repeat_fusion",
        "warm_start",
    )


class Options(_Group):
    """Options of a dataset, for `Dataset.with_options`."""

    _names = (
        "autotune",
        "dataset_name",
        "deterministic",
        "distribute",
        "experimental_deterministic",
        "experimental_distribute",
        "experimental_external_state_policy",
        "experimental_optimization",
        "experimental_slack",
        "experimental_symbolic_checkpoint",
        "experimental_threading",
        "experimental_warm_start",
        "framework_type",
        "optimization",
        "threading",
    )

    def __init__(self) -> None:
        super().__init__()
        self.autotune = AutotuneOptions()
        self.distribute = self.experimental_distribute = DistributeOptions()
        self.optimization = self.experimental_optimization = OptimizationOptions()
        self.threading = self.experimental_threading = ThreadingOptions()

    def merge(self, options: Options) -> Options:
        """Return options with those that `options` sets in the place of these.

        Raises ValueError for another kind of value.
        """
        if not isinstance(options, Options):
            raise ValueError(f"Invalid `options`. Expected tf.data.Options, got {type(options)}.")
        made = Options()
        for name in self._names:
            mine, other = getattr(self, name), getattr(options, name)
            if isinstance(mine, _Group):
                group = getattr(made, name)
                for part in mine._names:
                    set_one = getattr(other, part)
                    setattr(group, part, getattr(mine, part) if set_one is None else set_one)
            else:
                setattr(made, name, mine if other is None else other)
        return made


__all__ = [
    "AutotuneOptions",
    "DistributeOptions",
    "OptimizationOptions",
    "Options",
    "ThreadingOptions",
]

"""Ways to break what may come before the strategy, and what may not."""

from __future__ import annotations

import contextlib
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


@mutant("mwms.known-issues.all-gpus-are-used", name="gpus-are-left-alone")
def _gpus_are_left_alone(patch: Patch) -> None:
    from tensorflow.python.distribute import collective_all_reduce_strategy as strategy

    def make(_: Any) -> Any:
        return lambda self, resolver, worker_device: ((f"{worker_device}/device:CPU:0",), "CPU")

    patch(strategy.CollectiveAllReduceExtended, "_initialize_local_devices", make)


@mutant(
    "mwms.known-issues.created-first",
    name="a-late-strategy-is-made",
    also=("mwms.known-issues.what-is-too-early",),
)
def _a_late_strategy_is_made(patch: Patch) -> None:
    def make(original: Any) -> Any:
        def configure_collective_ops(self: Any, *args: Any, **kwargs: Any) -> None:
            with contextlib.suppress(RuntimeError):
                original(self, *args, **kwargs)

        return configure_collective_ops

    _in_the_context(patch, "configure_collective_ops", make)


@mutant("mwms.known-issues.what-is-too-early", name="listing-devices-initialises-nothing")
def _listing_devices_initialises_nothing(patch: Patch) -> None:
    import tensorflow as tf

    patch(tf.config, "list_logical_devices", lambda _: lambda device_type=None: [])


@mutant("mwms.known-issues.graph-mode-any-time", name="graph-mode-is-configured-like-eager-mode")
def _graph_mode_is_configured_like_eager_mode(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.distribute import collective_all_reduce_strategy as strategy
    from tensorflow.python.eager import context

    def make(original: Any) -> Any:
        def initialize(self: Any, resolver: Any) -> None:
            if not tf.executing_eagerly():
                context.context().configure_collective_ops()
            original(self, resolver)

        return initialize

    patch(strategy.CollectiveAllReduceExtended, "_initialize_multi_worker", make)


@mutant(
    "mwms.known-issues.second-strategy",
    name="collective-ops-are-configured-once",
    also=("mwms.known-issues.strategies-in-turn",),
)
def _collective_ops_are_configured_once(patch: Patch) -> None:
    def make(original: Any) -> Any:
        def configure_collective_ops(self: Any, *args: Any, **kwargs: Any) -> None:
            if self._collective_leader is not None:
                raise ValueError("collective ops are configured already")
            original(self, *args, **kwargs)

        return configure_collective_ops

    _in_the_context(patch, "configure_collective_ops", make)


def _in_the_context(patch: Patch, method: str, make: Any) -> None:
    from tensorflow.python.eager import context

    patch(context.Context, method, make)

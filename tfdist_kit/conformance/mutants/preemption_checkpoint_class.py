"""Ways to break how the handler is made."""

from __future__ import annotations

from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant
from tfdist_kit.conformance.mutants._preemption import after, handler, instead, refusing


@mutant("preempt.class.exported", name="handler-is-no-class")
def _(patch: Patch) -> None:
    import tensorflow as tf

    patch(tf.distribute.experimental, "PreemptionCheckpointHandler", lambda found: object())


@mutant("preempt.class.constructor", name="handler-takes-the-config-before-the-folder")
def _(patch: Patch) -> None:
    def other(found: Any) -> Any:
        def init(
            self: Any,
            cluster_resolver: Any,
            checkpoint_or_checkpoint_manager: Any,
            termination_config: Any = None,
            checkpoint_dir: Any = None,
        ) -> None:
            found(
                self,
                cluster_resolver,
                checkpoint_or_checkpoint_manager,
                checkpoint_dir,
                termination_config,
            )

        return init

    patch(handler(), "__init__", other)


@mutant("preempt.class.methods", name="run-names-its-function-otherwise")
def _(patch: Patch) -> None:
    def other(found: Any) -> Any:
        def run(self: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
            return found(self, function, *args, **kwargs)

        return run

    patch(handler(), "run", other)


@mutant("preempt.class.inside-or-outside-scope", name="handler-wants-a-scope")
def _(patch: Patch) -> None:
    import tensorflow as tf

    refusing(patch, lambda *_: not tf.distribute.has_strategy())


@mutant("preempt.args.checkpoint-or-manager", name="handler-takes-no-manager")
def _(patch: Patch) -> None:
    import tensorflow as tf

    refusing(patch, lambda _, what, *__: isinstance(what, tf.train.CheckpointManager))


@mutant("preempt.args.manager-needs-no-directory", name="handler-wants-a-folder")
def _(patch: Patch) -> None:
    refusing(patch, lambda _, __, directory, ___: directory is None)


@mutant("preempt.args.termination-config-optional", name="handler-wants-a-config")
def _(patch: Patch) -> None:
    refusing(patch, lambda _, __, ___, config: config is None)


@mutant("preempt.strategies.multi-worker-mirrored", name="third-worker-is-no-member")
def _(patch: Patch) -> None:
    refusing(patch, lambda resolver, *_: resolver.task_id == 2)


@mutant("preempt.strategies.no-parameter-server", name="parameter-server-is-not-seen")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def other(found: Any) -> Any:
        def as_dict(self: Any) -> Any:
            return {job: tasks for job, tasks in found(self).items() if job != "ps"}

        return as_dict

    patch(tf.train.ClusterSpec, "as_dict", other)
    instead(patch, "_initialize_for_mirrored_and_multi_worker_mirrored", lambda found, self: None)


@mutant("preempt.run.result", name="run-returns-nothing")
def _(patch: Patch) -> None:
    def run(found: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        found(self, *args, **kwargs)

    instead(patch, "run", run)


@mutant("preempt.run.arguments", name="run-forgets-named-arguments")
def _(patch: Patch) -> None:
    instead(patch, "run", lambda found, self, *args, **kwargs: found(self, *args))


@mutant("preempt.run.total-calls", name="calls-are-counted-anew")
def _(patch: Patch) -> None:
    def forget(self: Any) -> None:
        self._run_counter = 0

    after(patch, "_initialize_for_mirrored_and_multi_worker_mirrored", forget)

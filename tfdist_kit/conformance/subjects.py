"""What the checks are about: TensorFlow's own classes, or the kit's adapters over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ALONE: Any = {"on_single_worker": "allow"}
"""What the kit refuses unless told otherwise: a TF_CONFIG under which a worker trains alone."""
STOCK, ADAPTER = SUBJECTS = ("stock", "adapter")


@dataclass(frozen=True)
class Subject:
    """Makes what a check looks at; the value of the fixture ``subject``.

    Attributes:
        kind: ``stock`` or ``adapter``.
    """

    kind: str = STOCK

    def make_strategy(self, **arguments: Any) -> Any:
        """A MultiWorkerMirroredStrategy.

        Args:
            arguments: Those of TensorFlow's class.
        """
        if self.kind == ADAPTER:
            import tfdist_kit

            return tfdist_kit.multi_worker_mirrored(**ALONE, **arguments)
        import tensorflow as tf

        return tf.distribute.MultiWorkerMirroredStrategy(**arguments)

    def make_strategy_v1(self, **arguments: Any) -> Any:
        """The MultiWorkerMirroredStrategy of ``tf.compat.v1``.

        Args:
            arguments: Those of TensorFlow's class.
        """
        if self.kind == ADAPTER:
            import tfdist_kit

            return tfdist_kit.multi_worker_mirrored(api="compat.v1", **ALONE, **arguments)
        import tensorflow as tf

        return tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy(**arguments)

    def make_preemption_handler(
        self,
        strategy: Any,
        checkpoint: Any,
        checkpoint_dir: Any = None,
        **termination: Any,
    ) -> Any:
        """A PreemptionCheckpointHandler.

        Args:
            strategy: Whose cluster it watches.
            checkpoint: What it saves: a Checkpoint or a CheckpointManager.
            checkpoint_dir: Where.
            termination: Arguments of TensorFlow's TerminationConfig; without any there is none.
        """
        if self.kind == ADAPTER:
            import tfdist_kit
            from tfdist_kit.adapters.preemption_checkpoint import Termination

            config = Termination(**termination) if termination else None
            return tfdist_kit.preemption_checkpoint_handler(
                strategy, checkpoint, checkpoint_dir, config
            )
        import tensorflow as tf

        experimental = tf.distribute.experimental
        config = experimental.TerminationConfig(**termination) if termination else None
        resolver = strategy.cluster_resolver
        return experimental.PreemptionCheckpointHandler(
            resolver, checkpoint, checkpoint_dir, config
        )

    def make_embedding(self, *arguments: Any, **named: Any) -> Any:
        """A TPUEmbedding; where there is no TPU, the kit's runs its steps in host mode.

        Args:
            arguments: Those of TensorFlow's class.
            named: Those that are given by name.
        """
        if self.kind == ADAPTER:
            import tfdist_kit

            return tfdist_kit.tpu_embedding(*arguments, **named)
        import tensorflow as tf

        return tf.tpu.experimental.embedding.TPUEmbedding(*arguments, **named)

    def restore_embedding(self, checkpoint: Any, path: str) -> None:
        """Restore tables.

        Args:
            checkpoint: A tf.train.Checkpoint that holds the embedding.
            path: What its `save` has returned.
        """
        if self.kind == ADAPTER:
            from tfdist_kit.adapters.tpu_embedding import restore

            restore(checkpoint, path)
            return
        checkpoint.restore(path)

    def serving_lookup(self, features: Any, weights: Any, embedding: Any, config: Any) -> Any:
        """Look ids up in an embedding's tables, for serving.

        Args:
            features: Some of the features.
            weights: Of their ids, or None.
            embedding: Holds the tables.
            config: The FeatureConfigs that it was made of.
        """
        if self.kind == ADAPTER:
            from tfdist_kit.adapters.tpu_embedding import serving_lookup

            return serving_lookup(embedding, features, weights)
        import tensorflow as tf

        serve = tf.tpu.experimental.embedding.serving_embedding_lookup
        return serve(features, weights, embedding.embedding_tables, config)

    def watch_from_the_start(self) -> None:
        """What the kit has for the first line of a program; TensorFlow has nothing."""
        if self.kind == ADAPTER:
            import tfdist_kit

            tfdist_kit.watch_preemption()

    def finish_training(self, handler: Any) -> None:
        """What the kit has for the end of training; TensorFlow has nothing."""
        if self.kind == ADAPTER:
            handler.finish_training()

    def enable_op_determinism(self, seed: int | None = None, *, late: bool = False) -> None:
        """Switch op determinism on, after the seeds were set as the page has it.

        Args:
            seed: For `set_random_seed`. None leaves TensorFlow without a seed; the kit does not
                switch it on without one, so that it is taken away again.
            late: Whether something has run before, which the kit refuses else.
        """
        import tensorflow as tf

        if self.kind == ADAPTER:
            import tfdist_kit

            on_late: Any = "warn" if late else "refuse"
            tfdist_kit.enable_op_determinism(0 if seed is None else seed, on_late=on_late)
            if seed is None:
                tf.random.set_seed(None)
            return
        if seed is not None:
            tf.keras.utils.set_random_seed(seed)
        tf.config.experimental.enable_op_determinism()

    def compare_workers(self, strategy: Any) -> None:
        """What the kit has to find out that workers are set up alike; TensorFlow has nothing.

        Args:
            strategy: Of their cluster.
        """
        if self.kind == ADAPTER:
            from tfdist_kit.adapters.op_determinism import preflight

            preflight(strategy)

"""What the mutants of PreemptionCheckpointHandler share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdist_kit.conformance.marks import Patch

Method = Callable[..., Any]


def module() -> Any:
    """The module of the handler."""
    from tensorflow.python.distribute.failure_handling import failure_handling

    return failure_handling


def handler() -> Any:
    """The class."""
    return module().PreemptionCheckpointHandler


def before(patch: Patch, method: str, what: Callable[..., None]) -> None:
    """Have something done before a method of the handler, with its arguments."""

    def other(found: Method) -> Method:
        def replaced(self: Any, *args: Any, **kwargs: Any) -> Any:
            what(self, *args, **kwargs)
            return found(self, *args, **kwargs)

        return replaced

    patch(handler(), method, other)


def after(patch: Patch, method: str, what: Callable[[Any], None]) -> None:
    """Have something done after a method of the handler."""

    def other(found: Method) -> Method:
        def replaced(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = found(self, *args, **kwargs)
            what(self)
            return result

        return replaced

    patch(handler(), method, other)


def instead(patch: Patch, method: str, what: Method) -> None:
    """Have something done in place of a method; it is given the method first."""

    def other(found: Method) -> Method:
        return lambda self, *args, **kwargs: what(found, self, *args, **kwargs)

    patch(handler(), method, other)


def refusing(patch: Patch, when: Callable[..., bool]) -> None:
    """Have the constructor refuse some of its arguments."""

    def refuse(
        self: Any, resolver: Any, what: Any, directory: Any = None, config: Any = None
    ) -> None:
        if when(resolver, what, directory, config):
            raise TypeError("refused by a mutant")

    before(patch, "__init__", refuse)


def configured(patch: Patch, **forced: Any) -> None:
    """Have what TerminationConfig says count for nothing.

    Args:
        patch: Replaces.
        forced: What holds instead.
    """

    def other(found: Method) -> Method:
        def init(self: Any, *args: Any) -> None:
            names = ("termination_watcher_fn", "exit_fn", "grace_period", "save_fn")
            found(self, **{**dict(zip(names, args, strict=False)), **forced})

        return init

    patch(module().BorgTerminationConfig, "__init__", other)


def unsaved(patch: Patch, name: str) -> None:
    """Have checkpoints leave out an object."""
    import tensorflow as tf

    def other(found: Method) -> Method:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            kwargs.pop(name, None)
            found(self, *args, **kwargs)

        return init

    patch(tf.train.Checkpoint, "__init__", other)


def restoring(patch: Patch, choose: Callable[[Any], str | None]) -> None:
    """Have managers restore another checkpoint, or none.

    Args:
        patch: Replaces.
        choose: Given a manager, the path of what it is to restore.
    """
    import tensorflow as tf

    def other(found: Method) -> Method:
        def restore(self: Any) -> Any:
            path = choose(self)
            if path is not None:
                self._checkpoint.restore(path)
            return path

        return restore

    patch(tf.train.CheckpointManager, "restore_or_initialize", other)

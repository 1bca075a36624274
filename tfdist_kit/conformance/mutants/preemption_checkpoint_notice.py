"""Ways to break how a notice is handled, and how processes leave."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant
from tfdist_kit.conformance.mutants._preemption import (
    after,
    before,
    configured,
    handler,
    instead,
    module,
)


@mutant("preempt.notice.watched-from-construction", name="watching-begins-after-the-first-call")
def _(patch: Patch) -> None:
    watch = handler()._start_watching_for_signal
    instead(patch, "_start_watching_for_signal", lambda found, self: None)

    def begin(self: Any) -> None:
        watch(self)

    after(patch, "run", begin)


@mutant("preempt.notice.any-worker", name="only-the-chief-is-heard")
def _(patch: Patch) -> None:
    def hear(found: Any, self: Any) -> None:
        if self._is_chief:
            found(self)

    instead(patch, "_maybe_set_received_own_sigterm", hear)


@mutant("preempt.notice.handled-at-next-run", name="saves-much-later")
def _(patch: Patch) -> None:
    from tensorflow.python.eager import context

    def other(found: Any) -> Any:
        def tell(self: Any, key: str, value: str) -> Any:
            late = str(int(value) + 30) if key == "RUN_TO_CHECKPOINT" and value.isdigit() else value
            return found(self, key, late)

        return tell

    patch(context.Context, "set_config_key_value", other)


def _only_one(self: Any) -> None:
    if not self._received_own_sigterm.is_set():
        raise RuntimeError("another worker was first")


@mutant("preempt.notice.several-at-once", name="second-worker-with-a-notice-fails")
def _(patch: Patch) -> None:
    after(patch, "_maybe_set_received_own_sigterm", _only_one)


@mutant("preempt.notice.repeated", name="second-notice-is-an-error")
def _(patch: Patch) -> None:
    def refuse(self: Any) -> None:
        if self._received_own_sigterm.is_set():
            raise RuntimeError("there was a notice already")

    before(patch, "_maybe_set_received_own_sigterm", refuse)


@mutant("preempt.run.between-calls-only", name="notice-ends-the-process-at-once")
def _(patch: Patch) -> None:
    instead(patch, "_sigterm_handler_fn", lambda found, self, *_: sys.exit(42))


@mutant("preempt.leaving.process-exits", name="leaves-as-if-done")
def _(patch: Patch) -> None:
    configured(patch, exit_fn=lambda: sys.exit(0))


@mutant("preempt.leaving.exit-fn", name="leaves-before-it-saves")
def _(patch: Patch) -> None:
    before(patch, "_save_checkpoint", lambda self: self._exit_fn())


@mutant("preempt.leaving.exit-fn-restarts", name="leaves-without-saving")
def _(patch: Patch) -> None:
    instead(patch, "_save_checkpoint", lambda found, self: None)


@mutant("preempt.leaving.slow-saver", name="slow-saves-are-not-waited-for")
def _(patch: Patch) -> None:
    def save(found: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        thread = threading.Thread(target=found, args=(self, *args), kwargs=kwargs)
        thread.start()
        thread.join(0.3)

    instead(patch, "_save_checkpoint", save)


@mutant("preempt.leaving.default-codes", name="leaves-google-with-another-code")
def _(patch: Patch) -> None:
    util = module().failure_handling_util
    patch(util, "gce_exit_fn", lambda found: lambda: sys.exit(1))


@mutant("preempt.termination.sigterm-by-default", name="another-signal-is-the-notice")
def _(patch: Patch) -> None:
    def watch(found: Any, self: Any) -> None:
        signal.signal(signal.SIGUSR1, self._sigterm_handler_fn)

    instead(patch, "_start_watching_for_signal", watch)


@mutant("preempt.save-if-preempted.own-loop", name="own-loop-never-saves")
def _(patch: Patch) -> None:
    instead(patch, "save_checkpoint_if_preempted", lambda found, self, *_, **__: None)


@mutant("preempt.save-if-preempted.without-run", name="own-loop-needs-run")
def _(patch: Patch) -> None:
    def own(found: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        if getattr(self, "has_run", False):
            found(self, *args, **kwargs)

    instead(patch, "save_checkpoint_if_preempted", own)


@mutant("preempt.save-if-preempted.arguments", name="own-loop-forgets-arguments")
def _(patch: Patch) -> None:
    instead(patch, "save_checkpoint_if_preempted", lambda found, self, *_, **__: found(self))


@contextmanager
def _plain(_: Any) -> Iterator[None]:
    yield


@mutant("preempt.watch-scope.errors", name="scope-tells-nobody")
def _(patch: Patch) -> None:
    patch(handler(), "watch_preemption_scope", lambda found: _plain)


@mutant("preempt.watch-scope.not-needed", name="notices-count-within-the-scope-only")
def _(patch: Patch) -> None:
    @contextmanager
    def scope(self: Any) -> Iterator[None]:
        self.is_within = True
        yield

    patch(handler(), "watch_preemption_scope", lambda found: scope)

    def check(found: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        if getattr(self, "is_within", False):
            found(self, *args, **kwargs)

    instead(patch, "_check_preemption_and_maybe_checkpoint", check)


@mutant("preempt.run.errors-everywhere", name="errors-are-not-told")
def _(patch: Patch) -> None:
    from tensorflow.python.eager import context

    patch(context.Context, "report_error_to_cluster", lambda found: lambda *_: None)


@mutant("preempt.run.lost-worker", name="lost-worker-is-passed-over")
def _(patch: Patch) -> None:
    import tensorflow as tf

    def run(found: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return found(self, *args, **kwargs)
        except tf.errors.OpError:
            return None

    instead(patch, "_run_for_multi_worker_mirrored", run)

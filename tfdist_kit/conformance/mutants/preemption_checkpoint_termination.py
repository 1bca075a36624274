"""Ways to break what TerminationConfig says, and what is done on Google's machines."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant
from tfdist_kit.conformance.mutants._preemption import configured, instead, module


def _util() -> Any:
    return module().failure_handling_util


@mutant("preempt.platform.detected", name="everywhere-is-google")
def _(patch: Patch) -> None:
    patch(_util(), "on_gcp", lambda found: lambda: True)


@mutant("preempt.platform.google-gpu", name="another-maintenance-is-waited-for")
def _(patch: Patch) -> None:
    def other(found: Any) -> Any:
        return lambda: _util().request_compute_metadata("instance/maintenance-event") == "MIGRATE"

    patch(_util(), "termination_watcher_function_gce", other)


@mutant("preempt.platform.google-gpu-grace", name="google-has-no-grace")
def _(patch: Patch) -> None:
    patch(_util(), "GRACE_PERIOD_GCE", lambda found: 0)


@mutant("preempt.platform.watcher-of-ones-own", name="watcher-is-not-asked")
def _(patch: Patch) -> None:
    configured(patch, termination_watcher_fn=None)


@mutant("preempt.platform.grace-and-exit", name="exit-fn-is-not-asked")
def _(patch: Patch) -> None:
    configured(patch, exit_fn=lambda: sys.exit(42))


@mutant("preempt.termination.watcher-polled", name="watcher-is-asked-without-pause")
def _(patch: Patch) -> None:
    def other(found: Any) -> Any:
        return SimpleNamespace(
            sleep=lambda _: time.sleep(0.01), time=time.time, monotonic=time.monotonic
        )

    patch(module(), "time", other)


def _exit_now(found: Any, self: Any) -> bool:
    return True


@mutant("preempt.termination.grace-trains-on", name="leaves-at-the-first-save")
def _(patch: Patch) -> None:
    instead(patch, "_time_to_exit", _exit_now)


@mutant("preempt.termination.training-ends-in-the-grace", name="grace-is-not-used")
def _(patch: Patch) -> None:
    instead(patch, "_time_to_exit", _exit_now)


@mutant("preempt.termination.no-grace", name="there-is-always-some-grace")
def _(patch: Patch) -> None:
    configured(patch, grace_period=0.3)


@mutant("preempt.termination.save-fn", name="only-the-chief-calls-save-fn")
def _(patch: Patch) -> None:
    def save(found: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        if self._is_chief:
            found(self, *args, **kwargs)

    instead(patch, "_save_checkpoint", save)


@mutant("preempt.termination.save-fn-arguments", name="save-fn-gets-no-arguments")
def _(patch: Patch) -> None:
    instead(patch, "_save_checkpoint", lambda found, self, *_, **__: found(self))


@mutant("preempt.termination.errors-of-the-save", name="failed-save-counts-as-saved")
def _(patch: Patch) -> None:
    def save(found: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            found(self, *args, **kwargs)
        except Exception:
            return

    instead(patch, "_save_checkpoint", save)

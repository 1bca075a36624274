"""Ways to break what is saved, and what comes back of it."""

from __future__ import annotations

import json
import os
from typing import Any

from tfdist_kit.conformance.marks import Patch, mutant


@mutant("mwms.saving.on-all-workers", name="restore-leaves-mirrored-variables")
def _restore_leaves_mirrored_variables(patch: Patch) -> None:
    import tensorflow as tf
    from tensorflow.python.distribute import values_util

    patch(values_util, "get_on_write_restore_ops", lambda _: lambda var, tensor: tf.no_op())


@mutant(
    "mwms.saving.one-worker-alone-blocks",
    name="each-worker-saves-its-own-part",
    also=(
        "mwms.collectives.on-read-all-reduces",
        "mwms.saving.on-read-aggregates",
        "mwms.saving.same-on-every-worker",
    ),
)
def _each_worker_saves_its_own_part(patch: Patch) -> None:
    from tensorflow.python.distribute import values

    # Saving even looks for attributes of the variable by what it is read as.
    patch(values.SyncOnReadVariable, "_get_cross_replica", lambda _: lambda self: self._primary)


@mutant("mwms.saving.on-read-aggregates", name="sums-are-saved-as-means")
def _sums_are_saved_as_means(patch: Patch) -> None:
    _save_on_read(
        patch,
        lambda variable: variable.distribute_strategy.reduce("MEAN", variable, axis=None),
    )


@mutant(
    "mwms.saving.same-on-every-worker",
    name="each-worker-adds-its-index-to-what-it-saves",
    also=("mwms.saving.on-all-workers",),
)
def _each_worker_adds_its_index(patch: Patch) -> None:
    from tensorflow.python.distribute import values_util

    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    _save(patch, values_util, "get_on_write_saveable", lambda v: v.read_value() + float(index))


@mutant("mwms.saving.saved-model", name="loading-leaves-variables-empty")
def _loading_leaves_variables_empty(patch: Patch) -> None:
    from tensorflow.python.saved_model import load

    patch(load.Loader, "_restore_checkpoint", lambda _: lambda self: None)


def _save_on_read(patch: Patch, value: Any) -> None:
    from tensorflow.python.distribute import values_util

    _save(patch, values_util, "get_on_read_saveable", value)


def _save(patch: Patch, module: Any, function: str, value: Any) -> None:
    """Have what is saved of a variable be ``value(variable)``."""

    def make(original: Any) -> Any:
        def saveable(var: Any, primary_var: Any, name: str) -> Any:
            _, [spec] = original(var, primary_var, name)
            spec._tensor = lambda: value(var)
            return spec._tensor, [spec]

        return saveable

    patch(module, function, make)

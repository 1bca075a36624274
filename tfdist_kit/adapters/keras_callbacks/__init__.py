"""Keras 3's callbacks, for training on several workers.

Each is a subclass of Keras' own of the same name and does what that does, with these additions:

    ModelCheckpoint   one file, written whole, and all workers decide alike what is the best
    BackupAndRestore  goes on at the very batch, with the data that comes next; on preemption, too
    EarlyStopping     all workers stop in the same epoch
    TensorBoard       the chief's logs alone, or a folder for each worker

The classes are made when they are first used: importing this module does not import Keras.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdist_kit import _lazy

if TYPE_CHECKING:
    from tfdist_kit.adapters.keras_callbacks.backup import BackupAndRestore
    from tfdist_kit.adapters.keras_callbacks.early_stopping import EarlyStopping
    from tfdist_kit.adapters.keras_callbacks.model_checkpoint import ModelCheckpoint
    from tfdist_kit.adapters.keras_callbacks.tensorboard import TensorBoard

__all__ = ["BackupAndRestore", "EarlyStopping", "ModelCheckpoint", "TensorBoard"]

_HERE = "tfdist_kit.adapters.keras_callbacks"
__getattr__ = _lazy.looked_up(
    __name__,
    {
        "BackupAndRestore": f"{_HERE}.backup",
        "EarlyStopping": f"{_HERE}.early_stopping",
        "ModelCheckpoint": f"{_HERE}.model_checkpoint",
        "TensorBoard": f"{_HERE}.tensorboard",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Real data for several workers: TFDS splits, shared out so that each example is read once.

``load`` gives a worker its share, ``steps_per_epoch`` says how long an epoch is, ``prepare`` has
a data set on disk before training starts. ``uci_digits`` is a data set that needs no download.
TensorFlow and TFDS are imported when one of these is called, so that a strategy can come first.
"""

from tfdist_kit.adapters.datasets.pipeline import load, steps_per_epoch
from tfdist_kit.adapters.datasets.source import prepare

__all__ = ["load", "prepare", "steps_per_epoch"]

"""Saving and restoring by all workers together: `save` and `restore`, which every worker calls.

TensorFlow's and Keras' own code writes and reads. This adds what they leave to each program: who
writes where, that the file appears whole, that all workers wait for it, and that all of them learn
when it fails.
"""

from tfdist_kit.adapters.checkpoint.restoring import restore
from tfdist_kit.adapters.checkpoint.saving import save

__all__ = ["restore", "save"]

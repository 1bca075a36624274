"""Whether XLA compiles what is being traced, for what XLA cannot compile."""

from __future__ import annotations

from tfdist_kit.adapters._private import private


def in_xla() -> bool:
    """Whether the graph that is being made is XLA's to compile."""
    import tensorflow as tf

    if tf.executing_eagerly():
        return False
    inside = private("tensorflow.python.ops.control_flow_util", "GraphOrParentsInXlaContext")
    return bool(inside(tf.compat.v1.get_default_graph()))

"""Who tells a worker that its time is over: a `Termination` for each platform.

    platform -> metadata server, file, signal -> watcher (once a second) -> the handler saves

Each function makes a `Termination`, which is a `tf.distribute.experimental.TerminationConfig`: for
the kit's handler, and for TensorFlow's. A watcher never raises, never takes longer than its second,
and stays fired. TensorFlow is imported when one of the functions is called.
"""

from tfdist_kit.adapters.preemption_checkpoint.watchers.on_aws import aws_spot
from tfdist_kit.adapters.preemption_checkpoint.watchers.on_azure import azure
from tfdist_kit.adapters.preemption_checkpoint.watchers.on_file import file
from tfdist_kit.adapters.preemption_checkpoint.watchers.on_gce import gce, is_gce
from tfdist_kit.adapters.preemption_checkpoint.watchers.on_kubernetes import kubernetes
from tfdist_kit.adapters.preemption_checkpoint.watchers.on_slurm import slurm
from tfdist_kit.adapters.preemption_checkpoint.watchers.on_url import http

__all__ = ["aws_spot", "azure", "file", "gce", "http", "is_gce", "kubernetes", "slurm"]

"""A machine that takes itself for one of Google's: a metadata server in the worker itself."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tfdist_kit.conformance.checks.preemption_checkpoint._training import NOWHERE, Training, notice
from tfdist_kit.conformance.stage import Stage

MAINTENANCE = "instance/maintenance-event"
PREEMPTED = "instance/preempted"
HOST = {"instance/hostname": "a.google.internal"}
QUIET = {**HOST, MAINTENANCE: "NONE", PREEMPTED: "FALSE"}
_BEFORE = "/computeMetadata/v1/"


class Metadata:
    """What the server tells, and what it was asked.

    Attributes:
        values: By path.
        asked: The paths that were asked for.
        flavor: Whether replies say that they are Google's.
    """

    def __init__(self, values: Mapping[str, str], flavor: bool = True) -> None:
        self.values = dict(values)
        self.asked: list[str] = []
        self.flavor = flavor

    def reply(self, path: str) -> tuple[int, str]:
        """The status and the text for a path."""
        path = path.partition("?")[0].removeprefix(_BEFORE)
        self.asked.append(path)
        return (200, self.values[path]) if path in self.values else (404, "")


@contextmanager
def metadata(values: Mapping[str, str], flavor: bool = True) -> Iterator[Metadata]:
    """A metadata server, which this process takes for the platform's."""
    told = Metadata(values, flavor)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = told.reply(self.path)
            self.send_response(status)
            if told.flavor:
                self.send_header("Metadata-Flavor", "Google")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Be quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        os.environ["GCE_METADATA_IP"] = f"127.0.0.1:{server.server_address[1]}"
        os.environ["no_proxy"] = "*"
        yield told
        server.shutdown()


def as_if_with_a_gpu() -> None:
    """Have TensorFlow's look at the platform find a GPU."""
    from tensorflow.python.distribute.failure_handling import failure_handling_util as util

    platforms = util.PlatformDevice

    def detect_platform() -> Any:
        return platforms.GCE_GPU if util.on_gcp() else platforms.INTERNAL_GPU

    util.detect_platform = detect_platform


def detected(stage: Stage) -> None:
    """Whether this is one of Google's machines, by what answers."""
    from tensorflow.python.distribute.failure_handling import failure_handling_util as util

    with metadata(QUIET):
        stage.say("google", answer=util.on_gcp())
    with metadata({}):
        stage.say("no such page", answer=util.on_gcp())
    os.environ["GCE_METADATA_IP"] = NOWHERE
    stage.say("nobody", answer=util.on_gcp())
    with metadata({"instance/hostname": "log in first"}, flavor=False):
        stage.say("somebody else", answer=util.on_gcp())


def on_a_cpu(stage: Stage) -> None:
    """A cluster of CPU machines at Google, and a SIGTERM."""
    with metadata(QUIET):
        training = Training(stage)
        try:
            training.go(notices=((1, 2),))
        finally:
            if stage.rank == 0:
                training.saved()


def on_a_gpu(stage: Stage, path: str = MAINTENANCE, grace: float | None = 0.0) -> None:
    """A GPU machine at Google, without a cluster, that is told that its end is near.

    Args:
        stage: Where it plays.
        path: Which page of the metadata tells it.
        grace: The grace_period that is given; -1 for none.
    """
    os.environ.pop("TF_CONFIG", None)
    as_if_with_a_gpu()
    text = {MAINTENANCE: "TERMINATE_ON_HOST_MAINTENANCE", PREEMPTED: "TRUE"}[path]
    given: dict[str, Any] = {} if grace == -1 else {"grace_period": grace}
    with metadata({**QUIET, path: text}) as told:
        training = Training(stage, **given)
        ends = time.monotonic() + 0.8
        try:
            while time.monotonic() < ends:
                training.handler.run(training.train_step)
                training.step.assign_add(1)
                time.sleep(0.01)
            stage.say("trained on")
        finally:
            stage.say("asked", paths=sorted(set(told.asked)))
            training.saved()


def keras_2(stage: Stage, where: str, batches: int = 6, at: int = 3, lost: bool = False) -> None:
    """tf_keras' BackupAndRestore, which may use the handler.

    Args:
        stage: Where it plays.
        where: "elsewhere", "google" for a CPU machine there, or "answers" where a server says that
            it has no such page: the callback takes that for Google's, and the handler does not.
        batches: How many there are.
        at: Before which batch the last rank gets a notice; -1 for none.
        lost: Whether the other workers' own folders are gone.
    """
    import shutil

    import numpy as np
    import tensorflow as tf
    import tf_keras

    os.environ["GCE_METADATA_IP"] = NOWHERE
    if lost and stage.rank:
        for folder in stage.folder.rglob("workertemp_*"):
            shutil.rmtree(folder)
    tf_keras.utils.set_random_seed(1)
    with nullcontext() if where == "elsewhere" else metadata(QUIET if where == "google" else {}):
        strategy = stage.subject.make_strategy()
        with strategy.scope():
            model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(2,))])
            model.compile("sgd", "mse")

        def weights() -> list[float]:
            return [float(each) for each in model.get_weights()[0].ravel()]

        class Notice(tf_keras.callbacks.Callback):  # type: ignore[misc]
            def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
                stage.say("batch", number=batch, weights=weights())
                if batch == at and stage.rank == last:
                    notice()

        last = strategy.num_replicas_in_sync - 1
        data = tf.data.Dataset.from_tensor_slices((np.ones((2, 2)), np.ones((2, 1)))).repeat()
        backup = tf_keras.callbacks.BackupAndRestore(
            str(stage.folder / "backup"), save_freq="epoch", save_before_preemption=True
        )
        try:
            model.fit(
                data.batch(2), steps_per_epoch=batches, callbacks=[backup, Notice()], verbose=0
            )
        finally:
            stage.say("model", weights=weights())


def keras_3(stage: Stage) -> None:
    """Keras 3's BackupAndRestore with what its docstring mentions."""
    import keras

    keras.callbacks.BackupAndRestore(str(stage.folder / "backup"), save_before_preemption=True)
    stage.say("made")

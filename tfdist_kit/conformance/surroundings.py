"""What a run was made with, and what is not there that a claim needs. Nothing is imported."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tfdist_kit.conformance.claims import Needs
from tfdist_kit.conformance.subjects import ADAPTER, STOCK
from tfdist_kit.launcher.start.gpus import visible

_TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tf-nightly", "tf-nightly-cpu", "tensorflow-gpu")
_TPU_DEVICES = ("/dev/accel0", "/dev/vfio/0")


@dataclass(frozen=True)
class Surroundings:
    """This machine and what is installed on it.

    Attributes:
        tensorflow: Its version; empty if it is not installed.
        keras: The version of Keras 3; empty if it is not installed.
        tf_keras: The version of Keras 2; empty if it is not installed.
        gpus: How many GPUs a program sees.
        tpu: Whether there is a TPU.
        python: Its version, as ``3.11``.
        machine: System and processor.
    """

    tensorflow: str
    keras: str
    tf_keras: str
    gpus: int
    tpu: bool
    python: str
    machine: str

    def missing(self, needs: Needs, subject: str = STOCK) -> str:
        """What a claim needs and there is not, in words; empty if all is there.

        Args:
            needs: What it needs.
            subject: What is checked; the adapter brings something along.
        """
        if needs.tpu and not self.tpu:
            return "a TPU"
        if needs.embedding_engine and not self.tpu and subject != ADAPTER:
            return "a TPU; --subject adapter checks it in host mode"
        if needs.gpu and self.gpus < needs.workers:
            return "a GPU for each worker" if needs.workers > 1 else "a GPU"
        if needs.keras == 2 and not self.tf_keras:
            return "Keras 2 (tf_keras)"
        if needs.keras == 3 and not self.keras.startswith("3"):
            return "Keras 3"
        return ""

    def subject_for(self, needs: Needs, wanted: str = STOCK) -> str:
        """The subject that can show a claim: the one that is wanted, if both or neither can."""
        lacks = self.missing(needs, wanted) and not self.missing(needs, ADAPTER)
        return ADAPTER if lacks else wanted

    def to_dict(self) -> dict[str, str]:
        """For the report: what can make a difference to an outcome."""
        return {
            "tensorflow": self.tensorflow,
            "keras": self.keras,
            "tf_keras": self.tf_keras,
            "python": self.python,
            "machine": self.machine,
        }


def surroundings(environ: Mapping[str, str] = os.environ) -> Surroundings:
    """Look around."""
    return Surroundings(
        tensorflow=next(filter(None, map(_version, _TENSORFLOW)), ""),
        keras=_version("keras"),
        tf_keras=_version("tf_keras"),
        gpus=len(visible(environ)),
        tpu=any(Path(device).exists() for device in _TPU_DEVICES),
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        machine=f"{platform.system()} {platform.machine()}",
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""

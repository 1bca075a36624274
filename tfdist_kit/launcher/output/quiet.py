"""TensorFlow's start-up noise: which lines say nothing to anybody, whatever the machine.

A line is noise only if its level is I (or, for a few, W), its source file is known and its text
begins in a known way. Errors (E, F) and everything that is not known to be noise stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_INFO: Mapping[str, str] = {
    "port.cc": "oneDNN custom operations are on",
    "cudart_stub.cc": "Could not find cuda drivers on your machine, GPU will not be used",
    "cpu_feature_guard.cc": "This TensorFlow binary is optimized",
    "coordination_service.cc": r"Initializing CoordinationService|Waiting for \d+/\d+ tasks"
    r"|Example stragglers:|Barrier\(.*\) has passed with status: OK",
    "coordination_service.h": r"/job:\S+ has connected to coordination service",
    "coordination_service_agent.cc": "Coordination agent has (?:successfully|initiated)",
    "grpc_server_lib.cc": "Started server with target",
    "service.cc": r"XLA service 0x|  StreamExecutor (?:device|\[)",
    "device_compiler.h": "Compiled cluster using XLA",
    "dump_mlir_util.cc": "disabling MLIR crash reproducer",
    "mlir_graph_optimization_pass.cc": "MLIR V1 optimization pass is not enabled",
    "generator_dataset_op.cc": "Memory patch applied",
    "tf_record_dataset_op.cc": "The default buffer size is",
    "local_rendezvous.cc": "Local rendezvous is aborting with status: OUT_OF_RANGE: End of seq",
    "cuda_executor.cc": "successful NUMA node read from SysFS",
    "gpu_device.cc": "Created device /",
    "cuda_dnn.cc": "Loaded cuDNN version",
}
_WARNINGS: Mapping[str, str] = {
    "computation_placer.cc": "computation placer already registered",
    "dataset.cc": r"Input of \w+::Dataset will not be optimized",
    "local_rendezvous.cc": "Local rendezvous is aborting with status: OUT_OF_RANGE: End of seq",
    "py_utils.cc": "TF-TRT Warning: Could not find TensorRT",
}


def _by_level(level: str, known: Mapping[str, str]) -> str:
    """A pattern for lines of absl (``I0000 ... file.cc:1] text``) and of older releases."""
    sources = "|".join(f"{re.escape(file)}:\\d+\\] (?:{text})" for file, text in known.items())
    old = rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: {level} \S*?/"
    return rf"(?:{level}\d{{4}} \d\d:\d\d:\S+ +\d+ |{old})(?:{sources})"


_NOISE = re.compile(
    "|".join(
        [
            _by_level("I", _INFO),
            _by_level("W", _WARNINGS),
            r"WARNING: All log messages before absl::InitializeLog\(\) is called are written to ST",
            r"To enable the following instructions: [\w. ]+, in other operations, rebuild Tensor",
        ]
    ).encode()
)
_STRAGGLERS = b"] Example stragglers:"
_STRAGGLER = re.compile(rb"/job:\w+/(?:replica:\d+/)?task:\d+$")
_MARKS = (b".cc:", b".h:", b"WARNING: All log", b"To enable the following")


class Quiet:
    """Takes TensorFlow's start-up noise out of one stream's lines."""

    def __init__(self) -> None:
        self._lists_stragglers = False

    def filter(self, whole: bytes) -> bytes:
        """Give a block of whole lines without those that are noise."""
        if not self._lists_stragglers and not any(mark in whole for mark in _MARKS):
            return whole
        kept = [line for line in whole.splitlines(keepends=True) if not self._is_noise(line)]
        return b"".join(kept)

    def _is_noise(self, line: bytes) -> bool:
        if self._lists_stragglers and _STRAGGLER.match(line):
            return True
        noise = _NOISE.match(line) is not None
        self._lists_stragglers = noise and line.rstrip().endswith(_STRAGGLERS)
        return noise

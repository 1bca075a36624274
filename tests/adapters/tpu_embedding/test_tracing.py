"""`check_step` on programs with one fault each: it is found, placed, and nothing else is."""

from __future__ import annotations

import linecache
import re
from importlib.metadata import version

from packaging.version import Version

from tests.adapters.cluster import run_workers
from tfdist_kit.adapters.tpu_embedding.tracing.findings import MISTAKES

HERE = "tests.adapters.tpu_embedding.test_tracing"
ENQUEUE, DEQUEUE, APPLY = "own.enqueue(", "own.dequeue(", "own.apply_gradients("
MARKED = "# here"

SOUND = [
    "training",
    "evaluation",
    "a linear loss",
    "two batches",
    "two loops",
    "training, then evaluation",
    "two names",
    "enqueue inside run",
    "evaluation inside run",
    "enqueue for each core",
    "under one condition",
    "plain step, function for run",
    "own data",
    "not used, SGD",
    "not used, Adagrad",
]
# For each program, the codes of what is found, and what stands in the line of the first.
FAULTY = {
    "no embedding": ("EMB001", "@tf.function"),
    "training without gradients": ("EMB002", ENQUEUE),
    "gradients in evaluation": ("EMB003", APPLY),
    "evaluation with gradients inside run": ("EMB003", APPLY),
    "no enqueue": ("EMB004", DEQUEUE),
    "another name": ("EMB005 EMB004", ENQUEUE),
    "no dequeue": ("EMB005", ENQUEUE),
    "enqueued twice": ("EMB005 EMB002", ENQUEUE),
    "dequeued twice": ("EMB006", DEQUEUE),
    "applied twice": ("EMB007", APPLY),
    "one core is left out": ("EMB008", ENQUEUE),
    "one core twice": ("EMB008 EMB005 EMB002", ENQUEUE),
    "not watched": ("EMB009", APPLY),
    "not used, Adam": ("EMB010", APPLY),
    "not used, decay": ("EMB010", APPLY),
    "enqueue before the loop": ("EMB011", MARKED),
    "flag inside run": ("EMB012", ENQUEUE),
    "dequeue on a condition": ("EMB013", MARKED),
    "dequeue in a case": ("EMB013", MARKED),
    "zeros for gradients": ("EMB009", MARKED),
    "large, not watched": ("EMB009", MARKED),
    "applied outside run": ("EMB014", MARKED),
    "dequeue first": ("EMB015", DEQUEUE),
    "plain step": ("EMB016", "def step("),
    "ragged data for the device": ("EMB017", ""),
    "dense data for the device": ("EMB017", ""),
    "bare ragged data for the device": ("EMB017", MARKED),
    "initializer class": ("EMB018", ""),
    "own fault": ("EMB050", MARKED),
    "structure": ("EMB051", MARKED),
    "structure of gradients": ("EMB051", MARKED),
    "another shape": ("EMB052", MARKED),
    "unknown batch": ("EMB053", ENQUEUE),
    "shape of a dense feature": ("EMB054", MARKED),
    "weights": ("EMB055", MARKED),
    "shape of a gradient": ("EMB056", MARKED),
    "not built": ("EMB057", DEQUEUE),
    "nested enqueue": ("EMB058", MARKED),
    "computed input": ("EMB059", MARKED),
    "no TPU device": ("EMB060", MARKED),
    "second embedding": ("EMB061", MARKED),
    "outside the scope": ("EMB062", MARKED),
    "outside the scope, host mode": ("EMB062", "@tf.function"),
    "flag is a tensor": ("EMB063", MARKED),
    "data of a second host": ("EMB064", "tf.ragged.constant("),
    "step called": ("EMB065", MARKED),
    "eager run": ("EMB065", MARKED),
    "lambda": ("EMB067", "strategy.run("),
    "unknown optimizer": ("EMB066", MARKED),
}
# What some of the findings say of the place.
WORDS = {
    "training without gradients": "enqueue with training=True once, but apply_gradients never",
    "enqueued twice": "enqueue twice, but dequeue once",
    "one core is left out": "device:CPU:0 core 1 gets 0 of 1",
    "one core twice": "device:CPU:0 core 0 gets 1 of 2",
    "not used, Adam": "no gradient for b: with a gradient of zero, Adam still changes",
    "ragged data for the device": "RaggedTensorSpec",
    "dense data for the device": "TensorSpec (4, 1), TensorSpec (4, 1)",
    "initializer class": "table zeros is the class Zeros",
    "structure": "Expected: {'a': ., 'b': .} given: {'a': .}",
    "enqueue before the loop": "enqueue and dequeue are not in the same loop",
    "own fault": "KeyError was raised",
}
# Older ones take a bool for an enum.
OF_PROTOBUF = {"protobuf": ("EMB019", "")}
if Version(version("protobuf")) >= Version("7.34"):
    FAULTY |= OF_PROTOBUF
else:
    SOUND += OF_PROTOBUF


def _line(where: str) -> str:
    """The line of the program at ``file:line``."""
    file, _, number = where.rpartition(":")
    return linecache.getline(file, int(number)).strip() if number else ""


def in_worker_programs() -> dict[str, list[tuple[str, str, str]]]:
    from tests.adapters.tpu_embedding.faulty import PROGRAMS
    from tfdist_kit.adapters.tpu_embedding import check_step

    told = {}
    for name, (make, inputs) in PROGRAMS.items():
        hosts = 2 if "second host" in name else 1
        found = check_step(make, inputs, hosts=hosts, cores_per_host=2 // hosts).findings
        told[name] = [(each.code, _line(each.where), str(each)) for each in found]
    return told


def test_each_fault_is_found_in_its_line_and_sound_steps_have_none() -> None:
    [told] = run_workers(f"{HERE}:in_worker_programs", workers=0)
    expected = {name: codes.split() for name, (codes, _) in FAULTY.items()}
    found = {name: [code for code, _, _ in findings] for name, findings in told.items()}
    assert found == {**{name: [] for name in SOUND}, **expected}
    lines = {name: told[name][0][1] for name in FAULTY}
    assert {name: line for name, line in lines.items() if FAULTY[name][1] not in line} == {}
    texts = {name: "\n".join(text for _, _, text in findings) for name, findings in told.items()}
    assert {name: texts[name] for name, words in WORDS.items() if words not in texts[name]} == {}
    for name in FAULTY:
        assert "\n  cure: " in texts[name]
        assert not re.search(r"\$[a-z]", texts[name])


def test_every_mistake_is_tried() -> None:
    codes = [codes for codes, _ in (FAULTY | OF_PROTOBUF).values()]
    assert set(" ".join(codes).split()) == set(MISTAKES)

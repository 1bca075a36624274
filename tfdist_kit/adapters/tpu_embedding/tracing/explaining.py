"""TensorFlow's errors while a step is made or traced, as findings.

exception -> TensorFlow's own words, and the user's line -> the mistake whose words they are
"""

from __future__ import annotations

import re
import traceback
from importlib.metadata import version

from tfdist_kit._errors import text_of
from tfdist_kit.adapters.tpu_embedding.tracing import findings as known
from tfdist_kit.adapters.tpu_embedding.tracing.findings import Finding, Mistake
from tfdist_kit.adapters.tpu_embedding.tracing.places import place_in, place_of
from tfdist_kit.adapters.tpu_embedding.tracing.unbuilt import PACKING

LONGEST = 800
_KNOWN: tuple[tuple[str, Mistake], ...] = (
    (r"two structures don't have the same nested structure", known.STRUCTURE),
    (r"Inconsistent shape found", known.SHAPE_CONFLICT),
    (r"which is not fully defined", known.SHAPE_UNKNOWN),
    (r"Rank 2 or above dense tensor|Rank must be 1 and above", known.INPUT_SHAPE),
    (r"Only rank \d.* tensor is supported", known.INPUT_SHAPE),
    (r"Weight specified for dense input|Weight for .* does not match", known.WEIGHTS),
    (r"Found gradient of shape|found non-tensor type", known.GRADIENTS),
    (r"called on unbuilt TPUEmbedding", known.UNBUILT),
    (r"does not match graph which contains TPUReplicateContext", known.NESTED_ENQUEUE),
    (r"does not have the `_tpu_input_identity` attr", known.INDIRECT_INPUT),
    (r"Non-TPU device", known.NOT_A_TPU),
    (r"already initialized for embeddings", known.SECOND_EMBEDDING),
    (r"not created under a TPUStrategy", known.OUTSIDE_SCOPE),
    (r"feature .* is of unknown type PerReplica", known.OUTSIDE_SCOPE),
    (r"[Uu]sing a symbolic `?tf.Tensor`? as a Python `?bool`?", known.FLAG_IS_TENSOR),
    (r"unknown device|Could not satisfy device specification", known.OTHER_HOST),
    (r"Could not find device for node|No OpKernel was registered|No registered ", known.NOT_EAGER),
    (r"TPUStrategy.run.*eager|does not support pure eager|pure eager execution", known.NOT_EAGER),
    (r"device prefetch when using sparse or ragged", known.FETCHED),
    (r"is an unsupported optimizer class", known.OPTIMIZER),
    (r"<lambda>.* is not a valid (root )?scope name", known.LAMBDA),
    (PACKING, known.PROTOBUF),
)


def explained(error: Exception) -> Finding:
    """The finding that an error is."""
    text = text_of(error)
    words = _without_traceback(text)
    where = place_in(text) or place_of(traceback.extract_tb(error.__traceback__))
    for pattern, mistake in _KNOWN:
        if re.search(pattern, words):
            return mistake.at(where, words=_short(words), **_details(mistake))
    return known.RAISED.at(where, words=_short(words), error=_name(error, words))


def protobuf_fault(error: Exception) -> Finding:
    """The finding that ``build`` fails with the installed protobuf."""
    return known.PROTOBUF.at(words=_without_traceback(text_of(error)), **_details(known.PROTOBUF))


def _name(error: Exception, words: str) -> str:
    """The error's class; AutoGraph puts another in its place if it cannot make one of its own."""
    named = re.match(r"([\w.]+): ", words)
    return named[1].rpartition(".")[2] if named and _in_user_code(error) else type(error).__name__


def _in_user_code(error: Exception) -> bool:
    return text_of(error).lstrip().startswith("in user code:")


def _short(words: str) -> str:
    """Of two structures that differ, their outlines, which TensorFlow shows last."""
    _, entire, outlines = words.partition("Entire first structure:")
    if not entire:
        return words if len(words) <= LONGEST else words[:LONGEST] + " ..."
    first = words.partition("\n")[0]
    return " ".join(
        f"{first} Expected: {outlines}".replace("Entire second structure:", "given:").split()
    )


def _details(mistake: Mistake) -> dict[str, str]:
    if mistake is known.PROTOBUF:
        return {"version": version("protobuf")}
    return {"features": "sparse or ragged"} if mistake is known.FETCHED else {}


def _without_traceback(text: str) -> str:
    """An error's own words, where AutoGraph has put the user's lines before them."""
    if not text.lstrip().startswith("in user code:"):
        return text.strip()
    own = re.split(r"^ {4}(?=[\w.]+(?:Error|Exception|Warning)\b.*:)", text, flags=re.MULTILINE)
    lines = own[-1].strip().splitlines()
    return "\n".join(line.removeprefix("    ") for line in lines)

"""The UCI handwritten digits that scikit-learn ships, as a TFDS dataset: real data, no download.

1,797 grey images of 8x8 pixels with values from 0 to 16, and the digit each shows. Importing this
module makes TFDS know the name ``uci_digits``. The split is fixed: of scikit-learn's order, every
fifth image from the first one on is ``test`` (360), the others are ``train`` (1,437).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

_DESCRIPTION = """
Handwritten digits of 43 people, scanned as 32x32 bitmaps and counted down to 8x8 pixels with
values from 0 to 16: the test set of the UCI data set "Optical Recognition of Handwritten Digits",
as scikit-learn ships it. Every fifth image from the first one on is in `test`, the others are in
`train`.
"""

_CITATION = """
@misc{alpaydin1998optical,
  author = {Alpaydin, E. and Kaynak, C.},
  title = {Optical Recognition of Handwritten Digits},
  year = {1998},
  howpublished = {UCI Machine Learning Repository},
  doi = {10.24432/C50P49},
}
"""


class UciDigits(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]  # TFDS has no types
    """Builder of ``uci_digits``; features ``image`` (8, 8, 1) uint8 and ``label`` (10 classes)."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> Any:
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            citation=_CITATION,
            homepage="https://archive.ics.uci.edu/dataset/80",
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(8, 8, 1)),
                    "label": tfds.features.ClassLabel(num_classes=10),
                }
            ),
            supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples(test=False), "test": self._generate_examples(True)}

    def _generate_examples(self, test: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        from sklearn.datasets import load_digits

        digits = load_digits()
        held_out = set(np.argsort(digits.target, kind="stable")[::5].tolist())
        for index, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
            if (index in held_out) == test:
                yield index, {"image": image.astype(np.uint8)[..., np.newaxis], "label": label}

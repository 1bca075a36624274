"""Runs that need not have the same bits: how far apart they are, since when, and the picture."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.determinism.traces import rows, written
from tfdist_kit import UsageError
from tfdist_kit.determinism import Tolerance, Verdict, compare_arms
from tfdist_kit.determinism.html import html, svg

GROWS = {("weight", step): 1.0 + 10.0 ** (step - 6) for step in range(4)}


def test_the_first_step_beyond_the_tolerance(tmp_path: Path) -> None:
    first = written(tmp_path / "a", rows())
    second = written(tmp_path / "b", rows(samples=GROWS))
    growth = compare_arms(first, second, Tolerance(2e-5))
    assert growth.beyond is not None
    assert (growth.beyond.phase, growth.beyond.step) == ("weight", 2)
    assert growth.beyond.tensor == "dense/kernel"
    curve = [distance for _, distance in growth.curves["weight"]]
    assert curve == pytest.approx([0.5e-6, 0.5e-5, 0.5e-4, 0.5e-3], rel=0.1)
    assert [distance for _, distance in growth.curves["loss"]] == [0.0] * 4
    assert "beyond the tolerance at step 2: weight of dense/kernel on rank 0" in str(growth)


def test_runs_within_the_tolerance(tmp_path: Path) -> None:
    first = written(tmp_path / "a", rows())
    second = written(tmp_path / "b", rows(samples=GROWS))
    growth = compare_arms(first, second, Tolerance(1e-3))
    assert growth.beyond is None
    assert "within 0.001 of each other at every sampled place" in str(growth)
    assert compare_arms(first, second, Tolerance(0, absolute=1.0)).beyond is None


def test_digests_of_different_kinds_do_not_matter(tmp_path: Path) -> None:
    first = written(tmp_path / "a", rows())
    second = written(tmp_path / "b", rows(method="mix64"))
    assert compare_arms(first, second).beyond is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_beyond_every_tolerance(tmp_path: Path, value: float) -> None:
    first = written(tmp_path / "a", rows())
    second = written(tmp_path / "b", rows(samples={("loss", 1): value}))
    growth = compare_arms(first, second, Tolerance(10.0))
    assert growth.beyond is not None
    assert growth.beyond.step == 1
    assert compare_arms(second, second).beyond is None


def test_with_other_numbers_of_workers_only_weights_are_held_together(tmp_path: Path) -> None:
    first = written(tmp_path / "a", rows())
    second = written(tmp_path / "b", rows(samples={("loss", 1): 9.0}), rows())
    growth = compare_arms(first, second)
    assert growth.beyond is None
    assert set(growth.curves) == {"init", "weight"}


def test_runs_of_other_models(tmp_path: Path) -> None:
    first = written(tmp_path / "a", rows())
    second = written(tmp_path / "b", [row for row in rows() if row.phase == "loss"][:0])
    with pytest.raises(UsageError, match="no tensor in common"):
        compare_arms(first, second)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_tolerances_that_mean_nothing(value: float) -> None:
    with pytest.raises(UsageError, match="tolerance is"):
        Tolerance(value)


def test_the_picture_has_a_curve_for_each_phase(tmp_path: Path) -> None:
    first = written(tmp_path / "a", rows())
    second = written(tmp_path / "b", rows(samples=GROWS))
    growth = compare_arms(first, second, Tolerance(2e-5))
    picture = ElementTree.fromstring(svg(growth))
    lines = {
        line.get("stroke"): [tuple(map(float, p.split(","))) for p in points.split()]
        for line in picture.findall("polyline")
        if (points := line.get("points"))
    }
    assert len(lines) == len(growth.curves)
    *_, weights = lines.values()
    heights = [y for _, y in weights]
    assert heights == sorted(heights, reverse=True)
    assert heights[0] > heights[-1]
    page = html(Verdict((first, second)), growth)
    assert "<title>Beyond the tolerance</title>" in page
    assert svg(growth) in page

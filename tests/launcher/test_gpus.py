"""``--gpus-per-worker``: who sees which GPU. No GPU is needed, or touched."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.commands import script, tfdist
from tfdist_kit import UsageError
from tfdist_kit.launcher.start import gpus

UUIDS = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,MIG-41b36325-f0f3-5c1b-a2c5-2f5c5c1b8a1e"


def machine(folder: Path, count: int) -> Path:
    for number in range(count):
        (folder / f"0000:{number:02x}:00.0").mkdir()
    return folder


def test_ranks_get_the_gpus_of_the_machine_in_order(tmp_path: Path) -> None:
    assert gpus.share_out(2, 2, {}, machine(tmp_path, 5)) == ("0,1", "2,3")


def test_zero_hides_all(tmp_path: Path) -> None:
    assert gpus.share_out(2, 0, {}, machine(tmp_path, 5)) == ("-1", "-1")


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("3", ("3",)),
        (" 2, 0 ", ("2", "0")),
        ("1,-1,0", ("1",)),
        (UUIDS, tuple(UUIDS.split(","))),
    ],
)
def test_the_variable_is_read_as_cuda_does(
    tmp_path: Path, value: str, names: tuple[str, ...]
) -> None:
    assert gpus.visible({gpus.VARIABLE: value}, machine(tmp_path, 5)) == names


def test_a_machine_without_a_driver_has_none(tmp_path: Path) -> None:
    assert gpus.visible({}, tmp_path / "absent") == ()


@pytest.mark.parametrize(
    ("count", "environ", "told"),
    [
        (3, {}, "2 workers with 2 GPUs each need 4, and 3 are in "),
        (9, {gpus.VARIABLE: "7"}, "need 4, and 1 is in CUDA_VISIBLE_DEVICES=7"),
    ],
)
def test_too_few(tmp_path: Path, count: int, environ: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        gpus.share_out(2, 2, environ, machine(tmp_path, count))


def test_each_worker_sees_its_own(tmp_path: Path) -> None:
    name = script(tmp_path, "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])")
    options = ["--gpus-per-worker", "1", "--env", "CUDA_VISIBLE_DEVICES=4,GPU-ab"]
    result = tfdist("run", *options, name, folder=tmp_path)
    assert sorted(result.out.splitlines()) == ["[rank 0] 4", "[rank 1] GPU-ab"], result.err


def test_without_the_option_nothing_is_changed(tmp_path: Path) -> None:
    result = tfdist("run", "--dry-run", script(tmp_path, ""), folder=tmp_path)
    for worker in json.loads(result.out)["workers"]:
        assert gpus.VARIABLE not in worker["env"]


@pytest.mark.parametrize(
    ("count", "told"),
    [("2", "3 workers with 2 GPUs each need 6, and 1 is"), ("-1", "GPUs per worker is -1")],
)
def test_what_cannot_be_is_an_error_before_anything_starts(
    tmp_path: Path, count: str, told: str
) -> None:
    env = {**os.environ, gpus.VARIABLE: "0"}
    args = ["-n", "3", "--gpus-per-worker", count, "--log-dir", "logs", script(tmp_path, "")]
    result = tfdist("run", *args, folder=tmp_path, env=env)
    assert result.code == 2
    assert told in result.err
    assert not (tmp_path / "logs").exists()

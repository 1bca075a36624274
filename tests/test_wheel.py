"""What users install: the wheel, used from another folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.commands import script, tfdist

ROOT = Path(__file__).parents[1]


def test_the_wheel_works_from_another_folder(tmp_path: Path) -> None:
    source = tmp_path / "source"  # setuptools leaves its traces beside what it builds
    shutil.copytree(ROOT / "tfdist_kit", source / "tfdist_kit")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", ".."]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    assert (installed / "tfdist_kit" / "py.typed").exists()
    register = Path("tfdist_kit", "conformance", "register")
    packaged = {path.name for path in (installed / register).iterdir()}
    assert packaged == {path.name for path in (ROOT / register).glob("*.toml")} != set()
    for name in ("pytest.ini", "report/schema.json", "report/page.css", "report/page.js"):
        assert (installed / "tfdist_kit" / "conformance" / name).exists()
    assert not (installed / "tests").exists()
    name = script(tmp_path, "import tfdist_kit; print(tfdist_kit.__file__)")
    env = {"PYTHONPATH": str(installed)}
    result = tfdist("run", "-n", "1", name, folder=tmp_path, env=env)
    assert result.out == f"[rank 0] {installed}/tfdist_kit/__init__.py\n", result.err

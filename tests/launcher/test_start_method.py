"""What a program's source says about how its workers are to be started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdist_kit.launcher.start.start_method import StartMethod, choose

NO_GPU = ("/dev/no-such-gpu",)


def chosen(folder: Path, text: str, **environ: str) -> StartMethod:
    (folder / "train.py").write_text(text, encoding="utf-8")
    target = str(folder / "train.py")
    return choose("auto", target, is_module=False, environ=environ, gpus=NO_GPU)


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("import tensorflow as tf", ("tensorflow",)),
        ("from keras import layers", ("tensorflow",)),
        ("import tfdist_kit", ("tensorflow",)),
        ("from tfdist_kit.adapters import datasets", ("tensorflow",)),
        ("import tf_keras, numpy", ("tensorflow", "tf_keras")),
        ("def late():\n    import tensorflow_datasets", ("tensorflow", "tensorflow_datasets")),
        ("try: import tensorflow.compat.v1 as tf\nexcept ImportError: pass", ("tensorflow",)),
        ("import numpy", ()),
        ("import json", ()),
        ("x =", ()),
        ("", ()),
    ],
)
def test_what_is_preloaded(tmp_path: Path, text: str, modules: tuple[str, ...]) -> None:
    assert chosen(tmp_path, text).preload == modules
    assert chosen(tmp_path, text).why == ""


@pytest.mark.parametrize(
    "statement",
    [
        "os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'",
        "environ['KERAS_BACKEND'] = 'jax'",
        "os.environ.setdefault('OMP_NUM_THREADS', '1')",
        "os.environ.update({'A': 'b', 'TF_ENABLE_ONEDNN_OPTS': '0'})",
        "os.environ.update(TF_ENABLE_ONEDNN_OPTS='0')",
        "os.putenv('TF_ENABLE_ONEDNN_OPTS', '0')",
        "del os.environ['TF_CPP_MIN_LOG_LEVEL']",
        "os.environ.pop('TF_CPP_MIN_LOG_LEVEL', None)",
        "if True:\n    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'",
        "with open('x'):\n    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'",
        "try: pass\nfinally: os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'",
    ],
)
def test_a_variable_that_is_set_in_plain_sight(tmp_path: Path, statement: str) -> None:
    before = chosen(tmp_path, f"import os\n{statement}\nimport tensorflow")
    assert before.preload == ()
    assert "which is read when TensorFlow is imported" in before.why
    after = chosen(tmp_path, f"import os\nimport tensorflow\n{statement}")
    assert after.preload == ("tensorflow",)


@pytest.mark.parametrize(
    "statement",
    [
        "os.environ['TF_CONFIG'] = '{}'",
        "os.environ['TF_NUM_INTEROP_THREADS'] = '1'",
        "os.environ['CUDA_VISIBLE_DEVICES'] = '0'",
        "os.environ['MY_OWN'] = '1'",
        "os.environ[name] = '1'",
        "settings['TF_CPP_MIN_LOG_LEVEL'] = '3'",
        "def f(): os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'",
    ],
)
def test_what_needs_no_fresh_interpreter(tmp_path: Path, statement: str) -> None:
    assert chosen(tmp_path, f"import os\n{statement}\nimport tensorflow").preload


def test_a_variable_that_the_workers_have_already_is_looked_at_when_they_run(
    tmp_path: Path,
) -> None:
    text = "import os\nos.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'\nimport tensorflow"
    assert chosen(tmp_path, text, TF_CPP_MIN_LOG_LEVEL="3").preload


def test_only_the_programs_own_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "package/sub").mkdir(parents=True)
    (tmp_path / "package/__init__.py").write_text("from package.sub import model")
    (tmp_path / "package/sub/model.py").write_text("import keras")
    (tmp_path / "package/sub/__main__.py").write_text("from package.sub import model")
    (tmp_path / "package/__main__.py").write_text("import package")
    assert chosen(tmp_path, "import package").tensorflow
    assert chosen(tmp_path, "from package import sub").tensorflow
    assert not chosen(tmp_path, "import yaml, package_that_is_not_there").tensorflow
    monkeypatch.chdir(tmp_path)
    as_module = choose("auto", "package", is_module=True, environ={}, gpus=NO_GPU)
    assert as_module.preload == ("tensorflow",)
    for name in ("package.sub.model", "package.sub"):
        assert choose("auto", name, is_module=True, environ={}, gpus=NO_GPU).tensorflow


def test_files_that_import_each_other_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import b")
    (tmp_path / "b.py").write_text("import a, tensorflow")
    assert chosen(tmp_path, "import a").tensorflow


def test_the_users_own_choice(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import tensorflow")
    target = str(tmp_path / "train.py")
    for wish, gpus, preload in (
        ("fresh", NO_GPU, ()),
        ("auto", ("/dev/null",), ()),
        ("preload", ("/dev/null",), ("tensorflow",)),
    ):
        made = choose(wish, target, is_module=False, environ={}, gpus=gpus)  # type: ignore[arg-type]
        assert made.preload == preload

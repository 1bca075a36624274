"""Restores what does and does not fit; imported by TensorFlow workers only."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.adapters.tpu_embedding.saving import built, equal, values
from tfdist_kit import tpu_embedding
from tfdist_kit.adapters.tpu_embedding import HostTPUEmbedding, assert_checkpoint_matches
from tfdist_kit.adapters.tpu_embedding import restore as restore_embedding
from tfdist_kit.adapters.tpu_embedding.tracing.topology import made_up_tpu

KINDS = tf.tpu.experimental.embedding


def misfit(folder: str) -> dict[str, tuple[str, bool]]:
    """What is said of each checkpoint that does not fit, and whether nothing was changed."""
    saved = built(plain())
    path = tf.train.Checkpoint(embedding=saved, model=model(1)).save(f"{folder}/saved")
    found = {}
    for name, make in WRONG.items():
        for before in (True, False):
            checkpoint = make()
            if before:
                checkpoint.embedding.build()
                was = values(checkpoint.embedding)
            try:
                said = restore_embedding(checkpoint, path)
            except Exception as error:
                said = f"{type(error).__name__} {error}"
            checkpoint.embedding.build()
            now = values(checkpoint.embedding)
            untouched = (
                equal(was, now)
                if before
                else all(np.all(now[key] == 7.0) for key in TABLES & now.keys())
            )
            found[f"{name}, {'built' if before else 'not built'}"] = (said, untouched)
    return found


def model(*sizes: int) -> Any:
    """A Keras model whose layers have these sizes."""
    return keras.Sequential([keras.Input((3,)), *map(keras.layers.Dense, sizes)])


TABLES = {"users/parameters", "items/parameters", "films/parameters"}


def plain(
    optimizer: Any = None, names: tuple[str, ...] = ("users", "items"), rows: int = 4, dim: int = 2
) -> Any:
    """A small embedding, whose tables hold sevens until something is restored."""
    optimizer = KINDS.Adam(0.1) if optimizer is None else optimizer
    start = tf.constant_initializer(7.0)
    configs = {
        name: KINDS.FeatureConfig(KINDS.TableConfig(rows, dim, initializer=start, name=name))
        for name in names
    }
    return HostTPUEmbedding(configs, None if optimizer == "none" else optimizer)


def _holding(**options: Any) -> Callable[[], Any]:
    return lambda: tf.train.Checkpoint(embedding=plain(**options))


WRONG: dict[str, Callable[[], Any]] = {
    "renamed": _holding(names=("users", "films")),
    "more tables": _holding(names=("users", "items", "films")),
    "fewer tables": _holding(names=("users",)),
    "sgd": _holding(optimizer=KINDS.SGD(0.1)),
    "momentum": _holding(optimizer=KINDS.AdagradMomentum(0.1)),
    "rows": _holding(rows=5),
    "dim": _holding(dim=3),
    "variable": lambda: tf.train.Checkpoint(embedding=plain(), step=tf.Variable(1)),
    "keras": lambda: tf.train.Checkpoint(embedding=plain(), model=model(2)),
    "keras layer": lambda: tf.train.Checkpoint(embedding=plain(), model=model(1, 1)),
}


def fitting(folder: str) -> dict[str, bool]:
    """What does fit: lookups alone, tables by another name, other places in the checkpoint."""
    saved = built(plain())
    saved._variables["items"]["parameters"].assign(tf.random.uniform([4, 2]))
    saved._variables["items"]["momenta"].assign(tf.random.uniform([4, 2]))
    wanted = values(saved)
    path = tf.train.Checkpoint(embedding=saved).save(f"{folder}/a/saved")
    root = tf.train.Checkpoint(saved).save(f"{folder}/b/root")
    written = tf.train.Checkpoint(embedding=saved).write(f"{folder}/c/written")
    found = {}
    for before in (True, False):
        for name, target, options in (
            ("lookups alone", tf.train.Checkpoint(embedding=plain("none", ("items",))), {}),
            ("of a folder", tf.train.Checkpoint(embedding=plain()), {"path": f"{folder}/a"}),
            ("root", tf.train.Checkpoint(plain()), {"path": root}),
            ("written", tf.train.Checkpoint(embedding=plain()), {"path": written}),
            ("another name", tf.train.Checkpoint(embedding=plain(names=("users", "films"))), FILMS),
            (
                "another name, root",
                tf.train.Checkpoint(plain(names=("users", "films"))),
                {"path": root, **FILMS},
            ),
        ):
            embedding = getattr(target, "embedding", None) or target.root
            if before:
                embedding.build()
            restore_embedding(target, **{"path": path, **options})
            embedding.build()
            now = {key.replace("films", "items"): value for key, value in values(embedding).items()}
            found[f"{name} {before}"] = all(np.array_equal(now[key], wanted[key]) for key in now)
    return found


FILMS: dict[str, Any] = {"renamed": {"films": "items"}}
TWICE: tuple[tuple[tuple[str, ...], dict[str, str]], ...] = (
    (("films", "songs"), {"films": "items", "songs": "items"}),
    (("items", "songs"), {"songs": "items"}),
    (("items", "users"), {"items": "users", "users": "items"}),
    (("films", "songs"), {"films": "items", "songs": "users"}),
)


def restored_from_one(folder: str) -> list[tuple[bool, Any]]:
    """Tables of which several have one name in the checkpoint, or each other's."""
    saved = built(plain(names=("users", "items")))
    for number, slot in enumerate(("parameters", "momenta", "velocities")):
        for at, name in enumerate(("users", "items")):
            saved._variables[name][slot].assign(tf.fill([4, 2], 10.0 * at + number))
    whole = tf.train.Checkpoint(embedding=saved).save(f"{folder}/whole")
    found: list[tuple[bool, Any]] = []
    for optimizer in ("none", None):
        for names, renamed in TWICE:
            embedding = plain(optimizer, names)
            path = whole
            if len({renamed.get(name, name) for name in names}) == 1 and optimizer is None:
                path = _of_one(saved, f"{folder}/one")
            restore_embedding(tf.train.Checkpoint(embedding=embedding), path, renamed=renamed)
            wanted = {
                f"{name}/{slot}": saved._variables[renamed.get(name, name)][slot].numpy()
                for name, variables in embedding._variables.items()
                for slot in variables
            }
            found.append((equal(values(embedding), wanted), sorted(wanted)))
    return found


def _of_one(saved: Any, path: str) -> str:
    one = built(plain(names=("items",)))
    for slot, variable in one._variables["items"].items():
        variable.assign(saved._variables["items"][slot])
    return str(tf.train.Checkpoint(embedding=one).save(path))


def damaged(folder: str) -> dict[str, tuple[str, bool]]:
    """What is said of checkpoints with damage, and whether the tables are as they were."""
    path = Path(tf.train.Checkpoint(embedding=built(plain())).save(f"{folder}/whole/saved"))
    found = {}
    for suffix in (".index", ".data-00000-of-00001"):
        for way in ("gone", "empty", "half", "end", "flipped"):
            if (suffix, way) == (".index", "gone"):
                continue  # that is no checkpoint
            copy = Path(folder, f"{way}{suffix}")
            shutil.copytree(path.parent, copy)
            _damage(copy / f"{path.name}{suffix}", way)
            embedding = built(plain())
            was = values(embedding)
            calls = (
                lambda at=copy / path.name, live=embedding: restore_embedding(
                    tf.train.Checkpoint(embedding=live), at
                ),
                lambda at=copy / path.name, live=embedding: assert_checkpoint_matches(at, live),
            )
            said = [_said(call) for call in calls[: 1 if way == "flipped" else 2]]
            found[copy.name] = ("\n".join(said), equal(was, values(embedding)))
    return found


def _damage(file: Path, way: str) -> None:
    content = file.read_bytes()
    if way == "gone":
        file.unlink()
        return
    middle = len(content) // 3
    flipped = content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
    kept = {"empty": b"", "half": content[: len(content) // 2], "end": content[:-9]}
    file.write_bytes(kept.get(way, flipped))


def _said(call: Callable[[], Any]) -> str:
    try:
        return str(call())
    except Exception as error:
        return f"{type(error).__name__} {error}"


def on_tpu(path: str) -> Any:
    """A table by another name, on a TPU, before there are tables."""
    with made_up_tpu() as strategy, strategy.scope():
        configs = {
            name: KINDS.FeatureConfig(KINDS.TableConfig(4, 2, name=name))
            for name in ("users", "films")
        }
        embedding = tpu_embedding(configs, KINDS.Adam(0.1))
        return restore_embedding(tf.train.Checkpoint(embedding=embedding), path, **FILMS)


def refusals(folder: str) -> list[str]:
    """What is said of arguments that cannot be right."""
    path = tf.train.Checkpoint(embedding=built(plain())).save(f"{folder}/saved")
    unbuilt = tf.train.Checkpoint(embedding=plain()).save(f"{folder}/early/saved")
    Path(folder, "empty").mkdir()
    calls: list[Callable[[], Any]] = [
        lambda: restore_embedding(tf.train.Checkpoint(embedding=plain()), f"{folder}/empty"),
        lambda: restore_embedding(tf.train.Checkpoint(embedding=plain()), f"{path}.index"),
        lambda: restore_embedding(tf.train.Checkpoint(model=tf.Module()), path),
        lambda: restore_embedding(plain(), path),
        lambda: restore_embedding(
            tf.train.Checkpoint(embedding=plain()), path, renamed={"films": "items"}
        ),
        lambda: restore_embedding(
            tf.train.Checkpoint(embedding=plain()),
            path,
            renamed=["items"],  # type: ignore[arg-type]
        ),
        lambda: restore_embedding(
            tf.train.Checkpoint(embedding=plain()),
            path,
            renamed={"items": None},  # type: ignore[dict-item]
        ),
        lambda: restore_embedding(
            tf.train.Checkpoint(embedding=plain()), tf.train.latest_checkpoint(f"{folder}/empty")
        ),
        lambda: assert_checkpoint_matches(None, plain()),  # type: ignore[arg-type]
        lambda: restore_embedding(tf.train.Checkpoint(embedding=plain()), path.encode()),
        lambda: on_tpu(path),
        lambda: restore_embedding(tf.train.Checkpoint(table=plain()), path),
        lambda: restore_embedding(tf.train.Checkpoint(embedding=plain()), unbuilt),
        lambda: assert_checkpoint_matches(path, tf.Module()),
        lambda: assert_checkpoint_matches(path, plain(KINDS.SGD(0.1))),
        lambda: assert_checkpoint_matches(unbuilt, plain()),
    ]
    return [_said(call) for call in calls]

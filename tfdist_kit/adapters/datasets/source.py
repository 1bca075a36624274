"""From a name to a TFDS builder whose data is on disk, once per machine.

    name -> builder -> lock on its folder -> download_and_prepare by the first process
                                          -> the others wait, then read what it wrote

TFDS alone lets every process prepare its own copy and fails in all but the first. Nothing here
reaches for TFDS' public bucket; a data set that must be downloaded comes from its own home.
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import importlib
import logging
from collections.abc import Iterator
from typing import Any

from tfdist_kit._errors import DatasetError, MissingDependencyError

_log = logging.getLogger(__name__)
_INSTALL = (
    "pip install 'tfdist-kit[datasets]'; "
    "TensorFlow before 2.20 also needs 'tensorflow-metadata<1.18'"
)


def prepare(source: Any, *, data_dir: str | None = None) -> Any:
    """Have a data set on disk; safe to call in several processes at the same time.

    Args:
        source: Name of a data set that TFDS knows (``uci_digits`` is one), or a TFDS builder.
        data_dir: Folder that holds data sets. None: the builder's own, or TFDS' default
            (``$TFDS_DATA_DIR`` or ``~/tensorflow_datasets``).

    Returns:
        The ``tfds.core.DatasetBuilder``, ready for ``as_dataset``.

    Raises:
        DatasetError: TFDS knows no such data set.
        MissingDependencyError: TFDS, or a package that the data set needs, is not installed.
    """
    tfds = _tfds()
    builder = _named(tfds, source, data_dir) if isinstance(source, str) else source
    if not builder.data_path.exists():
        try:
            with _lock(builder):
                if not builder.data_path.exists():  # a peer may have been faster
                    _download_and_prepare(tfds, builder)
        except OSError as error:
            raise DatasetError(
                f"{builder.name!r} cannot be written to {builder.data_path.parent}: {error}",
                hint="give another data_dir",
            ) from error
    if not builder.info.splits:
        builder.info.read_from_directory(builder.data_dir)
    return builder


def count_examples(builder: Any, split: Any) -> int:
    """Number of examples in a split or a slice of one, such as ``train[:80%]``.

    Raises:
        DatasetError: There is no such split.
    """
    try:
        return int(builder.info.splits[split].num_examples)
    except (KeyError, ValueError, TypeError, AttributeError, AssertionError) as error:
        raise DatasetError(
            f"{builder.name!r} has no split {split!r}",
            hint=f"its splits are {', '.join(builder.info.splits)}; slices such as "
            "'train[:80%]' work, too",
        ) from error


def _tfds() -> Any:
    try:
        tfds = importlib.import_module("tensorflow_datasets")
        importlib.import_module("tensorflow_datasets.core")  # what it puts off would fail later
    except Exception as error:  # what it needs may be there in a version that does not fit
        raise MissingDependencyError(
            f"TensorFlow Datasets cannot be imported: {error}", hint=_INSTALL
        ) from error
    importlib.import_module("tfdist_kit.adapters.datasets.uci_digits")
    return tfds


def _named(tfds: Any, name: str, data_dir: str | None) -> Any:
    try:
        return tfds.builder(name, data_dir=data_dir, try_gcs=False)
    except tfds.core.DatasetNotFoundError as error:
        close = difflib.get_close_matches(name, tfds.list_builders(with_community_datasets=False))
        raise DatasetError(
            f"TFDS knows no data set {name!r}",
            hint=f"did you mean {' or '.join(close)}?"
            if close
            else "tfds.list_builders() lists the names; import the module of your own builder",
        ) from error
    except (AssertionError, ValueError) as error:  # its configuration or its version
        raise DatasetError(
            f"TFDS cannot make {name!r}: {str(error).splitlines()[0]}",
            hint="give NAME, NAME/CONFIG or NAME:VERSION",
        ) from error


def _download_and_prepare(tfds: Any, builder: Any) -> None:
    config = tfds.download.DownloadConfig(try_download_gcs=False)
    try:
        builder.download_and_prepare(download_config=config)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"preparing {builder.name!r} needs the package {error.name!r}", hint=_INSTALL
        ) from error


@contextlib.contextmanager
def _lock(builder: Any) -> Iterator[None]:
    """Hold the lock of a data set; the empty lock file stays, for removing it would race."""
    folder = builder.data_path.parent
    if "://" in str(folder):  # object stores have no locks
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".prepare.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log.info("waiting for another process to prepare %s", builder.name)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield

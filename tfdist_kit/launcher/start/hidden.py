"""Imported packages that look as if they were not imported yet, until the program imports them.

    zygote: import packages -> hide -> fork -> worker's program: import -> checks -> shown

A forked worker has TensorFlow before its program asks for it. Hidden, the packages are where a
fresh interpreter would have them at every moment: nowhere before the first import, and there after
it. At that import this module looks whether an import in a fresh interpreter would have given the
same: the environment variables that the packages read when they are imported, and where the
import system finds them now. If not, the worker has to begin afresh.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import logging
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

# What each package brings along; all of these are hidden.
BRINGS: Mapping[str, tuple[str, ...]] = {
    "numpy": (),
    "keras": ("numpy", "tensorflow"),
    "tensorflow": ("numpy", "keras"),
    "tf_keras": ("numpy", "keras", "tensorflow"),
    "tensorflow_datasets": ("numpy", "keras", "tensorflow"),
}
_NUMPY_READS = ("OMP_", "OPENBLAS_", "GOTO_", "MKL_", "BLIS_", "NPY_", "NUMPY_", "VECLIB_")
_TENSORFLOW_READS = (
    *("TF_", "TF2_", "KERAS_", "XLA_", "ONEDNN_", "DNNL_", "PROTOCOL_BUFFERS_", "HDF5_", "GCS_"),
    *("CUDA_", "TFDS_", "KMP_", "JAX_", "TORCH_", "LD_LIBRARY_PATH"),
)
# These are read when the cluster is formed or an operation runs, after every import.
_READ_LATER = (
    *("TF_CONFIG", "TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_XLA_FLAGS"),
    *("TF_GRPC_", "TF_DETERMINISTIC_OPS", "TF_CUDNN_DETERMINISTIC", "CUDA_VISIBLE_DEVICES"),
    "CUDA_DEVICE_ORDER",
)
# These are set by the imports themselves, also in a program that imports TensorFlow of its own.
_SET_AT_IMPORT = (
    *("TF2_BEHAVIOR", "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "HDF5_PLUGIN_PATH"),
)
_READ_AT_START = ("PYTHON", "LC_", "LANG")


def is_read_at_import(variable: str, package: str = "tensorflow") -> bool:
    """Whether importing `package` may read an environment variable."""
    if variable.startswith(_READ_LATER):
        return False
    if variable == "HOME":  # Keras' and TFDS' settings are found there
        return package != "numpy"
    reads = _NUMPY_READS if package == "numpy" else (*_NUMPY_READS, *_TENSORFLOW_READS)
    return variable.startswith(reads)


def read_before_a_fork(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment on which a preloaded process may depend."""
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(_READ_AT_START) or is_read_at_import(name)
        if name not in _SET_AT_IMPORT
    }


@dataclass
class Hidden:
    """The finder that stands for the hidden packages.

    Args:
        environ: The environment in which they were imported.
        made: The variables that importing them has set.
        filters: The warning filters before they were imported.
        on_difference: Called with the reason when a fresh interpreter would have imported
            something else; returns only if that does not matter.
    """

    environ: Mapping[str, str]
    made: Mapping[str, str]
    filters: Sequence[Any]
    on_difference: Callable[[str], None]
    _modules: dict[str, dict[str, ModuleType]] = field(init=False, default_factory=dict)
    _new_filters: list[Any] = field(init=False, default_factory=list)
    _loggers: list[Any] = field(init=False, default_factory=list)
    _handlers: list[Any] = field(init=False, default_factory=list)

    def hide(self) -> None:
        """Hide what is imported of the packages."""
        for package in BRINGS:
            names = [name for name in sys.modules if name.partition(".")[0] == package]
            if package in names:
                self._modules[package] = {name: sys.modules.pop(name) for name in names}
        self._loggers = list(logging.Logger.manager.loggerDict.values())
        self._handlers = logging.getLogger("tensorflow").handlers[:]
        del logging.getLogger("tensorflow").handlers[:]
        self._new_filters = [kept for kept in warnings.filters if kept not in self.filters]
        _set_filters(self.filters)
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`; finds the hidden packages and nothing else."""
        if name not in self._modules:
            return None
        difference = self._difference(name)
        if difference:
            self.on_difference(difference)
        spec = importlib.machinery.ModuleSpec(name, _Loader(self, name))
        known = self.module(name).__spec__
        if known is not None:
            spec.origin, spec.cached = known.origin, known.cached
            spec.has_location = known.has_location
            spec.submodule_search_locations = known.submodule_search_locations
        return spec

    def _difference(self, package: str) -> str:
        """Why a fresh import would be different, or an empty string."""
        for variable in sorted({*self.environ, *os.environ}):
            now, then = os.environ.get(variable), self.environ.get(variable)
            if now == then or (now is not None and now == self.made.get(variable)):
                continue
            if is_read_at_import(variable, package):
                done = "takes out" if now is None else "sets"
                return f"the program {done} {variable}, which {package} reads, and then imports it"
        return self._found_elsewhere(package)

    def _found_elsewhere(self, package: str) -> str:
        spec = importlib.machinery.PathFinder.find_spec(package)
        ours = getattr(self.module(package), "__file__", None)
        if spec is not None and ours is not None and spec.origin != ours:
            return f"the program's own search path gives {package} as {spec.origin}"
        return ""

    def module(self, package: str) -> ModuleType:
        """The hidden package itself."""
        return self._modules[package][package]

    def show(self, package: str) -> None:
        """Put a package, and what it brings along, where an import puts them."""
        for shown in (package, *BRINGS[package]):
            sys.modules.update(self._modules.pop(shown, {}))
        if not self._modules:
            sys.meta_path.remove(self)
        if package == "numpy":
            return
        for variable, value in self.made.items():
            os.environ.setdefault(variable, value)
        _set_filters([*self._new_filters, *warnings.filters])
        self._new_filters = []
        self._show_loggers()

    def _show_loggers(self) -> None:
        """Leave the loggers as imports leave them that come after what the program has set up."""
        for logger in self._loggers:
            if isinstance(logger, logging.Logger):
                logger.disabled = False  # it has not been there to be disabled
        if not logging.getLogger().handlers:  # only then TensorFlow adds one of its own
            logging.getLogger("tensorflow").handlers[:0] = self._handlers
        self._handlers = []


def _set_filters(filters: Sequence[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


class _Loader(importlib.abc.Loader):
    """Loads a hidden package by showing it."""

    def __init__(self, hidden: Hidden, package: str) -> None:
        self._hidden = hidden
        self._package = package
        self._module = hidden.module(package)
        self._spec = self._module.__spec__

    def __getattr__(self, name: str) -> Any:
        """What the package's own loader has besides, for those who only look at it."""
        return getattr(self._module.__loader__, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """See `importlib.abc.Loader`."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Undo what the import system has done to the module, and show the rest of it."""
        module.__spec__ = self._spec
        self._hidden.show(self._package)

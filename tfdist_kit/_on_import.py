"""Acts on a module as soon as it has been imported, without importing it.

when_imported(name, act) -> loaded already? act now : a finder that lets the import pass
    -> the module is made -> act
"""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Act = Callable[[ModuleType], None]


def when_imported(name: str, act: Act) -> None:
    """Call `act` with a module: now if it is loaded, or right after its import.

    Args:
        name: The module's full name.
        act: What to do with it; asked for twice, it is done once.
    """
    if (module := sys.modules.get(name)) is not None:
        act(module)
    elif not any(isinstance(finder, _Finder) and finder.is_for(act) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(name, act))


class _Finder:
    """Lets the import of one module pass, and acts on what it made."""

    def __init__(self, name: str, act: Act) -> None:
        self._name, self._act = name, act

    def is_for(self, act: Act) -> bool:
        return self._act is act

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`; finds nothing but that module."""
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        loader = spec.loader if spec else None
        if isinstance(loader, importlib.machinery.SourceFileLoader):
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                self._act(module)

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

"""Refuses a script or module that certainly cannot be run, without importing any of it."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from tfdist_kit._errors import UsageError


def check_target(target: str, *, is_module: bool) -> None:
    """Refuse a target that is not there.

    Args:
        target: A script's path, or a module's name.
        is_module: Which of them it is.

    Raises:
        UsageError: It cannot be found or read.
    """
    if is_module:
        _check_module(target)
        return
    try:
        _check_script(Path(target))
    except OSError as error:  # a name that no file can have
        raise UsageError(f"the script cannot be used: {error}", hint="check the path") from error


def _check_script(path: Path) -> None:
    if path.is_dir():
        raise UsageError(
            f"{path} is a directory, not a script",
            hint="name the script in it, or run a package with -m",
        )
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"the script {path} does not exist (looked in {Path.cwd()})",
            hint=_hint_for_a_missing_script(path.name),
        ) from None
    if not os.access(path, os.R_OK):
        raise UsageError(f"the script {path} cannot be read", hint=f"chmod +r {path}")


def _hint_for_a_missing_script(name: str) -> str:
    if name.startswith("python"):
        return "leave the interpreter out: tfdist run SCRIPT starts it itself"
    return "check the path, or use -m for a module"


def _check_module(name: str) -> None:
    top, _, below = name.partition(".")
    search = [os.getcwd(), *sys.path]
    importlib.invalidate_caches()
    spec = PathFinder.find_spec(top, search) or _found_otherwise(top)
    if spec is None or (below and not _may_hold(spec, below)):
        raise UsageError(
            f"no module named {name!r} can be found",
            hint=f"check the name, install it, or run from the folder that holds {top}",
        )


def _found_otherwise(top: str) -> ModuleSpec | None:
    """What another finder knows, as that of a package that is installed for editing."""
    try:
        return importlib.util.find_spec(top)
    except (ValueError, ImportError):
        return None


def _may_hold(package: ModuleSpec, below: str) -> bool:
    """Whether a package may have a module; one that sets its own search path may have any."""
    places: Sequence[str] | None = package.submodule_search_locations
    if places is None:
        return False
    if package.origin is not None and _sets_its_path(Path(package.origin)):
        return True
    first, _, rest = below.partition(".")
    spec = PathFinder.find_spec(f"{package.name}.{first}", list(places))
    return spec is not None and (not rest or _may_hold(spec, rest))


def _sets_its_path(init: Path) -> bool:
    try:
        text = init.read_bytes()
    except OSError:
        return True  # not a file: who knows
    return b"__path__" in text or b"sys.modules" in text

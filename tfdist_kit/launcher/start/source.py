"""What a program's source says about its imports, without running any of it.

Only the program's own files are read: its script or module, and the modules in the same folder
that these import. What they do when they run is not known here; see `hidden` for that.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MOST_FILES = 200
_ENVIRON_METHODS = ("setdefault", "update", "pop")


@dataclass(frozen=True)
class Source:
    """A program's source.

    Attributes:
        imports: The top-level names of everything that it imports, in any of its files.
        variables: The environment variables that the main file sets while it is being run from
            the top, before its first import of one of the packages asked for; with the line.
    """

    imports: frozenset[str]
    variables: tuple[tuple[str, int], ...]


def read(path: Path, folder: Path, packages: frozenset[str], only: str = "") -> Source:
    """Read a program.

    Args:
        path: Its main file.
        folder: Where its own modules lie.
        packages: Whose import ends the search for variables.
        only: The one package in the folder that is the program's own; empty if all are.
    """
    main = _parse(path)
    imports: set[str] = set()
    waiting, seen = [path], {path}
    while waiting and len(seen) <= _MOST_FILES:
        for name in _imported(_parse(waiting.pop())):
            top = name.partition(".")[0]
            imports.add(top)
            is_own = top == only if only else top not in packages
            for file in _own_files(name, folder) if is_own else ():
                if file not in seen:
                    seen.add(file)
                    waiting.append(file)
    return Source(frozenset(imports), tuple(_variables(main.body, packages)))


def file_of_module(name: str) -> tuple[Path, Path] | None:
    """The file that ``python -m name`` would run and the folder it is found in, or None."""
    for entry in ("", *sys.path):
        folder = Path(entry or ".")
        for file in _own_files(f"{name}.__main__", folder)[-1:] + _own_files(name, folder)[-1:]:
            if file.name != "__init__.py":
                return file, folder
    return None


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):  # Python will say it when it runs
        return ast.Module([], [])


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _own_files(name: str, folder: Path) -> list[Path]:
    """The files below `folder` that importing `name` would run, as far as they exist."""
    found = []
    place = folder
    for part in name.split("."):
        package, module = place / part / "__init__.py", place / f"{part}.py"
        place /= part
        if package.is_file():
            found.append(package)
        elif module.is_file():
            return [*found, module]
        elif not place.is_dir():
            return found
    return found


def _variables(body: list[ast.stmt], packages: frozenset[str]) -> Iterator[tuple[str, int]]:
    for node in _in_order(body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
            if any(name and name.partition(".")[0] in packages for name in names):
                return
        yield from ((name, node.lineno) for name in _set_by(node))


def _in_order(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block and of the blocks in it, but not of functions and classes."""
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for block in ("body", "handlers", "orelse", "finalbody"):
                yield from _in_order(getattr(node, block, []))


def _set_by(node: ast.stmt) -> Iterator[str]:
    """The variables that one statement sets by name."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.Delete):
        targets = node.targets
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield from _set_by_call(node.value)
    for target in targets:
        if isinstance(target, ast.Subscript) and _is_environ(target.value):
            yield from _text(target.slice)


def _set_by_call(call: ast.Call) -> Iterator[str]:
    function = call.func
    if not isinstance(function, ast.Attribute):
        return
    if function.attr in ("putenv", "unsetenv") and call.args:
        yield from _text(call.args[0])
    elif function.attr in _ENVIRON_METHODS and _is_environ(function.value):
        for argument in call.args[:1]:
            keys = argument.keys if isinstance(argument, ast.Dict) else [argument]
            for key in keys:
                yield from _text(key)
        yield from (keyword.arg for keyword in call.keywords if keyword.arg)


def _is_environ(node: ast.expr) -> bool:
    named = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return named == "environ"


def _text(node: ast.expr | None) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value

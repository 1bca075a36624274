"""How a run's workers are to be started: forked from a preloaded process, or each afresh.

Preloading is chosen where it helps and the result is the same as with fresh interpreters, as far
as that can be known before the program runs. Where it helps and cannot be used, the reason is
given; where it would not help, nothing need be said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tfdist_kit.launcher.start import source
from tfdist_kit.launcher.start.hidden import BRINGS, is_read_at_import

Wish = Literal["auto", "preload", "fresh"]
GPU_DEVICES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dxg")
_KIT = "tfdist_kit"
_BASE = "tensorflow"


@dataclass(frozen=True)
class StartMethod:
    """The choice.

    Attributes:
        preload: What to import before the workers are forked; empty for fresh interpreters.
        why: Why preloading is not used although it would help.
        tensorflow: Whether the program imports TensorFlow, as far as its source tells.
    """

    preload: tuple[str, ...] = ()
    why: str = ""
    tensorflow: bool = True

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user should know about it, a line each."""
        return (f"workers start in fresh interpreters: {self.why}",) if self.why else ()


def choose(
    wish: Wish,
    target: str,
    *,
    is_module: bool,
    environ: Mapping[str, str],
    gpus: Sequence[str] = GPU_DEVICES,
) -> StartMethod:
    """Choose for a program.

    Args:
        wish: What the user asks for; ``"auto"`` leaves the choice to what is known to be safe.
        target: The script's path or the module's name.
        is_module: Which of them it is.
        environ: The workers' environment.
        gpus: Device files that only a machine with a GPU has.
    """
    program = _program(target, is_module)
    imports = program.imports & {*BRINGS, _KIT}
    uses = bool(imports - {"numpy"})
    if wish == "fresh" or (wish == "auto" and not uses):
        return StartMethod(tensorflow=uses)
    for variable, line in program.variables:
        if is_read_at_import(variable) and variable not in environ:
            why = (
                f"{target}:{line} sets {variable}, which is read when TensorFlow is imported "
                f"(with --env {variable}=... they could be forked from a preloaded process)"
            )
            return StartMethod(why=why)
    gpu = gpu_device(gpus)
    if wish == "auto" and gpu is not None:
        return StartMethod(why=f"there is a GPU ({gpu}), where preloading has not been proven safe")
    return StartMethod(preload=_modules(imports))


def gpu_device(gpus: Sequence[str] = GPU_DEVICES) -> str | None:
    """The first of the device files that is there."""
    return next((device for device in gpus if Path(device).exists()), None)


def _program(target: str, is_module: bool) -> source.Source:
    packages = frozenset({*BRINGS, _KIT})
    if not is_module:
        return source.read(Path(target), Path(target).resolve().parent, packages)
    found = source.file_of_module(target)
    if found is None:
        return source.Source(frozenset(), ())
    path, folder = found
    installed = folder.resolve() != Path.cwd()
    return source.read(path, folder, packages, target.partition(".")[0] if installed else "")


def _modules(imports: frozenset[str]) -> tuple[str, ...]:
    more = imports - {"numpy", "keras", _BASE, _KIT}  # TensorFlow brings NumPy and Keras with it
    return (_BASE, *sorted(more))

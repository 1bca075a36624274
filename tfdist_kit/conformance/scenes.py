"""Small programs that end their processes, each run once for all the checks that look at it.

    a check: play(program, ...) -> a cluster of its own -> program(stage, ...) in every worker
    -> what each worker has said, how its process has ended, what lies in the folder -> Scene

A check that plays a scene runs in pytest's own process. What was played is kept for the session,
by program, arguments and mutant: a dozen claims about one preemption cost one preemption.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfdist_kit.conformance.stage import Said, Stage, break_here, perform, read
from tfdist_kit.conformance.subjects import Subject
from tfdist_kit.conformance.suites import Suite
from tfdist_kit.testing.marker import Wish

if TYPE_CHECKING:
    from tfdist_kit.launcher import CallOutcome, RankOutcome
    from tfdist_kit.testing.running import Runner

LIMIT = 20.0
"""How long a scene may take, in seconds."""
MUTANT_LIMIT = 10.0
MUTANT_DRAIN = 2.5
"""How long, under a mutant, a scene may take, and the others have when one worker has ended."""


@dataclass(frozen=True, repr=False)
class Part:
    """What one worker did in a scene.

    Attributes:
        rank: The worker.
        code: The exit code of its process, below 0 for a signal; 0 if the program came to its end;
            None if it had not ended in time.
        said: What it said, in order.
        where: Where it was when it had not ended.
    """

    rank: int
    code: int | None
    said: tuple[Said, ...]
    where: str = ""

    def all(self, word: str) -> list[Said]:
        """Whatever it said that begins with a word."""
        return [said for said in self.said if said.word == word]

    def one(self, word: str) -> Said:
        """The one thing that it said so.

        Raises:
            AssertionError: It did not say that, or more than once.
        """
        found = self.all(word)
        if len(found) != 1:
            raise AssertionError(f"rank {self.rank} said {word!r} {len(found)} times: {self}")
        return found[0]

    def __repr__(self) -> str:
        """What is the same in each run."""
        told = ", ".join(word for word, _ in itertools.groupby(map(repr, self.said)))
        ended = "has not ended" if self.code is None else f"left with {self.code}"
        return f"rank {self.rank} {ended}, after: {told or 'nothing'}"


@dataclass(frozen=True, repr=False)
class Scene:
    """What became of a program.

    Attributes:
        key: What it was, for whoever plays it again.
        parts: What each worker did, in rank order.
        folder: The folder that all of them had.
    """

    key: str
    parts: tuple[Part, ...]
    folder: Path

    @property
    def codes(self) -> tuple[int | None, ...]:
        """The exit codes of all, in rank order."""
        return tuple(part.code for part in self.parts)

    def ended(self, *codes: int) -> Scene:
        """This scene, if its workers have ended so.

        Raises:
            AssertionError: They have ended otherwise.
        """
        if self.codes != codes:
            raise AssertionError(f"exit codes {self.codes} and not {codes}\n  {self}")
        return self

    def __repr__(self) -> str:
        return "\n  ".join(map(repr, self.parts))

    def files(self, below: str = "") -> list[str]:
        """The files and the empty folders in the folder, or in one below it, sorted."""
        top = self.folder / below
        found = [path for path in top.rglob("*") if path.is_file() or not any(path.iterdir())]
        return sorted(path.relative_to(top).as_posix() for path in found)


@dataclass
class Played:
    """The scenes of a session.

    Attributes:
        folder: Where theirs are.
        scenes: By what they were.
    """

    folder: Path
    scenes: dict[str, Scene] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenes:
    """Plays scenes; the value of the fixture ``scenes``.

    Attributes:
        runner: Has the clusters.
        played: What was played before.
        subject: What the check is about.
        suite: Whose mutants there are.
        mutant: How TensorFlow is broken in the workers; empty if it is not.
    """

    runner: Runner
    played: Played
    subject: Subject
    suite: Suite
    mutant: str = ""

    def play(
        self,
        program: Callable[..., None],
        *,
        workers: int = 2,
        chief: bool = False,
        evaluator: bool = False,
        limit: float = LIMIT,
        drain: float | None = None,
        after: Scene | None = None,
        **arguments: Any,
    ) -> Scene:
        """Run a program, unless that was done before.

        Args:
            program: A function of a module; it is given a `Stage` and `arguments` in each worker.
            workers: How many tasks of type ``worker``.
            chief: Whether there is one of type ``chief``.
            evaluator: Whether there is one of type ``evaluator``.
            limit: How long it may take, in seconds.
            drain: How long the others have when one worker has ended; None is up to the limit.
            after: The scene that it follows: it finds that one's folder as it was left.
            arguments: For the program.
        """
        limit, drain = self._patience(limit, drain)
        wish = Wish(workers=workers, chief=chief, evaluator=int(evaluator), timeout=limit)
        shape = (workers, chief, evaluator, limit, drain)
        before = after.key if after is not None else ""
        name = f"{program.__module__}.{program.__qualname__}"
        key = f"{before}>{self.mutant}:{name}{shape}{sorted(arguments.items())}"
        scenes = self.played.scenes
        if key not in scenes:
            folder = self._folder(after)
            self._run(wish, drain, program, folder, arguments, key)
        return scenes[key]

    def __reduce__(self) -> str:
        raise TypeError("scenes are played in pytest's own process: leave out the mark tfdist")

    def _patience(self, limit: float, drain: float | None) -> tuple[float, float | None]:
        """Many a mutant makes workers wait for ever."""
        if not self.mutant:
            return limit, drain
        return min(limit, MUTANT_LIMIT), MUTANT_DRAIN if drain is None else drain

    def _folder(self, after: Scene | None) -> Path:
        folder = self.played.folder / f"scene{len(list(self.played.folder.iterdir()))}"
        (folder / "said").mkdir(parents=True)
        if after is None:
            (folder / "work").mkdir()
        else:
            shutil.copytree(after.folder, folder / "work")
        return folder

    def _run(
        self,
        wish: Wish,
        drain: float | None,
        program: Callable[..., None],
        folder: Path,
        arguments: Mapping[str, Any],
        key: str,
    ) -> None:
        stage = Stage(str(folder / "work"), str(folder / "said"), self.subject)
        with self.runner.cluster(wish, drain=drain) as cluster:
            if self.mutant:
                cluster.run(break_here, self.suite.mutants_folder, self.mutant)
            outcome = cluster.run_each(perform, program, stage, arguments)
        parts = tuple(_part(rank, folder / "said") for rank in outcome.ranks)
        _check(outcome)
        self.played.scenes[key] = Scene(key, parts, folder / "work")


def _part(rank: RankOutcome, folder: Path) -> Part:
    said = read(folder / f"{rank.rank}.jsonl")
    return Part(rank.rank, _code(rank), said, rank.where if _code(rank) is None else "")


def _code(rank: RankOutcome) -> int | None:
    if rank.kind == "returned":
        return 0
    return getattr(rank.lost, "returncode", None) if rank.kind == "died" else None


def _check(outcome: CallOutcome) -> None:
    """Let what broke the rig break the check: a program's own end is never an exception here."""
    for rank in outcome.ranks:
        if rank.kind == "raised":
            error = outcome.error()
            assert error is not None
            raise error

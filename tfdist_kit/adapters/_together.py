"""One thing that all workers do together: each does its part, and all come to the same end.

    each worker: its part -> "done" or "failed: why" -> a meeting -> all go on, or all raise

The first failure, in rank order, is raised everywhere with the same message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from tfdist_kit._errors import CheckpointError, TfdistError, UsageError, text_of
from tfdist_kit.adapters._meeting import AbsentError, Group, Meeting

T = TypeVar("T")


class Together:
    """The workers that do one thing together.

    Args:
        group: They.
        deadline: Seconds that they wait for the last one at each stage.
        doing: What becomes of `what`, as in "was not saved".
        what: What it is about, the same on all workers.

    Attributes:
        is_over: Whether it has failed, on all workers.
    """

    def __init__(self, group: Group, *, deadline: float, doing: str, what: str) -> None:
        if not isinstance(deadline, int | float) or not deadline > 0:
            raise UsageError(f"deadline is {deadline!r}", hint="give a number of seconds above 0")
        self._group, self._deadline = group, deadline
        self._doing, self._what = doing, what
        self._meeting = Meeting(group, deadline)
        self.is_over = False

    def stage(self, part: Callable[[], T], *, is_usage: bool = False) -> dict[str, T]:
        """Do this worker's part, and meet the others.

        Args:
            part: What to do; what it returns is told to all, so JSON must be able to hold it.
            is_usage: Whether an OSError comes from what was asked for.

        Returns:
            What each worker's part returned, in rank order.

        Raises:
            UsageError: What was asked for cannot be done on some worker.
            CheckpointError: Some worker's part failed, or it did not come.
        """
        try:
            done = part()
        except Exception as error:
            self.fail(error, is_usage=is_usage)
        return self.agree(done)

    def agree(self, done: T) -> dict[str, T]:
        """Tell that this worker's part is done, and meet the others; as in `stage`."""
        told = self._meet({"done": done}, None)
        return {task: words["done"] for task, words in told.items()}

    def fail(self, error: Exception, *, is_usage: bool = False) -> NoReturn:
        """Tell that this worker's part has failed, and raise what all workers raise."""
        usage = isinstance(error, UsageError) or (is_usage and isinstance(error, OSError))
        reason, hint = f"{type(error).__name__}: {text_of(error)}", ""
        if isinstance(error, TfdistError):
            reason, hint = error.args[0], error.hint
        failed = {"why": reason, "hint": hint, "usage": usage}
        self._meet({"failed": failed}, error)
        raise AssertionError("a failure that was told is raised")

    def _meet(self, words: dict[str, Any], cause: Exception | None) -> dict[str, Any]:
        try:
            told = self._meeting.tell({**words, "doing": self._doing, "what": self._what})
            self._raise_failure(told, cause)
            self._refuse_others(told)
        except AbsentError as error:
            self.is_over = True
            raise self._absent(error.tasks) from cause
        except Exception:
            self.is_over = True
            raise
        return told

    def _absent(self, tasks: tuple[str, ...]) -> CheckpointError:
        names = ", ".join(tasks)
        return CheckpointError(
            f"{self._what} was not {self._doing}: {names} did not come within {self._deadline:g} s",
            hint="every worker must make this call, the same number of times",
            tasks=tasks,
        )

    def _refuse_others(self, told: dict[str, Any]) -> None:
        """Refuse workers that do something else at the same time."""
        things = {task: f"{words['doing']} {words['what']}" for task, words in told.items()}
        if len(set(things.values())) > 1:
            listed = "; ".join(f"{task}: {thing}" for task, thing in things.items())
            raise UsageError(
                f"the workers do not do the same thing together: {listed}",
                hint="make the same calls with the same arguments, in the same order, on each",
            )

    def _raise_failure(self, told: dict[str, Any], cause: Exception | None) -> None:
        for task, words in told.items():
            if failed := words.get("failed"):
                who = "" if len(told) == 1 else f" on {task}"
                message = f"{words['what']} was not {words['doing']}{who}: {failed['why']}"
                if failed["usage"]:
                    raise UsageError(message, hint=failed["hint"]) from cause
                raise CheckpointError(message, hint=failed["hint"], tasks=(task,)) from cause

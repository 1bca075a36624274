"""Every error that tfdist-kit raises on purpose.

    TfdistError
    +-- UsageError               what was asked for cannot be done as asked; nothing was started
    |   +-- RunFileError         a preset file (TOML) has an unknown key or a wrong value
    |   +-- UnsupportedStrategyError  it cannot be done with this kind of strategy
    +-- TFConfigError            TF_CONFIG cannot describe a working cluster; carries the findings
    +-- StrategyError            a strategy cannot be made, or would not be what was asked for
    |   +-- TooLateError         TensorFlow was initialised before the strategy; a RuntimeError
    |   +-- JoinTimeoutError     a task of the cluster did not join in time; carries the tasks
    +-- DatasetError             data cannot be split over the workers as asked
    +-- CheckpointError          the workers could not save, or restore, together; carries who
    +-- EmbeddingError           an embedding's step or tables are not as they must be
    +-- ClusterError             a LocalCluster cannot go on
    |   +-- WorkerError          a function raised in a worker; carries the rank and the traceback
    |   +-- WorkerLostError      a worker's process has ended; carries the rank and how it ended
    |   +-- ClusterTimeoutError  a function did not return in time; carries the ranks
    |   +-- ExchangeError        workers of one call could not exchange a value
    +-- RegisterError            a file of the register of claims is wrong
    +-- MissingDependencyError   an optional package is not installed
    +-- UnsupportedVersionError  TensorFlow's or Keras' internals are not as expected

Each class has a stable ``code``; each instance says what was wrong with the value that was given
(``args[0]``) and what to do about it (``hint``).
"""

from __future__ import annotations


class TfdistError(Exception):
    """Base of every error of tfdist-kit.

    Args:
        message: What was given and why it is wrong, in one sentence.
        hint: What to do about it.

    Attributes:
        code: Stable identifier of the kind of error.
    """

    code = "TFD000"
    ag_pass_through = True
    """AutoGraph makes another class of an error raised in a tf.function, but for this mark."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.code}: {self.args[0]}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class UsageError(TfdistError, ValueError):
    """What was asked for cannot be done as asked; nothing was started."""

    code = "TFD001"


class RunFileError(UsageError):
    """A preset file has an unknown key or a wrong value."""

    code = "TFD002"


class UnsupportedStrategyError(UsageError, NotImplementedError):
    """It cannot be done with this kind of strategy.

    A NotImplementedError too, which is what TensorFlow itself raises.
    """

    code = "TFD003"


class TFConfigError(TfdistError, ValueError):
    """TF_CONFIG cannot describe a working cluster.

    Attributes:
        findings: What the lint found, as `tfdist_kit.tf_config.Finding`.
    """

    code = "TFD010"

    def __init__(self, message: str, *, hint: str = "", findings: tuple[object, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.findings = findings


class StrategyError(TfdistError):
    """A strategy cannot be made, or would not be what was asked for."""

    code = "TFD020"


class TooLateError(StrategyError, RuntimeError):
    """TensorFlow was initialised before the strategy could configure it.

    A RuntimeError too, which is what TensorFlow itself raises.
    """

    code = "TFD021"


class JoinTimeoutError(StrategyError):
    """A task of the cluster did not join in time.

    Attributes:
        missing: The tasks that did not join, as ``type:index``.
    """

    code = "TFD022"

    def __init__(self, message: str, *, hint: str = "", missing: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.missing = missing


class DatasetError(TfdistError):
    """Data cannot be split over the workers as asked."""

    code = "TFD030"


class EmbeddingError(TfdistError, RuntimeError):
    """A step with a `TPUEmbedding`, or its tables, are not as they must be.

    A RuntimeError too, which is what TensorFlow itself raises.
    """

    code = "TFD080"


class ClusterError(TfdistError):
    """A `LocalCluster` cannot go on."""

    code = "TFD050"


class WorkerError(ClusterError):
    """A function raised in a worker, and its exception could not be brought over.

    Attributes:
        rank: The worker.
        traceback: The worker's traceback, as text.
    """

    code = "TFD051"

    def __init__(self, message: str, *, hint: str = "", rank: int = 0, traceback: str = "") -> None:
        super().__init__(message, hint=hint)
        self.rank = rank
        self.traceback = traceback


class WorkerLostError(ClusterError):
    """A worker's process has ended while it was needed.

    Attributes:
        rank: The worker.
        returncode: How its process ended; negative for a signal.
    """

    code = "TFD052"

    def __init__(
        self, message: str, *, hint: str = "", rank: int = 0, returncode: int | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.rank = rank
        self.returncode = returncode


class ClusterTimeoutError(ClusterError):
    """A function did not return in time in every worker.

    Attributes:
        ranks: Those in which it did not.
    """

    code = "TFD053"

    def __init__(self, message: str, *, hint: str = "", ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.ranks = ranks


class ExchangeError(ClusterError):
    """The workers of one call could not exchange a value.

    Attributes:
        aftermath: Whether that is only the consequence of another worker's failure.
    """

    code = "TFD054"

    def __init__(self, message: str, *, hint: str = "", aftermath: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.aftermath = aftermath


class RegisterError(TfdistError):
    """A file of the register of claims is wrong."""

    code = "TFD060"


class MissingDependencyError(TfdistError):
    """An optional package is not installed."""

    code = "TFD040"


class UnsupportedVersionError(TfdistError):
    """The internals of TensorFlow or Keras are not as expected."""

    code = "TFD041"


class CheckpointError(TfdistError):
    """The workers could not save, or restore, together.

    Attributes:
        tasks: The tasks that failed, or that did not take part in time, as ``type:index``.
    """

    code = "TFD070"

    def __init__(self, message: str, *, hint: str = "", tasks: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.tasks = tasks


def text_of(error: BaseException) -> str:
    """The exception's text, even of one that cannot be turned into text."""
    try:
        return str(error)
    except Exception:
        return "<no text: its __str__ failed>"

"""What a run computes, step by step, as digests in a file: see `tfdist_kit.determinism`.

    Keras: make_train_function -> the step, with digests in it -> slot -> a read each } -> trace
    a loop of one's own: record(...) in the step               -> a call of Python    }

`digests` makes them in the graph, `collecting` keeps them in order, `writing` writes the lines.
The recorder changes nothing that a program computes: it draws no random number, makes no variable
that a strategy or a model could see, and adds no collective.
"""

from typing import TYPE_CHECKING

from tfdist_kit import _lazy

if TYPE_CHECKING:
    from tfdist_kit.adapters.op_determinism.recorder.keras_models import at_import
    from tfdist_kit.adapters.op_determinism.recorder.loops import record
    from tfdist_kit.adapters.op_determinism.recorder.manifest import manifest
    from tfdist_kit.adapters.op_determinism.recorder.replicas import check_replicas
    from tfdist_kit.adapters.op_determinism.recorder.session import recording

__all__ = ["at_import", "check_replicas", "manifest", "record", "recording"]

_HOME = "tfdist_kit.adapters.op_determinism.recorder"
__getattr__ = _lazy.looked_up(
    __name__,
    {
        "at_import": f"{_HOME}.keras_models",
        "check_replicas": f"{_HOME}.replicas",
        "manifest": f"{_HOME}.manifest",
        "record": f"{_HOME}.loops",
        "recording": f"{_HOME}.session",
    },
)

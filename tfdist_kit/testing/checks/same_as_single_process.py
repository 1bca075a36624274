"""Does one step on all replicas do what one step on the whole batch does in a single process?

make_state() in the strategy's scope -> values at the start --copied-->  make_state()
  | strategy.run(step_fn) on each replica's rows                           | step_fn on all
  v                                                                        v
values after the step  <--- the same, within a tolerance? (`updates`) --->  values
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tfdist_kit._errors import UsageError
from tfdist_kit.testing.checks.comparison import ALONE, REHEARSED, Comparison
from tfdist_kit.testing.checks.ranks import Ranks
from tfdist_kit.testing.checks.replicas_agree import disagreement, read
from tfdist_kit.testing.checks.state import digest
from tfdist_kit.testing.checks.steps import Step, StepFn, deal, whole
from tfdist_kit.testing.checks.updates import Difference, Outcome, Tolerance


def assert_same_as_single_process(
    step_fn: StepFn | None,
    make_state: Callable[[], Any],
    batch: Any,
    *,
    strategy: Any = None,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    variables: Callable[[Any], Any] | None = None,
) -> None:
    """Check that a training step on all replicas is that of one process on the whole batch.

    Call it in every worker, outside `strategy.scope()`. Both steps start from the same values:
    those that the variables have in the strategy. Build model and optimizer in `make_state`.

    Args:
        step_fn: One replica's step: ``step_fn(state, rows)`` computes the loss of these rows and
            updates the variables. It is run by `strategy.run`, and alone on the whole batch.
            What depends on the number of replicas it must ask of `tf.distribute.get_strategy()`.
            None is a step of ``model.fit``, where the state is a compiled Keras model.
        make_state: Makes what the step updates, with the same variables each time: a model, an
            optimizer, a `tf.Module`, a list or dict of such. It is called in the strategy's scope
            and without a strategy.
        batch: The rows of the global batch: an array or a nest of arrays, the first dimension of
            each is the rows. The same on all workers.
        strategy: The strategy; None for `tfdist_kit.multi_worker_mirrored()`.
        rtol: Relative tolerance of values after the step.
        atol: Absolute tolerance of values after the step.
        variables: Which variables of the state to compare, as a function of it; None for all (of
            a Keras model its weights and its optimizer's variables).

    Raises:
        AssertionError: The steps differ, or fail; says in which variables, by how much, and the
            cause that was seen. On all ranks with the same message.
        UsageError: The check could not fail, because the step changes nothing; or an argument
            is wrong.
    """
    __tracebackhide__ = True
    _refuse_scope()
    ranks = Ranks.of(strategy)
    tolerance = Tolerance(rtol, atol)
    rows = ranks.together("checking the arguments", lambda: _check(batch, tolerance, ranks))
    _check_same_batch(ranks, batch)
    states = _states(ranks, make_state, step_fn)
    outcome = _compare(Comparison(ranks, states, variables), Step(step_fn), batch, rows, tolerance)
    if outcome.differences or outcome.disagreement:
        raise AssertionError(outcome.message(tolerance))


def _refuse_scope() -> None:
    import tensorflow as tf

    if tf.distribute.has_strategy() and tf.distribute.in_cross_replica_context():
        raise UsageError(
            "the check was called in a strategy's scope, where nothing is a single process",
            hint="call it outside of that, with strategy=",
        )


def _check(batch: Any, tolerance: Tolerance, ranks: Ranks) -> int:
    import tensorflow as tf

    sizes = {np.shape(leaf)[:1] for leaf in tf.nest.flatten(batch)}
    if len(sizes) != 1 or sizes == {()}:
        raise UsageError(
            f"the components of the batch have the sizes {sorted(sizes)}",
            hint="give arrays whose first dimension is the rows of the batch",
        )
    if not 0 <= tolerance.rtol < 1 or tolerance.atol < 0:
        raise UsageError(f"the tolerance is {tolerance}", hint="give small numbers from 0 up")
    [(size,)] = sizes
    if size < ranks.all_replicas:
        raise UsageError(
            f"the batch has {size} rows, and there are {ranks.all_replicas} replicas",
            hint="give at least one row for each of them",
        )
    return int(size)


def _check_same_batch(ranks: Ranks, batch: Any) -> None:
    import tensorflow as tf

    told = ranks.exchange([digest(np.asarray(leaf)) for leaf in tf.nest.flatten(batch)])
    if any(other != told[0] for other in told):
        raise UsageError(
            "the batch is not the same on all workers",
            hint="give the whole global batch on each of them; random data needs a seed",
        )


def _states(ranks: Ranks, make_state: Callable[[], Any], step_fn: Any) -> tuple[Any, Any, Any]:
    def in_scope() -> Any:
        with ranks.strategy.scope():
            return make_state()

    # Without a strategy first: making variables in its scope is a collective already.
    alone, rehearsed = ranks.together(
        "make_state, without a strategy,", lambda: (make_state(), make_state())
    )
    state = ranks.together("make_state, in the strategy's scope,", in_scope)
    if step_fn is None:
        ranks.together("checking the model", lambda: _check_model(state))
    return state, alone, rehearsed


def _check_model(model: Any) -> None:
    if not hasattr(model, "fit") or getattr(model, "optimizer", None) is None:
        raise UsageError(
            f"step_fn is None, and the state is {type(model).__name__}, not a compiled model",
            hint="give step_fn, or a make_state that compiles and returns a Keras model",
        )
    if any(base.__module__.startswith("keras.") for base in type(model).__mro__):
        from tfdist_kit.adapters.keras import enable_multi_worker

        enable_multi_worker()


def _compare(
    states: Comparison, step: Step, batch: Any, rows: int, tolerance: Tolerance
) -> Outcome:
    """Do the step on the replicas and alone, from the same start. A collective.

    Each worker does it with its replicas' rows alone before: what fails for some rows only fails
    there, when nobody waits for this worker in a collective.
    """
    ranks = states.ranks
    states.find("before the step")
    before = disagreement(ranks, read(ranks, states.on_replicas))
    if before:
        raise AssertionError(f"before the step, {before}")
    states.keep_start()
    share = deal(ranks, batch)
    for rows_of_one in reversed(share.parts):  # the first replica's last, to be compared
        states.alone(REHEARSED, functools.partial(step.alone, rows=rows_of_one))
    step.on_replicas(ranks, states.states[0], share)
    states.alone(ALONE, functools.partial(step.alone, rows=whole(batch)))
    states.find("after the step")
    return _outcome(states, rows, tolerance)


def _outcome(states: Comparison, rows: int, tolerance: Tolerance) -> Outcome:
    """The same on all ranks: the differences are those of the first rank that has any."""
    ranks = states.ranks
    updates, own = states.updates(ALONE), states.updates(REHEARSED)
    shows = any(update.shows(tolerance) for update in updates)
    if not any(ranks.exchange(shows)):
        raise _toothless(tolerance)
    message = disagreement(ranks, read(ranks, states.on_replicas))
    differing = [place for place, update in enumerate(updates) if update.differs(tolerance)]
    is_own = not any(own[place].differs(tolerance) for place in differing)
    told = ranks.exchange(tuple(Difference.of(updates[place]) for place in differing))
    differences = next((each for each in told if each), ())
    is_own = all(ranks.exchange(is_own)) and bool(differences) and ranks.all_replicas > 1
    outcome = Outcome(differences, len(updates), ranks.all_replicas, rows, is_own, message)
    if outcome.is_all_new and not outcome.has_known_ratio:
        raise _made_late(differences)
    return outcome


def _toothless(tolerance: Tolerance) -> UsageError:
    return UsageError(
        f"the step changes no variable beyond the tolerance ({tolerance}), or makes NaN, so the "
        "check could not fail",
        hint="see whether step_fn updates the variables of the state that it is given; raise the "
        "learning rate, or lower the tolerance",
    )


def _made_late(differences: tuple[Difference, ...]) -> UsageError:
    return UsageError(
        f"{len(differences)} variables were made in the step itself, and differ: "
        f"{', '.join(each.kind for each in differences[:3])}; so they could not be given the "
        "same start",
        hint="build model and optimizer in make_state (model.build, optimizer.build)",
    )

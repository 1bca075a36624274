"""TensorFlow's MultiWorkerMirroredStrategy, made only when it can work.

    TF_CONFIG -> lint -> is TensorFlow still unused? -> coordination service -> the real class

What comes back is TensorFlow's own strategy object. This module adds what TensorFlow lacks: an
error instead of an endless wait or of silent training alone.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import MutableMapping
from typing import Any, Literal, get_args

from tfdist_kit import _first_use, _proxies
from tfdist_kit._errors import (
    JoinTimeoutError,
    MissingDependencyError,
    StrategyError,
    TfdistError,
    TooLateError,
    UsageError,
)
from tfdist_kit.adapters import _cluster, _coordination
from tfdist_kit.adapters.joining import heeding_signals
from tfdist_kit.adapters.raw_arguments import reduce_raw_arguments
from tfdist_kit.adapters.remade import meet_when_remade
from tfdist_kit.launcher.inside import report
from tfdist_kit.tf_config import Task, TFConfig

Api = Literal["v2", "compat.v1"]
OnSingleWorker = Literal["refuse", "warn", "allow"]

_log = logging.getLogger(__name__)


def multi_worker_mirrored(
    *,
    api: Api = "v2",
    communication: Any = None,
    communication_options: Any = None,
    cluster_resolver: Any = None,
    on_single_worker: OnSingleWorker = "refuse",
    join_timeout: float | None = 600.0,
    heartbeat_timeout: float | None = None,
    keras: bool = True,
) -> Any:
    """Make TensorFlow's own MultiWorkerMirroredStrategy for the cluster that TF_CONFIG describes.

    Call it before anything else that uses TensorFlow: any operation, dataset, variable or built
    Keras model initialises the runtime, and the cluster can then not be configured any more.

    Without TF_CONFIG the strategy trains on this machine alone, as TensorFlow's own does. A `ps`
    job in the cluster does no harm: TensorFlow alone waits for it for ever.

    Args:
        api: ``"v2"`` for `tf.distribute.MultiWorkerMirroredStrategy`, ``"compat.v1"`` for
            `tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy`.
        communication: How workers exchange tensors: a
            `tf.distribute.experimental.CommunicationImplementation` or its name (``"AUTO"``,
            ``"RING"``, ``"NCCL"``). The argument of that name of the compat.v1 class; for v2 it
            becomes communication options.
        communication_options: The v2 class's argument, passed on.
        cluster_resolver: Where the cluster comes from instead of TF_CONFIG.
        on_single_worker: What to do when TF_CONFIG is set and TensorFlow would nevertheless
            train alone, because the cluster is missing or misspelt in it.
        join_timeout: Seconds until a task that has not joined is an error (the leader's absence
            is noticed some 5 s later); None waits for ever, as TensorFlow does, and so does
            every worker under ``tfdist run --debug-rank``.
        heartbeat_timeout: Seconds until a task that has frozen counts as dead; None is
            TensorFlow's own (10 s).
        keras: Whether Keras 3 models are made to work on several workers (see
            `tfdist_kit.adapters.keras`).

    Returns:
        The strategy, an instance of TensorFlow's class.

    Raises:
        TFConfigError: TF_CONFIG cannot work; carries every finding.
        TooLateError: TensorFlow was initialised already; names the call, if it was seen.
        JoinTimeoutError: Some tasks did not join in time; names them.
        StrategyError: The strategy does not span the workers that TF_CONFIG promised.
        UsageError: An argument is wrong.

    Source: https://www.tensorflow.org/api_docs/python/tf/distribute/MultiWorkerMirroredStrategy
    """
    _check_arguments(api, communication_options, on_single_worker, join_timeout, heartbeat_timeout)
    if "TFDIST_DEBUG_RANK" in os.environ:
        join_timeout = None
    tf = _tensorflow()
    arguments = _class_arguments(tf, api, communication, communication_options)
    reduce_raw_arguments()
    # In graph mode the user's own servers and sessions make the cluster, whenever they like.
    eager = tf.compat.v1.executing_eagerly_outside_functions()
    if cluster_resolver is not None:
        arguments["cluster_resolver"] = cluster_resolver
        config = _cluster.from_resolver(cluster_resolver)
    else:
        config = _cluster.from_environ(
            os.environ,
            refuse_single=on_single_worker == "refuse",
            warn=on_single_worker == "warn",
            asks_port=eager and not _coordination.serves_a_cluster(),
        )
    if eager and _spans_several_tasks(config):
        _prepare(config, join_timeout, heartbeat_timeout)
    report.say("joining")
    strategy = _construct(tf, api, arguments, config, join_timeout)
    report.say("joined")
    _check_size(strategy, config)
    if keras:
        _enable_keras()
    return strategy


def _check_arguments(
    api: str,
    communication_options: Any,
    on_single_worker: str,
    join_timeout: float | None,
    heartbeat_timeout: float | None,
) -> None:
    for name, value, allowed in (
        ("api", api, get_args(Api)),
        ("on_single_worker", on_single_worker, get_args(OnSingleWorker)),
    ):
        if value not in allowed:
            raise UsageError(f"{name} is {value!r}", hint=f"use one of {', '.join(allowed)}")
    for name, seconds in (("join_timeout", join_timeout), ("heartbeat_timeout", heartbeat_timeout)):
        if seconds is not None and not seconds > 0:
            raise UsageError(f"{name} is {seconds!r}", hint="give a number of seconds above 0")
    if api == "compat.v1" and communication_options is not None:
        raise UsageError(
            "communication_options was given, which the compat.v1 class does not take",
            hint="use communication=",
        )


def _tensorflow() -> Any:
    try:
        import tensorflow
    except ImportError as error:
        raise MissingDependencyError(
            f"TensorFlow cannot be imported: {error}",
            hint="pip install 'tfdist-kit[tensorflow]', or any build of TensorFlow 2.18 to 2.21",
        ) from error
    return tensorflow


def _class_arguments(tf: Any, api: Api, communication: Any, options: Any) -> dict[str, Any]:
    if options is not None:
        if communication is not None:
            raise UsageError(
                "both communication and communication_options were given",
                hint="communication_options says all that communication does; give only that",
            )
        return {"communication_options": options}
    if communication is None:
        return {}
    implementation = tf.distribute.experimental.CommunicationImplementation
    try:
        name = communication.upper() if isinstance(communication, str) else communication
        chosen = implementation(name)
    except ValueError as error:
        raise UsageError(
            f"communication is {communication!r}",
            hint=f"use one of {', '.join(member.name for member in implementation)}, or a "
            "tf.distribute.experimental.CommunicationImplementation",
        ) from error
    if api == "compat.v1":
        return {"communication": chosen}
    return {
        "communication_options": tf.distribute.experimental.CommunicationOptions(
            implementation=chosen
        )
    }


def _spans_several_tasks(config: TFConfig) -> bool:
    return (
        config.cluster is not None
        and config.task is not None
        and _coordination.joins(config.task)
        and len(config.cluster.training_tasks) > 1
    )


def _prepare(config: TFConfig, join_timeout: float | None, heartbeat_timeout: float | None) -> None:
    """Do all that has to precede a strategy over several tasks."""
    assert config.cluster is not None
    if _first_use.came_before_the_strategy():
        raise _too_late()
    meet_when_remade(join_timeout)
    if _coordination.serves_a_cluster():
        return  # an earlier strategy of this process has joined; TensorFlow reuses its server
    if _coordination.is_initialised():
        raise _too_late()
    _bypass_proxies(config, os.environ)
    _coordination.configure(
        config.cluster, join_timeout=join_timeout, heartbeat_timeout=heartbeat_timeout
    )


def _too_late() -> TooLateError:
    call = _first_use.culprit()
    if call is not None:
        return TooLateError(
            f"TensorFlow was initialised before the strategy, by {call}",
            hint="make the strategy first: move that line below it",
        )
    return TooLateError(
        "TensorFlow was initialised before the strategy, by a call before tfdist_kit was imported",
        hint="make the strategy before any operation, dataset, variable or built model; "
        "import tfdist_kit at the top to have the line named",
    )


def _bypass_proxies(config: TFConfig, environ: MutableMapping[str, str]) -> None:
    """Keep gRPC, which obeys the proxy variables, from reaching the cluster through a proxy."""
    environ.update(_proxies.bypass(environ, _cluster.hosts(config)))


def _construct(
    tf: Any,
    api: Api,
    arguments: dict[str, Any],
    config: TFConfig,
    join_timeout: float | None,
) -> Any:
    experimental_v1 = tf.compat.v1.distribute.experimental
    strategy_class = (
        experimental_v1.MultiWorkerMirroredStrategy
        if api == "compat.v1"
        else tf.distribute.MultiWorkerMirroredStrategy
    )
    try:
        with heeding_signals():
            return strategy_class(**arguments)
    except (tf.errors.DeadlineExceededError, tf.errors.UnavailableError) as error:
        missing = _cluster.absent_tasks(config, str(error))
        if not missing or join_timeout is None:
            raise
        raise JoinTimeoutError(
            f"{_names(missing, config)} did not join within {join_timeout:g} s",
            hint="is it running, with the same cluster in its TF_CONFIG, and can this machine "
            "reach its address? join_timeout= changes how long to wait",
            missing=tuple(str(task) for task in missing),
        ) from error
    except tf.errors.UnknownError as error:
        if "Could not start gRPC server" not in str(error):
            raise
        raise StrategyError(
            f"TensorFlow's server cannot listen on {_own_address(config)}",
            hint="another program uses the port: end it, or choose another port in TF_CONFIG",
        ) from error


def _names(missing: tuple[Task, ...], config: TFConfig) -> str:
    assert config.cluster is not None
    cluster = config.cluster
    return ", ".join(f"{task} ({cluster.address(task)})" for task in missing)


def _own_address(config: TFConfig) -> str:
    if config.cluster is None or config.task is None:
        return "its port"
    return config.cluster.address(config.task)


def _check_size(strategy: Any, config: TFConfig) -> None:
    """Refuse a strategy that is smaller than TF_CONFIG promised."""
    if config.cluster is None or not _spans_several_tasks(config):
        return
    promised = len(config.cluster.training_tasks)
    if strategy.num_replicas_in_sync < promised:
        raise StrategyError(
            f"TF_CONFIG has {promised} tasks that train, but the strategy has only "
            f"{strategy.num_replicas_in_sync} replicas",
            hint="every worker would train alone; report this with TF_CONFIG's value",
        )


def _enable_keras() -> None:
    from tfdist_kit.adapters.keras import enable_multi_worker

    if importlib.util.find_spec("keras") is None:
        return
    try:
        enable_multi_worker()
    except TfdistError as error:  # loops of one's own do not need it
        _log.warning("Keras models will not train on several workers: %s", error)

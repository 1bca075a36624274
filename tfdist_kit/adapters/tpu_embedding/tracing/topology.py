"""A TPU that is not there: a real ``TPUStrategy`` over a made-up topology.

made_up_tpu -> the metadata that a TPU would tell -> tf.distribute.TPUStrategy
            -> `unbuilt`: embeddings of that strategy are built without hardware

TensorFlow's own code does all the rest. Functions can be traced; nothing can be executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tfdist_kit._errors import UsageError
from tfdist_kit.adapters._private import private
from tfdist_kit.adapters.tpu_embedding.tracing.needs import SESSION, check_needed
from tfdist_kit.adapters.tpu_embedding.tracing.unbuilt import Builds, without_hardware

__all__ = ["made_up_tpu", "opened"]


@contextmanager
def made_up_tpu(hosts: int = 1, cores_per_host: int = 8) -> Iterator[Any]:
    """A real ``tf.distribute.TPUStrategy`` whose TPU is made up, for tracing only.

    While it is open, ``build`` of an embedding that was made in its scope, TensorFlow's own or
    that of `tfdist_kit.tpu_embedding`, does everything but touch the TPU and make the tables.
    As on a TPU, TensorFlow's own fails with protobuf 7.34 and above, with a ``TypeError``.
    As with a TPU, only one embedding can be built for it. Afterwards all is as before. Several
    can be open at a time, one within the other or in several threads.

    Args:
        hosts: How many hosts the TPU has.
        cores_per_host: How many TPU cores each host has; each core is a replica.

    Yields:
        The strategy. Trace functions with ``get_concrete_function``; running them fails, since
        TensorFlow has no TPU kernels here.

    Raises:
        UsageError: A number is below 1, or soft device placement is switched off.
        UnsupportedVersionError: This TensorFlow lacks a private name that is needed.
    """
    with opened(hosts, cores_per_host) as (strategy, _):
        yield strategy


@contextmanager
def opened(
    hosts: int, cores_per_host: int, *, goes_on: bool = False
) -> Iterator[tuple[Any, Builds]]:
    """As `made_up_tpu`, with what is built for it; `goes_on` as in `unbuilt.Builds`."""
    _check("hosts", hosts)
    _check("cores_per_host", cores_per_host)
    check_needed()
    import tensorflow as tf

    if not tf.config.get_soft_device_placement():
        raise UsageError(
            "soft device placement is switched off, so nothing can stand for a TPU's core",
            hint="call tf.config.set_soft_device_placement(True)",
        )
    host = _this_host()
    strategy = tf.distribute.TPUStrategy(_resolver(host, hosts, cores_per_host))
    with (
        without_hardware(strategy, goes_on=goes_on) as builds,
        tf.variable_creator_scope(_creator(strategy, host)),
    ):
        yield strategy, builds


def _check(name: str, count: Any) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise UsageError(f"{name} is {count!r}", hint="give a whole number, 1 or more")


def _this_host() -> Any:
    """Job and task of this process, as TensorFlow names them."""
    import tensorflow as tf

    with tf.init_scope(), tf.device("CPU:0"):
        spec = tf.DeviceSpec.from_string(tf.zeros([]).device)
    return tf.DeviceSpec(job=spec.job, replica=spec.replica, task=spec.task)


def _creator(strategy: Any, host: Any) -> Any:
    """A creator of variables that makes those of all hosts' cores on this host.

    The strategy calls it for each core, since it was there before the strategy's scope.
    """
    import tensorflow as tf

    def create(next_creator: Any, **kwargs: Any) -> Any:
        if tf.distribute.get_strategy() is not strategy:
            return next_creator(**kwargs)
        with tf.device(host.to_string()):
            return next_creator(**kwargs)

    return create


def _resolver(host: Any, hosts: int, cores_per_host: int) -> Any:
    """A cluster resolver that tells of a TPU; the strategy asks for nothing else."""
    import tensorflow as tf

    metadata = tf.tpu.experimental.TPUSystemMetadata(
        num_cores=hosts * cores_per_host,
        num_hosts=hosts,
        num_of_cores_per_host=cores_per_host,
        topology=None,
        devices=_devices(host, hosts, cores_per_host),
    )

    class MadeUpResolver(tf.distribute.cluster_resolver.ClusterResolver):  # type: ignore[misc]
        tpu_hardware_feature = None

        def get_tpu_system_metadata(self) -> Any:
            return metadata

        def cluster_spec(self) -> Any:
            return None

        def master(self, *_args: Any, **_kwargs: Any) -> str:
            return ""

        def num_accelerators(self, *_args: Any, **_kwargs: Any) -> dict[str, int]:
            return {"TPU": cores_per_host}

    return MadeUpResolver()


def _devices(host: Any, hosts: int, cores_per_host: int) -> tuple[Any, ...]:
    """All devices; the first host is this process, the others have the tasks behind it."""
    device = private(SESSION, "_DeviceAttributes")
    kinds = [("CPU", 0), *(("TPU", core) for core in range(cores_per_host))]
    return tuple(
        device(
            host.replace(task=host.task + number, device_type=kind, device_index=index).to_string(),
            kind,
            0,
            0,
        )
        for number in range(hosts)
        for kind, index in kinds
    )

"""Run a command beside a Slurm of its own: one node, on this machine, and nothing left behind.

    python scripts/slurm_cluster.py -- srun -n 2 hostname

    temp folder: key, slurm.conf -> munged, slurmctld, slurmd -> the node is idle -> the command
                                 -> jobs cancelled, daemons ended, folder removed

The command finds the cluster by SLURM_CONF, and its exit code is the script's. The daemons listen
on 127.0.0.1 alone. Partitions: `all`, `low` and `high`; a job in `high` preempts those in `low`,
which have ten seconds. Needs Debian's packages slurmctld, slurmd, slurm-client and munge.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PROGRAMS = ("mungekey", "munged", "slurmctld", "slurmd", "sinfo", "squeue", "scancel")
SBIN = "/usr/sbin"
CONFIGURATION = """\
ClusterName=local
SlurmctldHost={node}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
KillWait=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={node} NodeAddr=127.0.0.1 CPUs={cpus}
PartitionName=all Nodes={node} Default=YES PriorityTier=5 PreemptMode=OFF
PartitionName=low Nodes={node} PriorityTier=1 PreemptMode=REQUEUE GraceTime=10
PartitionName=high Nodes={node} PriorityTier=10 PreemptMode=OFF
"""


def missing() -> list[str]:
    """The programs of Slurm that this machine lacks."""
    return [name for name in PROGRAMS if not shutil.which(name, path=search_path())]


def search_path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{SBIN}"


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]


def wait_for(what: str, done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {seconds:g} s")
        time.sleep(0.05)


@contextlib.contextmanager
def daemon(log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    return done.stdout


def cancel_all() -> None:
    user = getpass.getuser()
    said("scancel", "--user", user)
    wait_for("the end of all jobs", lambda: not said("squeue", "-h").strip(), 15)


def munge_options(folder: Path) -> list[str]:
    files = {
        "key-file": "munge.key",
        "socket": "munge.sock",
        "pid-file": "pid",
        "seed-file": "seed",
    }
    named = [f"--{option}={folder / name}" for option, name in files.items()]
    return ["--foreground", "--force", *named]  # by force: its folder is nobody else's to read


@contextlib.contextmanager
def cluster(folder: Path, cpus: int) -> Iterator[None]:
    """A running cluster, by SLURM_CONF in this process' environment."""
    configuration = folder / "slurm.conf"
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    controller, node = free_ports(2)
    configuration.write_text(
        CONFIGURATION.format(
            node=socket.gethostname().partition(".")[0],
            controller=controller,
            daemon=node,
            user=getpass.getuser(),
            folder=folder,
            cpus=cpus,
        )
    )
    subprocess.run(["mungekey", "--create", f"--keyfile={folder}/munge.key"], check=True)
    os.environ["SLURM_CONF"] = str(configuration)
    with contextlib.ExitStack() as stack:
        stack.enter_context(daemon(folder / "munge.log", "munged", *munge_options(folder)))
        wait_for("munged", (folder / "munge.sock").exists, 10)
        stack.enter_context(daemon(folder / "slurmctld.log", "slurmctld", "-D"))
        stack.enter_context(daemon(folder / "slurmd.log", "slurmd", "-D"))
        wait_for("an idle node", lambda: "idle" in said("sinfo", "-h", "-o", "%T").split(), 20)
        stack.callback(cancel_all)
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a command beside a Slurm of its own.")
    parser.add_argument(
        "--cpus", type=int, default=2, help="what the node has, as far as Slurm knows"
    )
    parser.add_argument("command", nargs="+")
    wish = parser.parse_args()
    if missing():
        raise SystemExit(f"not installed: {', '.join(missing())}")
    os.environ["PATH"] = search_path()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, cluster(Path(folder), wish.cpus):
        return subprocess.run(wish.command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

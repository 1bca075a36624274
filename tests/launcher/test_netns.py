"""``tfdist run --isolate``: real namespaces, seen from both sides."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfdist_kit
from tests.adapters.test_multi_worker_mirrored import QUIET, SUM
from tests.commands import Command, script, tfdist
from tests.launcher.test_run import SERVE
from tfdist_kit.launcher.network import netns, ports

NOBODY = 65534


def can_isolate() -> bool:
    try:
        netns.make().close()
    except netns.UnavailableError:
        return False
    return True


needs_namespaces = pytest.mark.skipif(not can_isolate(), reason="no network namespaces here")


@pytest.fixture
def private() -> Iterator[netns.Namespace]:
    with netns.make() as namespace:
        yield namespace


def network_of(pid: int | str) -> str:
    return os.readlink(f"/proc/{pid}/ns/net")


def networks_of_others() -> set[str]:
    """Every network that some process of this machine is in, but for our own."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                found.add(network_of(entry.name))
        except OSError:
            continue
    return found - {network_of("self")}


def in_a_fork(namespace: netns.Namespace, code: str) -> str:
    """What `code` prints in a process that has entered the namespace."""
    enter = f"from tfdist_kit.launcher.network import netns; netns.enter({list(namespace.fds)!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", enter + code],
        pass_fds=namespace.fds,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_namespaces
def test_making_one_leaves_this_process_where_it_is(private: netns.Namespace) -> None:
    inside = in_a_fork(private, "import os; print(os.readlink('/proc/self/ns/net'))")
    assert inside != network_of("self")
    assert in_a_fork(private, "import os; print(os.readlink('/proc/self/ns/net'))") == inside
    assert not any(os.get_inheritable(fd) for fd in private.fds)


@needs_namespaces
def test_only_loopback_is_in_it_in_both_families(private: netns.Namespace) -> None:
    code = (
        "from tfdist_kit.launcher.network import interfaces\n"
        "print(sorted(interfaces.addresses()))\n"
        "import socket\n"
        "for family, host in (socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1'):\n"
        "    with socket.create_server((host, 0), family=family) as server:\n"
        "        socket.create_connection(server.getsockname()[:2]).close()\n"
    )
    assert in_a_fork(private, code) == "[('lo', '127.0.0.1'), ('lo', '::1')]"


@needs_namespaces
def test_whoever_enters_keeps_the_rights_that_he_had_and_no_more(private: netns.Namespace) -> None:
    told = (
        "import os\n"
        "status = open('/proc/self/status').read().splitlines()\n"
        "sets = [line for line in status if line.startswith(('CapEff', 'CapPrm', 'CapInh'))]\n"
        "owner = os.stat('/proc/self/environ').st_uid\n"
        "print(os.getuid(), os.getgid(), owner, sets, os.listdir('/proc/self/fd') != [])"
    )
    outside = subprocess.run([sys.executable, "-c", told], stdout=-1, text=True, check=True).stdout
    assert in_a_fork(private, told) == outside.strip()


@needs_namespaces
def test_entering_closes_the_descriptors(private: netns.Namespace) -> None:
    fds = list(private.fds)
    code = f"import os; print([fd for fd in {fds} if os.path.exists(f'/proc/self/fd/{{fd}}')])"
    assert in_a_fork(private, code) == "[]"


@needs_namespaces
def test_a_worker_takes_a_port_that_is_taken_outside_and_cannot_be_reached(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        SERVE + "server.listen()\n"
        "socket.create_connection(server.getsockname()).close()\n"
        "open('up-' + os.environ['TFDIST_RANK'], 'w').close()\n"
        "import time\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n",
    )
    port = netns.ports(1)[0]
    with contextlib.ExitStack() as taken:
        with contextlib.suppress(OSError):  # somebody else has it: as good
            taken.enter_context(socket.create_server(("", port)))
        with Command(["run", "--isolate", name], tmp_path) as command:
            command.wait_for(tmp_path / "up-*", 2)
            taken.close()
            assert port not in (ports.listening([port]) or ())
            assert port in (ports.listening([port], worker_of(command)) or ())
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))
            (tmp_path / "go").touch()
            assert command.result().code == 0


def worker_of(command: Command) -> int:
    """A process of the command's that is in another network than we are."""
    return next(pid for pid in command.living() if network_of(pid) != network_of("self"))


def networks_of(command: Command) -> set[str]:
    return {network_of(pid) for pid in command.living()}


@needs_namespaces
def test_two_isolated_runs_at_once_use_the_same_ports(tmp_path: Path) -> None:
    serve = (
        SERVE + "server.listen(); rank = os.environ['TFDIST_RANK']\n"
        "open('up-' + rank, 'w').close()\n"
        "import time\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
    )
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        script(folder, serve)
    with (
        Command(["run", "--isolate", "train.py"], folders[0]) as one,
        Command(["run", "--isolate", "train.py"], folders[1]) as other,
    ):
        one.wait_for(folders[0] / "up-*", 2)
        other.wait_for(folders[1] / "up-*", 2)
        assert len(networks_of(one) | networks_of(other)) == 3
        for folder in folders:
            (folder / "go").touch()
        assert (one.result().code, other.result().code) == (0, 0)


@needs_namespaces
def test_who_joins_is_seen_from_outside(tmp_path: Path) -> None:
    listens = "if os.environ['TFDIST_RANK'] == '0': server.listen()\nimport time\ntime.sleep(60)"
    name = script(tmp_path, SERVE + listens)
    result = tfdist("run", "--isolate", "--start-timeout", "0.5", name, folder=tmp_path)
    assert result.code == 124
    assert "rank 1 (worker:1) did not join the cluster within 0.5 s" in result.err


@needs_namespaces
@pytest.mark.parametrize("ending", ["by itself", "SIGKILL"])
def test_the_namespace_vanishes_with_the_run(tmp_path: Path, ending: str) -> None:
    name = script(
        tmp_path,
        "import os, time\nopen('up-' + os.environ['TFDIST_RANK'], 'w').close()\n"
        "while not os.path.exists('go'): time.sleep(0.01)",
    )
    with Command(["run", "--isolate", name], tmp_path) as command:
        command.wait_for(tmp_path / "up-*", 2)
        [inside] = networks_of(command) - {network_of("self")}
        assert inside in networks_of_others()
        if ending == "SIGKILL":
            command.process.kill()
        else:
            (tmp_path / "go").touch()
        command.process.wait()
        command.assert_nothing_lives()
        deadline = time.monotonic() + 20  # a later network of somebody else may have its number
        while inside in networks_of_others() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert inside not in networks_of_others()


@needs_namespaces
def test_a_dry_run_tells_whether_it_can_be_had(tmp_path: Path) -> None:
    result = tfdist("run", "--isolate", "--dry-run", script(tmp_path, ""), folder=tmp_path)
    made = json.loads(result.out)
    assert made["isolated"] is True
    assert [worker["port"] for worker in made["workers"]] == list(netns.ports(2))


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs util-linux")
@needs_namespaces
@pytest.mark.parametrize("dry", [False, True])
def test_where_it_cannot_be_had_one_line_says_so_and_the_run_goes_on(
    tmp_path: Path, dry: bool
) -> None:
    name = script(tmp_path, "")
    forbid = 'echo 0 > /proc/sys/user/max_net_namespaces; exec "$@"'
    shell = ["unshare", "-Ur", "sh", "-c", forbid, "sh"]
    options = ["--isolate", *(["--dry-run"] if dry else [])]
    done = subprocess.run(
        [*shell, sys.executable, "-m", "tfdist_kit.cli", "run", *options, name],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = (
        "no private network: unshare: No space left on device (user.max_net_namespaces is 0); the "
        "run goes on without it, on held ports"
    )
    if dry:
        made = json.loads(done.stdout)
        assert (made["isolated"], made["notices"]) == (False, [told])
    else:
        assert done.stderr.splitlines()[0] == f"tfdist: {told}"
        assert len(done.stderr.splitlines()) == 2


WITHOUT_ROOT = """\
import os, sys
from pathlib import Path
from tfdist_kit.launcher import RunRequest, run
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
sys.exit(run(RunRequest("train.py", isolate=True, log_dir=Path("logs")), os.environ).exit_code)
"""


def python_for_everybody() -> str:
    """An interpreter that a user without rights can start, with this package."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            check = [path, "-B", "-c", "import tfdist_kit.launcher.plan"]
            subprocess.run(check, user=NOBODY, env=PLAIN, check=True, capture_output=True)
            return path
    pytest.skip("no interpreter that every user may start")


PLAIN = {"PYTHONPATH": str(Path(tfdist_kit.__file__).parents[1]), "PATH": os.environ["PATH"]}
RUN = """\
import os, sys
from pathlib import Path
from tfdist_kit.launcher import RunRequest, run
request = RunRequest("train.py", isolate=True, log_dir=Path("logs"))
sys.exit(run(request, os.environ).exit_code)
"""


@needs_namespaces
@pytest.mark.skipif(os.geteuid() != 0, reason="all other tests have run without root's rights")
def test_a_user_without_rights_gets_one_with_his_files_as_before() -> None:
    python = python_for_everybody()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, owner, mode in (
            ("mine", NOBODY, 0o600),
            ("roots", 0, 0o600),
            ("shut", NOBODY, 0),
        ):
            (folder / file).touch(mode)
            os.chown(folder / file, owner, owner)
        os.chown(folder, NOBODY, NOBODY)
        script(
            folder,
            "import os\n"
            "def can(name):\n"
            "    try: return bool(open(name))\n"
            "    except PermissionError: return False\n"
            "known = [can('mine'), can('roots'), can('shut'), os.stat('/proc/self/fd').st_uid]\n"
            "open('made-' + os.environ['TFDIST_RANK'], 'w').close()\n"
            "print(known, os.getuid(), sum(1 for _ in open('/proc/net/dev')))",
        )
        done = subprocess.run(
            [python, "-B", "-c", RUN],
            cwd=folder,
            env={**PLAIN, "TMPDIR": name},
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert all((folder / f"made-{rank}").stat().st_uid == NOBODY for rank in (0, 1))
    only_loopback = 3  # two lines of headings, and one interface
    told = f"[True, False, False, {NOBODY}] {NOBODY} {only_loopback}"
    assert sorted(done.stdout.splitlines()) == [f"[rank {rank}] {told}" for rank in (0, 1)]


@needs_namespaces
def test_tensorflow_reduces_over_two_isolated_workers(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        "import tensorflow as tf\nstrategy = tf.distribute.MultiWorkerMirroredStrategy()\n" + SUM,
    )
    result = tfdist("run", "--isolate", "--timeout", "100", name, folder=tmp_path, env=QUIET)
    assert result.code == 0, result.err
    assert result.out.count("replicas 2 sum 2.0") == 2


@pytest.mark.parametrize(
    ("number", "setting", "told"),
    [
        (errno.EPERM, "", "Operation not permitted (a container's rules, perhaps)"),
        (errno.ENOSYS, "", "Function not implemented"),
        (
            errno.EACCES,
            "kernel/apparmor_restrict_unprivileged_userns=1",
            "Permission denied (kernel.apparmor_restrict_unprivileged_userns is 1)",
        ),
        (
            errno.EPERM,
            "kernel/unprivileged_userns_clone=0",
            "Operation not permitted (kernel.unprivileged_userns_clone is 0)",
        ),
    ],
)
def test_why_not(tmp_path: Path, number: int, setting: str, told: str) -> None:
    if setting:
        name, _, value = setting.partition("=")
        (tmp_path / "kernel").mkdir()
        (tmp_path / name).write_text(f"{value}\n")
    assert netns.why_not(OSError(number, os.strerror(number)), tmp_path) == told


def test_without_a_helper_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/absent/python")
    with pytest.raises(netns.UnavailableError, match=r"helper process failed: .*No such file"):
        netns.make()
    monkeypatch.setattr(sys, "executable", shutil.which("true"))
    with pytest.raises(netns.UnavailableError, match="the helper process was ended"):
        netns.make()

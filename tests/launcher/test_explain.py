"""What is made of the stacks of the workers; ``stacks/`` holds real ones of TensorFlow 2.21."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from tfdist_kit.launcher.hangs import explain
from tfdist_kit.launcher.hangs.explain import Located, where_is
from tfdist_kit.launcher.hangs.stack_text import Frame, parse
from tfdist_kit.launcher.inside import stack_dump

STACKS = Path(__file__).parent / "stacks"
LAUNCHER = str(Path(stack_dump.__file__).parent)
STDLIB = sysconfig.get_paths()["stdlib"]
SITE = "/venv/lib/python3.11/site-packages"


def real(name: str, rank: int) -> str:
    text = (STACKS / f"{name}.rank_{rank}.txt").read_text(encoding="utf-8")
    return text.replace("{launcher}", LAUNCHER).replace("{stdlib}", STDLIB)


def dump(*calls: tuple[str, int, str], head: str = "Current thread", rest: str = "") -> str:
    frames = "".join(f'  File "{file}", line {line} in {name}\n' for file, line, name in calls)
    return f"{head} 0x00007fc72ce15b80 (most recent call first):\n{frames}{rest}"


def told(*texts: str, busy: bool = False) -> list[str]:
    """The explanation, with each rank's name left out."""
    ranks = [
        Located(rank, f"{rank}", where_is(parse(text), busy=busy))
        for rank, text in enumerate(texts)
    ]
    return list(explain.explain(ranks))


DIFFERENT = "the ranks are at different places: "


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "constructor",
            [
                "0 waits for its peers in the strategy's constructor, "
                "called from /home/me/train.py:6",
                "1 is at /home/me/train.py:5",
                DIFFERENT + "rank 0 needs every rank to take part, and rank 1 is not there",
            ],
        ),
        (
            "tf_function",
            [
                "0 is at /home/me/train.py:18",
                "1 waits in a tf.function, called from /home/me/train.py:13",
                DIFFERENT + "rank 1 needs every rank to take part, and rank 0 is not there",
            ],
        ),
        (
            "eager_reduce",
            [
                "0 is at /home/me/train.py:11",
                "1 waits for its peers in reduce, called from /home/me/train.py:8",
                DIFFERENT + "rank 1 needs every rank to take part, and rank 0 is not there",
            ],
        ),
        (
            "variable",
            [
                "0 is at /home/me/train.py:7",
                "1 waits for its peers in a collective, called from /home/me/train.py:9",
                DIFFERENT + "rank 1 needs every rank to take part, and rank 0 is not there",
            ],
        ),
        (
            "keras_fit",  # rank 0 sleeps in a callback: the innermost line of the user's counts
            [
                "0 is at /home/me/train.py:13",
                "1 waits in fit, called from /home/me/train.py:15",
                DIFFERENT + "rank 1 needs every rank to take part, and rank 0 is not there",
            ],
        ),
    ],
)
def test_real_stacks(name: str, lines: list[str]) -> None:
    assert told(real(name, 0), real(name, 1)) == lines


def test_ranks_that_wait_together_or_in_each_others_stead() -> None:
    function, reduce = real("tf_function", 1), real("eager_reduce", 1)
    assert told(function, function)[-1] == "all ranks are at the same place"
    assert told(function, reduce)[-1].startswith("the ranks wait at different places")


def test_a_function_that_uses_the_processor_works_and_does_not_wait() -> None:
    [line] = told(real("tf_function", 1), busy=True)
    assert line == "0 is busy in a tf.function, called from /home/me/train.py:13"


def test_the_line_itself_is_shown_where_it_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(f"import time\n    time.sleep(60)\nx = {'1' * 500}\n")
    assert told(dump((str(path), 2, "main"))) == ["0 is at train.py:2: time.sleep(60)"]
    assert told(dump((str(path), 2, "main")), busy=True)[0].startswith("0 is busy at train.py:2")
    assert told(dump((str(path), 3, "main")))[0].endswith("1...")
    path.write_text("\n    pass\n")
    assert told(dump((str(path), 2, "main"))) == ["0 is at train.py:2: pass"]  # it was edited
    assert told(dump((str(path), 9, "main"))) == ["0 is at train.py:9"]


@pytest.mark.parametrize(
    ("calls", "line"),
    [
        ([(f"{LAUNCHER}/worker.py", 9, "main")], "0 has ended its script, or not begun it"),
        (
            [(f"{STDLIB}/threading.py", 9, "_shutdown")],
            "0 has ended its script, and waits for the threads that this has started",
        ),
        (
            [("<frozen importlib._bootstrap>", 7, "_load"), ("/me/a.py", 3, "<module>")],
            "0 is at /me/a.py:3",
        ),
        (
            [(f"{SITE}/numpy/core.py", 7, "dot"), ("/me/a.py", 3, "f")],
            "0 is in dot, called from /me/a.py:3",
        ),
        (
            [(f"{LAUNCHER}/progress.py", 7, "tell"), ("/me/a.py", 3, "f")],
            "0 is in tell, called from /me/a.py:3",
        ),
        ([("/tmp/__autograph_generated_filex.py", 2, "f"), ("/me/a.py", 3, "f")], None),
    ],
)
def test_other_places(calls: list[tuple[str, int, str]], line: str | None) -> None:
    [found] = told(dump(*calls))
    assert found.endswith("/me/a.py:3") if line is None else found == line


def test_more_calls_than_are_written_down() -> None:
    text = dump((f"{SITE}/scipy/a.py", 5, "deep"), rest="  ...\n")
    assert told(text) == [
        f"0 is in deep at {SITE}/scipy/a.py:5, in more calls than could be written down"
    ]


def test_the_main_thread_is_found_among_others() -> None:
    mine = dump(("/me/a.py", 3, "f"), (f"{LAUNCHER}/worker.py", 9, "main"), head="Thread")
    other = dump((f"{LAUNCHER}/progress.py", 5, "run"), (f"{STDLIB}/threading.py", 1, "_bootstrap"))
    assert told(f"{other}\n{mine}") == ["0 is at /me/a.py:3"]
    cut = dump(("/me/a.py", 4, "f"), head="Thread", rest="  ...\n")
    assert told(f"{other}\n{cut}") == ["0 is at /me/a.py:4"]


def test_ranks_that_did_not_tell() -> None:
    waits = where_is(parse(real("tf_function", 1)))
    silent = Located(0, "0", None, "its process is stopped")
    assert explain.explain([silent, Located(1, "1", waits), Located(2, "2", waits)]) == (
        "0 did not tell: its process is stopped",
        "1 waits in a tf.function, called from /home/me/train.py:13",
        "2 waits in a tf.function, called from /home/me/train.py:13",
        f"{DIFFERENT}ranks 1, 2 need every rank to take part, and rank 0 is not there",
    )


def test_an_evaluator_is_expected_in_no_collective() -> None:
    waits = where_is(parse(real("tf_function", 1)))
    evaluator = Located(2, "2", where_is(parse(dump(("/me/a.py", 3, "f")))), joins=False)
    lines = explain.explain([Located(0, "0", waits), Located(1, "1", waits), evaluator])
    assert lines[2:] == ("2 is at /me/a.py:3", "all ranks are at the same place")


def test_what_is_not_understood_is_passed_over() -> None:
    text = (
        "noise\n"
        "Thread 0x1 [worker-3] (most recent call first):\n"
        '  File "/m\\xe4/\\u20ac.py", line ??? in \\u4e2d\n'
        "  Garbage-collecting\n"
        "Thread 0x2 (most recent call first):\n"
        "  <no Python frame>\n"
    )
    [alone] = parse(
        dump(("/me/a.py", 3, "f")).replace("Current thread 0x00007fc72ce15b80", "Stack")
    )
    assert alone.frames == (Frame("/me/a.py", 3, "f"),)
    named, empty = parse(text)
    assert named.frames == (Frame("/mä/€.py", 0, "中"),)
    assert empty.frames == ()
    assert where_is(()).other == "has no stacks of Python code"

"""What the pages say: their links lead somewhere, their examples run, and they name everything."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import tfdist_kit
from tests.adapters.cluster import cluster
from tests.commands import DEADLINE, script, tfdist
from tfdist_kit.cli.main import build_parser
from tfdist_kit.determinism import Verdict, read_run, telling
from tfdist_kit.determinism.verifying import judge

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}
LINK = re.compile(r"\[[^]]+\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CLUSTER_PAGE = "docs/cluster.md"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}


def blocks(language: str) -> Iterator[tuple[str, str]]:
    for name, text in TEXT.items():
        for found, body in BLOCK.findall(text):
            if found == language:
                yield name, body


def anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in plain}


@pytest.mark.parametrize("name", TEXT)
def test_every_link_leads_somewhere(name: str) -> None:
    for link in LINK.findall(BLOCK.sub("", TEXT[name])):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


def session(page: str) -> list[str]:
    """All commands of a page that are shown with their output."""
    return [body for name, body in blocks("console") if name == page and body[:2] == "$ "]


@pytest.mark.parametrize("page", [page for page in TEXT if session(page)])
def test_commands_print_what_the_page_shows(tmp_path: Path, page: str) -> None:
    hidden = ("TF_CONFIG", "http_proxy", "https_proxy", "grpc_proxy")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    for body in session(page):
        for example in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, expected = example.partition("\n")
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                check=False,
                timeout=DEADLINE,
            )
            assert (done.stdout + done.stderr).rstrip() == expected.rstrip(), command


def run_program(folder: Path, name: str) -> None:
    """In a worker: what `tfdist run` would do, without importing TensorFlow for it once more."""
    os.chdir(folder)
    runpy.run_path(name, run_name="__main__")


@pytest.mark.usefixtures("preloaded")
def test_the_readmes_program_trains_on_two_workers_and_alone(tmp_path: Path) -> None:
    [program] = [body for name, body in blocks("python") if name == "README.md"]
    name = script(tmp_path, program)
    result = tfdist("run", "--timeout", "100", name, folder=tmp_path, env=QUIET)
    assert result.code == 0, result.err
    accuracies = [float(text) for text in re.findall(r"accuracy: ([\d.]+)", result.out)]
    assert len(accuracies) == 20  # ten epochs on each of two workers
    assert accuracies[-1] > 0.8
    with cluster(1) as workers:
        workers.run(run_program, tmp_path, name, timeout=DEADLINE)


FOLDER = "import os\nfolder = os.environ['TFDIST_RUN_DIR'] + '/checkpoints'\n"
# What the pages leave out before each of their Python examples, which build on each other.
LEFT_OUT = {
    "docs/embedding_tables.md": [""] * 7,
    "docs/strategy.md": ["import tfdist_kit\n"],
    "docs/hangs.md": ["import tfdist_kit\n"],
    "docs/checkpoint.md": ["", "", ""],
    "docs/determinism.md": ["import tfdist_kit\n", *[""] * 5],
    "docs/keras.md": [""],
    "docs/restarts.md": [""],
    "docs/tf_config.md": [""],
    "docs/embeddings.md": ["", ""],
    "docs/preemption.md": [
        FOLDER,
        "",
        "",
        "handler.close()\nfolder += '/another'\n",
    ],
    "docs/watchers.md": [
        FOLDER,
        *[""] * 5,
        "import os\nos.environ['SLURM_JOB_END_TIME'] = '4000000000'\n",
        "",
    ],
    "docs/data.md": [
        "import keras, tfdist_kit\n",
        "with strategy.scope():\n"
        "    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10)])\n"
        "    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)\n"
        "    model.compile('sgd', loss)\n",
        "train_step = lambda images, labels: model(images)\n",
    ],
}


@pytest.mark.usefixtures("preloaded")
@pytest.mark.parametrize("page", LEFT_OUT)
def test_the_python_examples_of_a_page_run_on_two_workers(tmp_path: Path, page: str) -> None:
    examples = [body for name, body in blocks("python") if name == page]
    parts = zip(LEFT_OUT[page], examples, strict=True)
    program = "".join(left_out + example for left_out, example in parts)
    program = program.replace("epochs=10", "epochs=2")  # what is learned is not asked
    name = script(tmp_path, program)
    with cluster(2) as workers:
        workers.run(run_program, tmp_path, name, timeout=DEADLINE)


def test_the_program_with_a_cluster_of_its_own(tmp_path: Path) -> None:
    [program] = [body for name, body in blocks("python") if name == CLUSTER_PAGE]
    done = subprocess.run(
        [sys.executable, script(tmp_path, program)],
        cwd=tmp_path,
        env={**os.environ, **QUIET, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    assert done.stdout == "[1.0, 1.0]\n", done.stderr


# Pages whose Python examples are test files.
TESTS_PAGE, CHECKS_PAGE = "docs/testing.md", "docs/checks.md"


def ended_session(folder: Path, examples: Sequence[str]) -> str:
    for number, body in enumerate(examples):
        (folder / f"test_{number}.py").write_text(body)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir=.", "-rA", "--color=no"],
        cwd=folder,
        env={**os.environ, **QUIET, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    return done.stdout + done.stderr


def ended(out: str) -> set[tuple[int, str]]:
    """How the tests of each file ended."""
    found = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) test_(\d+)", out, re.MULTILINE)
    return {(int(number), how) for how, number in found}


def test_the_tests_on_the_page_end_as_it_says(tmp_path: Path) -> None:
    examples = [body for name, body in blocks("python") if name == TESTS_PAGE]
    out = ended_session(tmp_path, examples)
    ways = ["FAILED" if number == 1 else "PASSED" for number in range(len(examples))]
    assert ended(out) == set(enumerate(ways)), out
    [told] = [body for name, body in blocks("text") if name == TESTS_PAGE]
    for line in told.replace("test_it.py", "test_1.py").splitlines():
        assert line in out


# How the right examples of the page become the wrong ones whose messages it shows.
MADE_WRONG = [
    (
        0,
        "loss = tf.nn.compute_average_loss(errors, global_batch_size=8)",
        "loss = tf.reduce_mean(errors)",
    ),
    (1, "training_data(seed=1)", "training_data()"),
    (2, 'rate.assign(strategy.reduce("MEAN", measured, axis=None))', "rate.assign(float(rank))"),
]


def test_right_programs_pass_and_wrong_ones_get_the_messages_on_the_page(tmp_path: Path) -> None:
    """All in one session, which imports TensorFlow once."""
    examples = [body for name, body in blocks("python") if name == CHECKS_PAGE]
    told = [body for name, body in blocks("text") if name == CHECKS_PAGE]
    wrong = []
    for number, right, change in MADE_WRONG:
        assert right in examples[number]
        wrong.append(examples[number].replace(right, change))
    out = re.sub(r"^E +", "", ended_session(tmp_path, [*examples, *wrong]), flags=re.MULTILINE)
    ways = ["PASSED"] * len(examples) + ["FAILED"] * len(wrong)
    assert ended(out) == set(enumerate(ways)), out
    for text in told:
        for line in map(str.strip, text.splitlines()):
            if not re.search(r"row \d|never read", line):  # those that a shuffle chooses
                assert line in out


HUNT_PAGE = "docs/divergence.md"
# What the hunt finds is cured by these, one after the other.
CURES = [
    ("tf.random.set_seed(1)", "keras.utils.set_random_seed(1)"),
    ("default_rng()", "default_rng(1)"),
]


@pytest.mark.usefixtures("preloaded")
def test_the_hunt_goes_as_its_page_tells(tmp_path: Path) -> None:
    """By the command first; the same is then done in workers that have TensorFlow already."""
    program = next(body for name, body in blocks("python") if name == HUNT_PAGE)
    command, *texts = [body for name, body in blocks("text") if name == HUNT_PAGE]
    first, *later = [text for text in texts if not text.startswith("tfdist ")]
    script(tmp_path, program, command.split()[-1])
    result = tfdist(*command.split()[1:], folder=tmp_path, env=QUIET)
    assert result.out.startswith(first), result.out + result.err
    assert result.code == 1
    for expected, (wrong, right) in zip(later, CURES, strict=True):
        assert wrong in program
        program = program.replace(wrong, right)
        verdict = verified(tmp_path / wrong, program)
        assert telling.text(verdict).startswith(expected.rstrip()), telling.text(verdict)
        assert verdict.exit_code == int("part" in expected.splitlines()[0])


def verified(folder: Path, program: str) -> Verdict:
    folder.mkdir()
    name = script(folder, program)
    for number in range(2):
        with cluster(1) as workers:
            workers.run(run_recorded, folder, name, f"run_{number}", timeout=DEADLINE)
    return judge([read_run(folder / f"run_{number}", f"run {number}") for number in range(2)])


def run_recorded(folder: Path, name: str, trace: str) -> None:
    """Likewise, and recorded."""
    import keras  # noqa: F401  # what is not imported yet is not recorded

    from tfdist_kit.adapters.op_determinism import recording

    with recording(folder / trace):
        run_program(folder, name)


@pytest.mark.usefixtures("preloaded")
def test_a_loop_is_recorded_as_the_page_of_the_hunt_tells(tmp_path: Path) -> None:
    _, *loop = [body for name, body in blocks("python") if name == HUNT_PAGE]
    name = script(tmp_path, "".join(loop))
    with cluster(1) as workers:
        workers.run(run_program, tmp_path, name, timeout=DEADLINE)
    assert len(list(tmp_path.glob("runs/*/rank_0.jsonl"))) == 2


# Pages whose examples are run by the tests of what they are about.
RUN_THERE = {"docs/embedding_steps.md", "docs/recommender.md"}


def test_every_page_with_python_examples_is_run() -> None:
    pages = {name for name, _ in blocks("python")}
    run_here = {"README.md", CLUSTER_PAGE, HUNT_PAGE, *LEFT_OUT, TESTS_PAGE, CHECKS_PAGE}
    assert pages == run_here | RUN_THERE


def test_every_public_name_is_on_some_page() -> None:
    everything = "\n".join(TEXT.values())
    unnamed = [name for name in tfdist_kit.__all__ if f"{name}" not in everything]
    assert unnamed == ["__version__"]


def test_every_error_is_in_the_table_with_its_code() -> None:
    table = dict(re.findall(r"^\| (TFD\d+) \| `(\w+)`", TEXT["docs/errors.md"], re.MULTILINE))
    errors = {name for name in tfdist_kit.__all__ if name.endswith("Error")} - {"TfdistError"}
    assert {getattr(tfdist_kit, name).code: name for name in errors} == table


def test_every_option_of_run_is_on_its_page() -> None:
    [commands] = [
        action
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    options = {
        option
        for action in commands.choices["run"]._actions
        for option in action.option_strings[:1]
        if action.help is not argparse.SUPPRESS
    }
    page = TEXT["docs/run.md"]
    assert [option for option in sorted(options - {"-h"}) if f"{option}" not in page] == []

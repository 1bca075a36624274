"""Where fixtures are made, and what reaches the workers. No TensorFlow in them."""

from __future__ import annotations

import pytest

from tests.testing.sessions import Session, session_once

CONFTEST = """\
import os
import pytest

class OfConftest: pass

@pytest.fixture
def of_conftest(): return OfConftest()

def pytest_configure(config):
    assert config.getoption("--color-of-sky") == "blue"

def pytest_collection_modifyitems(config):
    config.cache.set("a", 1)

def pytest_addoption(parser):
    parser.addoption("--color-of-sky")

@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    return {"pid": os.getpid(), "list": [1, 2]}

@pytest.fixture
def connection():
    with open(os.devnull) as file:
        yield file

@pytest.fixture
def rows(connection, made_once):
    return [connection.name, made_once["pid"]]
"""

TESTS = """\
import os, sys, unittest
from dataclasses import dataclass
from pathlib import Path
import pytest
from conftest import OfConftest

pytestmark = pytest.mark.tfdist

@dataclass
class Own:
    number: int

@pytest.fixture
def own():
    return Own(3)

@pytest.fixture
def nothing():
    return None

def in_the_worker():
    return "TFDIST_RANK" in os.environ

def test_values_are_made_once(made_once, rows, own, nothing):
    assert in_the_worker()
    assert made_once["pid"] == rows[1] != os.getpid()
    assert rows[0] == os.devnull
    assert own == Own(3) and nothing is None

def test_the_folder_is_shared(tmp_path, tf_worker):
    (tmp_path / str(tf_worker.rank)).write_text("here")

def test_a_fixture_of_the_body_that_cannot_be_sent(connection): pass

@pytest.fixture
def uses_it(tf_worker, connection):
    pass

def test_a_fixture_of_a_fixture_that_cannot_be_sent(uses_it): pass

@pytest.fixture
def in_each(tf_worker, made_once):
    yield os.getpid(), made_once["list"]
    os.environ["TORN_DOWN"] = "1"

def test_a_fixture_that_asks_for_the_worker(in_each):
    assert in_each == (os.getpid(), [1, 2])

@pytest.fixture
def variable(monkeypatch):
    monkeypatch.setenv("VARIABLE", "value")

@pytest.mark.usefixtures("variable")
def test_a_fixture_that_patches():
    assert in_the_worker() and os.environ["VARIABLE"] == "value"

def test_the_patch_is_gone():
    assert "VARIABLE" not in os.environ

def test_output_is_captured(capsys):
    print("hello")
    assert capsys.readouterr().out == "hello\\n"

def test_output_of_descriptors_is_captured(capfd):
    os.system("echo hello")
    assert capfd.readouterr().out == "hello\\n"

def test_logs_are_captured(caplog):
    import logging
    logging.getLogger("a").warning("careful")
    assert caplog.messages == ["careful"]

@pytest.mark.parametrize("again", [1, 2])
def test_a_class_of_conftest(of_conftest, again):
    assert isinstance(of_conftest, OfConftest)

def test_cache(cache, request):
    cache.set("b", 2)
    assert request.config.cache.get("b", 0) == 2

@pytest.mark.usefixtures("connection")
def test_what_was_not_sent_says_so(request):
    request.getfixturevalue("connection").read()

@pytest.fixture
def elsewhere(tmp_path):
    before = os.getcwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)

def test_the_working_directory(elsewhere, tmp_path):
    assert os.getcwd() == str(tmp_path)

def test_it_counts_as_a_process_of_xdist(request, tf_worker):
    assert request.config.workerinput["workerid"] == f"rank{tf_worker.rank}"

@pytest.fixture(autouse=True)
def quiet_one():
    pass

def test_tells_what_was_made_elsewhere():
    assert False

def test_request(request, pytestconfig):
    assert request.node.name == "test_request"
    assert request.getfixturevalue("own") == Own(3)
    assert pytestconfig.getoption("--color-of-sky") == "blue"
    assert pytestconfig.option.verbose == 1

@pytest.fixture(params=["a", "b"])
def letter(request):
    return request.param

@pytest.fixture(params=[1, 2])
def here(request, tf_worker):
    return (request.param, in_the_worker())

@pytest.mark.parametrize("number", [10, 20])
def test_parameters(letter, here, number):
    assert letter in "ab" and here[0] in (1, 2) and here[1] and number in (10, 20)

class TestClass:
    def setup_method(self):
        self.where = in_the_worker()

    @pytest.fixture(autouse=True)
    def attribute(self):
        self.rank = int(os.environ["TFDIST_RANK"])

    def test_setup_method(self, tf_worker):
        assert self.where and self.rank == tf_worker.rank

class TestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.where = in_the_worker()

    def setUp(self):
        self.here = in_the_worker()

    def test_unittest(self):
        self.assertTrue(self.where and self.here and in_the_worker())

    def test_unittest_that_fails(self):
        self.assertEqual(1, 2)

    @pytest.mark.tfdist_replicas_agree
    def test_unittest_with_a_check(self):
        return 5

@pytest.mark.tfdist_each_row_once(99)
def test_check_without_a_name():
    return [1]

@pytest.mark.tfdist(workers=[1, 2, 3])
def test_sizes(tf_worker):
    assert tf_worker.size in (1, 2, 3)

@pytest.mark.tfdist(workers=[1, 2], chief=[False, True], evaluator=0)
def test_shapes(tf_worker): pass

@pytest.mark.tfdist(2)
def test_without_a_name(): pass

@pytest.mark.tfdist(wrokers=2)
def test_misspelt(): pass

@pytest.mark.tfdist(workers=0)
def test_no_workers(): pass

@pytest.mark.tfdist(workers=True)
def test_not_a_number(): pass

@pytest.mark.tfdist(evaluator=2)
def test_two_evaluators(): pass

@pytest.mark.tfdist(timeout="60")
def test_no_time(): pass

@pytest.mark.tfdist(chief=1)
def test_no_truth(): pass

@pytest.mark.tfdist(timeout=float("inf"))
def test_for_ever(): pass

@pytest.mark.tfdist(workers=[])
def test_no_values(): pass

@pytest.mark.parametrize("letter", {object(), object()}, ids=lambda _: str(os.getpid()))
def test_other_parameters_in_each_process(letter): pass
"""

PLAIN = """\
import os
import pytest

def test_a_plain_test_is_alone(tf_worker):
    assert (tf_worker.rank, tf_worker.size) == (0, 1)
    assert "TFDIST_RANK" not in os.environ

def double(number):
    return 2 * number

def compare(number):
    assert double(number) == 4

def test_drives_a_cluster(tf_cluster):
    assert tf_cluster.run(double, 3) == [6, 6]
    with pytest.raises(AssertionError, match=r"assert 6 == 4\\n \\+  where 6 = double\\(3\\)"):
        tf_cluster.run(compare, 3)
    tf_cluster.kill(1)
    tf_cluster.restart()
    assert tf_cluster.run(double, 1) == [2, 2]

@pytest.mark.tfdist(workers=3, timeout=20)
def test_drives_a_larger_one(tf_cluster):
    assert tf_cluster.run(double, 3) == [6, 6, 6]

def say(text):
    print(text)

def test_driven_output_is_shown(tf_cluster):
    tf_cluster.run(say, "hello from a worker")
    assert False

@pytest.mark.tfdist_replicas_agree
def test_drives_and_is_checked(tf_cluster):
    return 5

@pytest.mark.tfdist(workers=[1, 2])
def test_drives_several(tf_cluster, tfdist_workers):
    assert len(tf_cluster.run(double, 3)) == tfdist_workers
"""

FAIL = {
    "test_a_fixture_of_the_body_that_cannot_be_sent": (
        "the fixture 'connection' gives a TextIOWrapper, which cannot be sent to the workers"
    ),
    "test_a_fixture_of_a_fixture_that_cannot_be_sent": (
        "the fixture 'connection' gives a TextIOWrapper, which cannot be sent to the workers"
    ),
    "TestCase::test_unittest_that_fails": "AssertionError: 1 != 2",
    "test_without_a_name": "name it: @pytest.mark.tfdist(workers=2)",
    "test_misspelt": "the marker tfdist has no option 'wrokers'",
    "test_no_workers": "the marker tfdist has workers=0\n  hint: give a whole number of 1 or more",
    "test_not_a_number": "the marker tfdist has workers=True",
    "test_two_evaluators": "the marker tfdist has evaluator=2\n  hint: use 0 or 1",
    "test_no_time": "the marker tfdist has timeout='60'",
    "test_what_was_not_sent_says_so": "the value of the fixture 'connection' cannot be sent",
    "test_tells_what_was_made_elsewhere": (
        "made in pytest's own process, not in the workers: quiet_one"
    ),
    "TestCase::test_unittest_with_a_check": "is on a test whose result nobody sees",
    "test_drives_and_is_checked": "is on a test whose result nobody sees",
    "test_check_without_a_name": "the marker tfdist_each_row_once was given 99 without a name",
    "test_for_ever": "the marker tfdist has timeout=inf",
    "test_no_values": "the marker tfdist has workers=[]",
    "test_driven_output_is_shown": "assert False",
    "test_no_truth": "the marker tfdist has chief=1\n  hint: use True or False",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Session:
    files = {"conftest.py": CONFTEST, "test_it.py": TESTS, "test_plain.py": PLAIN}
    args = ("-o", "tfdist_preload=", "-v", "--color-of-sky", "blue")
    return session_once(tmp_path_factory, files, *args)


def test_everything_else_passes(ran: Session) -> None:
    failed = {name: went for name, went in ran.tests.items() if went.outcome != "passed"}
    others = {name: went.text for name, went in failed.items() if name not in FAIL}
    assert all(name.startswith("test_other_parameters") for name in others), others
    assert len(others) == 2
    for text in others.values():
        assert "failed: not found: " in text
        assert "are the test's parameters the same in every process?" in text


@pytest.mark.parametrize("name", FAIL)
def test_what_is_wrong_is_said_and_how_to_mend_it(ran: Session, name: str) -> None:
    assert FAIL[name] in ran[name].text
    assert "running.py" not in ran[name].text


def test_output_of_a_driven_cluster_is_shown(ran: Session) -> None:
    sections = ran["test_driven_output_is_shown"].sections
    assert sections["Captured stdout of rank 1 (worker:1)"] == "hello from a worker\n"


def test_options_with_several_values_have_readable_names(ran: Session) -> None:
    names = {name for name in ran.tests if name.startswith(("test_sizes", "test_shapes"))}
    assert names == {
        *(f"test_sizes[workers={number}]" for number in (1, 2, 3)),
        *(f"test_shapes[workers={n}-chief={c}]" for n in (1, 2) for c in (False, True)),
    }


def test_every_parameter_ran(ran: Session) -> None:
    assert sum(name.startswith("test_parameters[") for name in ran.tests) == 8


def test_all_workers_share_the_tests_folder(ran: Session) -> None:
    found = ran.folder.glob("temp/pytest-of-*/pytest-0/test_the_folder_is_shared0/*")
    assert sorted(path.name for path in found) == ["0", "1"]

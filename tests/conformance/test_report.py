"""The report: what is refused, and its views. Nothing is run."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tfdist_kit._errors import UsageError
from tfdist_kit.conformance.binding import Check
from tfdist_kit.conformance.claims import Claim, Deviation, Document, Needs, Register
from tfdist_kit.conformance.evidence import Rank, Result
from tfdist_kit.conformance.found import Found, Wish
from tfdist_kit.conformance.killing import Killing
from tfdist_kit.conformance.report import canonical
from tfdist_kit.conformance.report.badge import badge
from tfdist_kit.conformance.report.html import html
from tfdist_kit.conformance.report.junit import junit
from tfdist_kit.conformance.report.markdown import markdown
from tfdist_kit.conformance.report.schema import violations
from tfdist_kit.conformance.report.views import write_views
from tfdist_kit.conformance.sessions import Log
from tfdist_kit.conformance.surroundings import Surroundings

AROUND = Surroundings("2.21.0", "3.15.1", "", 0, False, "3.11", "Linux x86_64")
NASTY = '</script><script>alert(1)</script> & "it\'s" ü \x1b[31m'
DEVIATION = Deviation(">=2.18", "known deviation", "it is <two>", "got 2", True, "https://x.org/1")
CLAIMS = (
    Claim("toy.a.conforms", "toy", "a", "One is one.", "behaviour", "core"),
    Claim("toy.a.deviates", "toy", "a", NASTY, "error", "extended", Needs(workers=2, graph=True)),
    Claim("toy.b.known", "toy", "b", "x", "behaviour", "core", deviations=(DEVIATION,)),
    Claim("toy.b.advice", "toy", "b", "x", "behaviour", "informative", untestable="advice"),
    Claim("toy.b.unbound", "toy", "b", "x", "behaviour", "informative"),
)
REGISTER = Register((Document("toy", "Toys", "https://example.com/toy"),), CLAIMS)


def found(subject: str = "stock", *, complete: bool = True, killings: bool = True) -> Found:
    ranks = (Rank(0, "rank 0", "passed"), Rank(1, "rank 1", "failed", NASTY))
    results = {
        "conforms": Result("t::conforms", "held", "", ranks[:1], 1.5),
        "deviates": Result("t::deviates", "failed", NASTY, ranks),
        "known": Result("t::known", "failed", "got 2"),
    }
    if subject == "adapter":
        results["known"] = Result("t::known", "held")
    log = Log(status=0)
    for claim in CLAIMS:
        name = claim.id.rpartition(".")[2]
        if name in results:
            node = f"t::{name}"
            log.checks[node] = Check(node, (claim.id,), "checks/t.py", 3, f"# {NASTY}\n", 2)
            log.results[node, ""] = results[name]
    made = Found(Wish(subject=subject), AROUND, CLAIMS, log, complete=complete)
    if killings:
        made.killings = [
            Killing("one", CLAIMS[0].id, "m.py:1", "killed", "assert 1"),
            Killing("two", CLAIMS[0].id, "m.py:2", "survived", "it <holds>"),
        ]
    return made


def report(subject: str = "stock", **more: bool) -> dict[str, Any]:
    return canonical.build(found(subject, **more), REGISTER)


def test_it_fits_its_schema() -> None:
    for made in (report(), report("adapter"), report(killings=False), report(complete=False)):
        assert violations(json.loads(canonical.dumped(made))) == []


def test_its_top_level() -> None:
    made = report()
    assert made["complete"] is True
    assert [(claim["id"], claim["outcome"]) for claim in made["claims"]] == [
        ("toy.a.conforms", "conforms"),
        ("toy.a.deviates", "deviates"),
        ("toy.b.known", "known deviation"),
        ("toy.b.advice", "untestable"),
        ("toy.b.unbound", "inconclusive"),
    ]
    assert made["summary"] == {
        "outcomes": dict.fromkeys(("conforms", "deviates", "known deviation", "untestable",
                                   "inconclusive"), 1),
        "coverage": {"count": 3, "of": 4, "percent": 75.0},
        "conformance": {"count": 1, "of": 3, "percent": 33.3},
        "mutation": {"count": 1, "of": 2, "percent": 50.0},
    }  # fmt: skip


def test_it_survives_being_written_and_read(tmp_path: Path) -> None:
    path = canonical.write(tmp_path / "new", report())
    assert canonical.read(path) == canonical.read(tmp_path / "new") == report()
    assert path.read_text() == canonical.dumped(canonical.read(path))
    assert [file.name for file in path.parent.iterdir()] == ["report.json"]


def remove(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda report: report.pop(name)


CHANGES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda report: report.update(complete=False, trouble="it was stopped"), "it was stopped"),
    (remove("complete"), "report has no 'complete'"),
    (remove("claims"), "report has no 'claims'"),
    (lambda report: report.update(complete="true"), "report.complete is no boolean"),
    (lambda report: report.update(schema=2), "report.schema is 2 and not 1"),
    (lambda report: report.update(more=1), "report has an unknown 'more'"),
    (lambda report: report["claims"][0].update(outcome="fine"), "claims[0].outcome is 'fine'"),
    (lambda report: report["claims"][1].pop("id"), "claims[1] has no 'id'"),
    (lambda report: report["claims"][1]["checks"][0]["ranks"][0].update(rank="0"),
     "claims[1].checks[0].ranks[0].rank is no integer"),
    (lambda report: report["claims"][1]["checks"][0].update(line=True), "line is no integer"),
    (lambda report: report["claims"][1]["checks"][0].update(line=0), "line is below 1"),
    (lambda report: report["claims"][2].update(deviation={}), "deviation has no 'tensorflow'"),
    (lambda report: report["summary"].update(mutation=1), "mutation is no"),
    (lambda report: report["summary"]["outcomes"].update(conforms=0.5), "conforms is no integer"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "told"), CHANGES)
def test_what_is_no_report_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], told: str
) -> None:
    made = copy.deepcopy(report())
    change(made)
    canonical.write(tmp_path, made)
    with pytest.raises(UsageError, match=r"report.json is refused: .*" + re.escape(told)):
        canonical.read(tmp_path)


@pytest.mark.parametrize("part", [0, 1, 100, -2])
def test_a_report_that_is_cut_off_is_refused(tmp_path: Path, part: int) -> None:
    (tmp_path / "report.json").write_text(canonical.dumped(report())[:part])
    with pytest.raises(UsageError, match="it is not whole JSON"):
        canonical.read(tmp_path)


def test_killings_are_added_to_a_report() -> None:
    again = [Killing("two", CLAIMS[0].id, "m.py:2", "killed", "assert 1")]
    more = canonical.with_killings(report(), again)
    assert more["summary"]["mutation"] == {"count": 2, "of": 2, "percent": 100.0}
    assert report(killings=False)["summary"]["mutation"] is None
    assert canonical.with_killings(report(killings=False), again)["summary"]["mutation"]["of"] == 1


class Page(HTMLParser):
    """What the tests want to know of a page."""

    VOID = frozenset({"meta", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.links: list[str] = []
        self.unlabelled: list[str] = []
        self.claims: dict[str, dict[str, str]] = {}
        self.data = self.text = ""
        self._open: list[tuple[str, dict[str, str]]] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids += [found["id"]] if "id" in found else []
        self.loads += [found[name] for name in ("src", "srcset", "action") if name in found]
        self.loads += [found["href"]] if tag == "link" else []
        self.links += [found["href"]] if tag == "a" else []
        assert not any(name.startswith("on") for name in found)
        if tag in ("input", "select") and not found.get("aria-label"):
            self.unlabelled.append(tag)
        if "data-outcome" in found and tag == "details":
            self.claims[found["id"]] = found
        if tag not in self.VOID:
            self._open.append((tag, found))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tag, attributes = self._open[-1] if self._open else ("", {})
        if attributes.get("id") == "report":
            self.data += data
        elif tag not in ("script", "style"):
            self.text += data


def test_the_page_needs_nothing_else_and_holds_the_report() -> None:
    text = html(report(), report("adapter"))
    page = Page(text)
    assert page.loads == page.unlabelled == []
    assert "@import" not in text
    assert "url(" not in text
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link[0] == "#"} <= set(page.ids)
    assert json.loads(page.data) == report()
    assert canonical.dumped(json.loads(page.data)) == canonical.dumped(report())


def test_the_page_can_be_filtered_by_what_each_claim_says() -> None:
    claims = Page(html(report())).claims
    assert list(claims) == [claim.id for claim in CLAIMS]
    deviates = claims["toy.a.deviates"]
    assert {name: value for name, value in deviates.items() if name.startswith("data-")} == {
        "data-outcome": "deviates",
        "data-document": "toy",
        "data-level": "extended",
        "data-needs": "workers=2 graph",
    }


def test_the_page_tells_all_and_runs_nothing_that_a_check_said() -> None:
    page = Page(html(report(), report("adapter")))
    told = (NASTY, "rank 1", "tfdist conformance run --claim toy.a.deviates", "checks/t.py:3",
            "it is <two>", "it <holds>", "75 %", "33.3 %", "50 %", "with tfdist")  # fmt: skip
    for each in told:
        assert each in page.text
    assert "https://example.com/toy#a" in page.links
    assert "<script>alert" not in html(report())


def test_junit() -> None:
    root = ElementTree.fromstring(junit(report()))
    [suite] = root
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["5", "1", "1", "2"]
    cases = {case.get("name"): [part.tag for part in case] for case in suite}
    assert cases == {
        "toy.a.conforms": [],
        "toy.a.deviates": ["failure"],
        "toy.b.known": ["skipped"],
        "toy.b.advice": ["skipped"],
        "toy.b.unbound": ["error"],
    }


def test_markdown() -> None:
    text = markdown(report(), report("adapter"))
    assert "- **coverage 75 % (3 of 4 testable claims)**\n" in text
    assert "- **conformance 33.3 % (1 of 3 answered claims)**\n" in text
    assert "- **mutation 50 % (1 of 2 mutants)**\n" in text
    assert "| `toy.b.known`: x | known deviation | conforms |\n" in text
    assert "<script>" not in text
    assert "- `two` of `toy.a.conforms`: it &lt;holds>" in text
    same = markdown(report(), report())
    assert "Every claim has the same outcome in both.\n" in same


@pytest.mark.parametrize(
    ("outcomes", "color"),
    [
        (["conforms", "known deviation", "untestable"], "brightgreen"),
        (["conforms", "inconclusive"], "yellow"),
        (["conforms", "flaky", "inconclusive"], "red"),
    ],
)
def test_badge(outcomes: list[str], color: str) -> None:
    made = report()
    made["summary"]["outcomes"] = dict.fromkeys(outcomes, 1)
    assert badge(made) == {
        "schemaVersion": 1,
        "label": "conformance",
        "message": "33.3 % of 75 % covered",
        "color": color,
    }


def test_views_are_the_same_each_time(tmp_path: Path) -> None:
    first, second = (
        {path.name: path.read_bytes() for path in write_views(tmp_path / name, report())}
        for name in ("a", "b")
    )
    assert first == second
    assert set(first) == {"index.html", "junit.xml", "summary.md", "badge.json"}

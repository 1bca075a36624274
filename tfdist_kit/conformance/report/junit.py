"""A report as JUnit XML: a suite for each document, a case for each claim."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tfdist_kit.conformance.outcomes import BAD, CONFORMS, INCONCLUSIVE
from tfdist_kit.conformance.report.canonical import Report

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """The XML: what deviates is a failure, what is inconclusive an error.

    Known deviations, and what could not be checked, are skipped.
    """
    root = ElementTree.Element("testsuites", name="tfdist conformance")
    for document in report["documents"]:
        claims = [each for each in report["claims"] if each["document"] == document["name"]]
        suite = ElementTree.SubElement(root, "testsuite", name=document["name"])
        for claim in claims:
            _case(suite, claim)
        for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
        suite.set("tests", str(len(claims)))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, claim: Report) -> None:
    attributes = {"classname": claim["document"], "name": claim["id"]}
    case = ElementTree.SubElement(suite, "testcase", attributes)
    outcome = claim["outcome"]
    if outcome == CONFORMS:
        return
    tag = "failure" if outcome in BAD else "error" if outcome == INCONCLUSIVE else "skipped"
    reason = claim["reason"]
    first = reason.splitlines()[0] if reason else ""
    message = _xml(f"{outcome}: {first}" if first else outcome)
    told = ElementTree.SubElement(case, tag, message=message)
    if tag != "skipped":
        told.text = _xml(f"{claim['statement']}\n\n{reason}\n\n{claim['reproduce']}")


def _xml(text: str) -> str:
    """The text without characters that XML cannot hold."""
    return _NOT_XML.sub("?", text)

"""The register of claims: the packaged one is sound, and every kind of mistake is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tfdist_kit import TfdistError, UsageError
from tfdist_kit.conformance import Claim, Deviation, Needs, Register, RegisterError, load

SOUND = {
    "id": '"toy.run.once-a-replica"',
    "anchor": '"run"',
    "statement": '"The function is called once for each replica."',
    "kind": '"behaviour"',
    "level": '"core"',
}
DEVIATION = {
    "tensorflow": '">=2.18"',
    "verdict": '"known deviation"',
    "seen": '"It is called twice."',
    "match": '"called twice"',
}


SUPPORTED = ("2.18.1", "2.19.1", "2.20.0", "2.21.0")
PACKAGED = load()


def lines(values: dict[str, str]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in values.items() if value)


def entry(deviation: dict[str, str] | None = None, /, **values: str) -> str:
    text = "[[claim]]\n" + lines({**SOUND, **values})
    if deviation is not None:
        text += "[[claim.deviation]]\n" + lines({**DEVIATION, **deviation})
    return text


def register(folder: Path, **texts: str) -> Register:
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return load(folder)


def test_an_entry_is_read_with_what_it_leaves_out(tmp_path: Path) -> None:
    found = register(tmp_path, toy=entry())
    assert list(found) == [
        Claim(
            id="toy.run.once-a-replica",
            document="toy",
            anchor="run",
            statement="The function is called once for each replica.",
            kind="behaviour",
            level="core",
        )
    ]
    assert found.claims[0].needs == Needs(workers=1, local_replicas=1, graph=False, keras=0)


def test_an_entry_is_read_with_all_that_it_may_say(tmp_path: Path) -> None:
    needs = (
        "{ workers = 3, local_replicas = 2, graph = true, keras = 2, gpu = true, tpu = true, "
        "embedding_engine = true }"
    )
    more = {"cured_by_adapter": "true", "link": '"https://example.org/1"'}
    [claim] = register(tmp_path, toy=entry(more, needs=needs))
    assert claim.needs == Needs(3, 2, True, 2, True, True, True)
    seen = "It is called twice."
    expected = Deviation(
        ">=2.18", "known deviation", seen, "called twice", True, "https://example.org/1"
    )
    assert claim.deviations == (expected,)
    [other] = register(tmp_path, toy=entry(untestable='"needs a moon"'))
    assert other.untestable == "needs a moon"


def test_claims_are_found_by_id_document_and_level(tmp_path: Path) -> None:
    toy = entry() + entry(id='"toy.run.in-order"', level='"informative"')
    found = register(tmp_path, toy=toy, zoo='title = "Zoo"\npage = "https://example.org"\n')
    assert len(found) == 2
    assert found.claim("toy.run.in-order").level == "informative"
    assert [claim.id for claim in found.of_document("toy")] == [claim.id for claim in found]
    assert found.of_document("zoo") == ()
    assert [claim.id for claim in found.of_level("core")] == ["toy.run.once-a-replica"]
    assert [(one.name, one.title, one.page) for one in found.documents] == [
        ("toy", "", ""),
        ("zoo", "Zoo", "https://example.org"),
    ]


def test_what_the_register_does_not_have_is_named_with_what_is_near(tmp_path: Path) -> None:
    found = register(tmp_path, toy=entry())
    with pytest.raises(UsageError, match=r"no claim 'toy.run.once'\n.*'toy.run.once-a-replica'"):
        found.claim("toy.run.once")
    with pytest.raises(UsageError, match=r"no document 'xyz'\n.*there are toy"):
        found.of_document("xyz")
    with pytest.raises(UsageError, match=r"no level 'cor'\n.*mean 'core'"):
        found.of_level("cor")


@pytest.mark.parametrize(
    ("version", "seen"),
    [
        ("2.17.1", None),
        ("2.18.0", "first"),
        ("2.19.0-rc1", "first"),
        ("2.20.0", "second"),
        ("2.21.0-dev20260101", "second"),
        ("2.22.0", None),
    ],
)
def test_a_deviation_holds_for_its_versions_alone(
    tmp_path: Path, version: str, seen: str | None
) -> None:
    first = entry({"tensorflow": '">=2.18,<2.20"', "seen": '"first"'})
    second = {**DEVIATION, "tensorflow": '">=2.20,<2.22"', "seen": '"second"'}
    [claim] = register(tmp_path, toy=first + "[[claim.deviation]]\n" + lines(second))
    deviation = claim.deviation_for(version)
    assert (deviation and deviation.seen) == seen


NAMED = "toy.toml: toy.run.once-a-replica: "
MISTAKES = {
    "[[claim]\n": "toy.toml is not TOML: .*\n.*correct",
    "claims = []": "toy.toml: claims is not a known key\n.*mean 'claim'",
    "title = 3": "toy.toml: title is 3\n.*a string",
    "claim = 3": r"toy.toml: claim is not a list of tables\n.*\[\[...claim\]\]",
    "claim = [3]": "toy.toml: claim is not a list of tables",
    entry(id=""): "toy.toml: claim 1: id is missing\n.*give a string",
    entry(id="3"): "toy.toml: claim 1: id is 3\n.*a string",
    entry(id='"toy.run"'): r"claim 1: id is 'toy.run'\n.*document\.heading\.a-few-words",
    entry(id='"Toy.run.once"'): "claim 1: id is 'Toy.run.once'",
    entry(id='"toy.run.once_more"'): "claim 1: id is 'toy.run.once_more'",
    entry(id='"toy.3.once"'): "claim 1: id is 'toy.3.once'",
    entry(id='"toy.run.once-"'): "claim 1: id is 'toy.run.once-'",
    entry() + entry(): f"{NAMED}id is already that of a claim in toy.toml",
    entry() + entry(id='"zoo.run.once"'): "zoo.run.once: id does not begin as .*\n.*with toy.",
    entry(anchor=""): f"{NAMED}anchor is missing",
    entry(anchor='"The run"'): f"{NAMED}anchor is 'The run'\n.*the heading's anchor",
    entry(statement='" "'): f"{NAMED}statement is ' '\n.*not empty",
    entry(kind='"behavior"'): f"{NAMED}kind is 'behavior'\n.*behaviour, signature",
    entry(level='"high"'): f"{NAMED}level is 'high'\n.*core, extended",
    entry(level=""): f"{NAMED}level is missing\n.*one of core",
    entry(untestable="true"): f"{NAMED}untestable is True",
    entry(untestable='""'): f"{NAMED}untestable is ''",
    entry(levle='"core"'): f"{NAMED}levle is not a known key\n.*mean 'level'",
    entry(zzz="1"): f"{NAMED}zzz is not a known key\n.*known keys: id, anchor",
    entry(document='"toy"'): f"{NAMED}document is not a known key",
    entry(needs="2"): f"{NAMED}needs is 2\n.*needs = {{",
    entry(needs="{ worker = 2 }"): f"{NAMED}needs: worker is not a known key\n.*mean 'workers'",
    entry(needs="{ workers = 0 }"): f"{NAMED}needs: workers is 0\n.*1 or more",
    entry(needs="{ workers = true }"): f"{NAMED}needs: workers is True\n.*1 or more",
    entry(needs="{ local_replicas = 1.5 }"): f"{NAMED}needs: local_replicas is 1.5",
    entry(needs='{ graph = "yes" }'): f"{NAMED}needs: graph is 'yes'\n.*without quotes",
    entry(needs="{ gpu = 1 }"): f"{NAMED}needs: gpu is 1",
    entry(needs="{ keras = 4 }"): f"{NAMED}needs: keras is 4\n.*one of 0, 2, 3",
    entry(needs="{ keras = true }"): f"{NAMED}needs: keras is True",
    entry() + "deviation = 3": f"{NAMED}deviation is not a list of tables",
    entry({"match": ""}): f"{NAMED}deviation 1: match is missing",
    entry({"match": '""'}): f"{NAMED}deviation 1: match is ''\n.*not empty",
    entry({"match": "'('"}): rf"{NAMED}deviation 1: match is '\(': .*\n.*regular expression",
    entry({"seen": ""}): f"{NAMED}deviation 1: seen is missing",
    entry({"tensorflow": ""}): f"{NAMED}deviation 1: tensorflow is missing",
    entry({"tensorflow": '"2.18"'}): f"{NAMED}deviation 1: tensorflow is '2.18'\n.*>=2.18,<2.22",
    entry({"tensorflow": '""'}): f"{NAMED}deviation 1: tensorflow is ''",
    entry({"verdict": '"bug"'}): f"{NAMED}deviation 1: verdict is 'bug'\n.*document defect",
    entry({"cured_by_adapter": '"no"'}): f"{NAMED}deviation 1: cured_by_adapter is 'no'",
    entry({"since": '"2.18"'}): f"{NAMED}deviation 1: since is not a known key",
    entry({}, untestable='"moon"'): f"{NAMED}deviation is given, and so is untestable\n.*deviate",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_refused_with_the_file_the_entry_and_the_key(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(RegisterError) as caught:
        register(tmp_path, toy=text)
    assert isinstance(caught.value, TfdistError)
    assert caught.value.hint
    assert re.match("TFD060: .*" + MISTAKES[text], str(caught.value))


def test_an_id_is_refused_that_another_file_has(tmp_path: Path) -> None:
    with pytest.raises(RegisterError, match=r"zoo.toml: toy.*already that of a claim in toy.toml"):
        register(tmp_path, toy=entry(), zoo=entry())


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_bytes(b"\xff")
    with pytest.raises(RegisterError, match=r"toy\.toml is not TOML"):
        load(tmp_path)


def test_every_document_has_a_title_an_address_and_claims() -> None:
    assert PACKAGED.documents
    for document in PACKAGED.documents:
        assert document.title
        assert document.page.startswith("https://www.tensorflow.org/")
        assert PACKAGED.of_document(document.name)


@pytest.mark.parametrize("claim", PACKAGED.claims, ids=lambda claim: claim.id)
def test_a_claim_is_one_plain_statement(claim: Claim) -> None:
    assert re.fullmatch(r"[A-Za-z0-9][ -~]{10,190}[^.]\.", claim.statement)
    assert PACKAGED.claim(claim.id) is claim
    assert sum(other.statement == claim.statement for other in PACKAGED) == 1


ANCHORS = {
    "multi_worker_mirrored": {
        "top",
        "args",
        "attributes",
        "saving",
        "known-issues",
        "distribute_datasets_from_function",
        "experimental_distribute_dataset",
        "experimental_local_results",
        "experimental_make_numpy_dataset",
        "experimental_run",
        "make_dataset_iterator",
        "make_input_fn_iterator",
        "reduce",
        "run",
        "scope",
        "update_config_proto",
    }
}


@pytest.mark.parametrize("document", ANCHORS)
def test_each_heading_of_a_page_has_claims_and_no_other(document: str) -> None:
    assert {claim.anchor for claim in PACKAGED.of_document(document)} == ANCHORS[document]


DEVIATING = [claim for claim in PACKAGED if claim.deviations]


@pytest.mark.parametrize("claim", DEVIATING, ids=lambda claim: claim.id)
def test_a_deviation_is_of_some_supported_version_and_never_two_of_one(claim: Claim) -> None:
    for deviation in claim.deviations:
        assert any(deviation.applies_to(version) for version in SUPPORTED)
        assert deviation.link.startswith("https://") or not deviation.link
    for version in SUPPORTED:
        assert sum(deviation.applies_to(version) for deviation in claim.deviations) <= 1


@pytest.mark.parametrize("claim", DEVIATING, ids=lambda claim: claim.id)
def test_a_deviation_says_how_its_check_fails(claim: Claim) -> None:
    for deviation in claim.deviations:
        assert deviation.match != "TODO"
        assert not re.search(deviation.match, ""), "it would match any failure"

"""GROBID's every answer about a PDF, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx
import pytest

from datasette_ingest.ingest.documents import grobid, grobid_api
from datasette_ingest.ingest.documents.grobid_api import Answer, GrobidApi, Unavailable, version_of
from datasette_ingest.ingest.documents.pool import OutOfTime
from datasette_ingest.ingest.facts import Grobid
from datasette_ingest.ingest.http.body import Body
from datasette_ingest.ingest.settings import CrawlSettings

from ... import virtual
from .conftest import Here
from .fake_grobid import HANG, LOST, REFUSED, TEI, FakeGrobid, answer, json_error, tei

T = TypeVar("T")
SHA1 = "a" * 40
PDF = b"%PDF-1.4\n\r\n--x\r\n%%EOF"
SETTINGS = CrawlSettings(grobid_url="http://grobid.example", grobid_timeout=180.0)


def body(data: bytes = PDF) -> Body:
    return Body(pieces=[data], size=len(data))


def play(
    fake: FakeGrobid, main: Callable[[GrobidApi], Awaitable[T]], settings: CrawlSettings = SETTINGS
) -> tuple[T, float]:
    """(what `main` returns, the seconds that it took)."""

    async def run(clock: virtual.Clock) -> tuple[T, float]:
        api = GrobidApi(settings, service=fake.service())
        try:
            return await main(api), clock.elapsed
        finally:
            await api.aclose()

    return virtual.run(run)


async def one(api: GrobidApi, pool: Any = None) -> Grobid:
    found = await grobid.ask(api, body(), SHA1, pool or Here(), has_store=True)
    (fact,) = found.facts
    assert isinstance(fact, Grobid)
    assert [file.kind for file in found.files] == (["tei"] if fact.status == "success" else [])
    return fact


async def word(api: GrobidApi) -> str:
    """The status of a fact, or the beginning of what is said without one."""
    try:
        return (await one(api)).status
    except Unavailable as problem:
        return str(problem)[:19]


async def refusal(api: GrobidApi) -> Unavailable:
    with pytest.raises(Unavailable) as raised:
        await one(api)
    return raised.value


def test_a_pdf_becomes_facts_about_its_work_and_a_file_of_tei() -> None:
    fake = FakeGrobid([tei()])
    fact, _ = play(fake, one)
    assert fake.files == [PDF] and fake.forms == [{"consolidateHeader": "0", "includeRawAffiliations": "1"}]
    assert (fact.status, fact.status_code, fact.grobid_version, fact.processor) == ("success", 200, "0.8.1", "grobid/1")
    assert fact.fatcat_release == "abcdefghijklmnopqrstuvwxyz" and fact.xml_url == f"tei/aa/aa/{SHA1}.tei.xml"
    metadata = dict(fact.metadata)
    assert metadata.pop("authors") == [
        {
            "name": "Ada Byron",
            "orcid": "0000-0002-1825-0097",
            "affiliations": ["Salt Lab, Sea University, Brest, France"],
        },
        {"name": "Li Wei"},
    ]
    assert metadata == {
        "title": "On salt",
        "doi": "10.5555/salt.4",
        "journal": "Journal of Brine",
        "volume": "4",
        "date": "2019-03-07",
        "language": "en",
        "abstract": "Salt is salt.",
        "references": 2,
    }


@pytest.mark.parametrize(
    ("given", "status", "code", "said"),
    [
        (answer(200, "no XML"), "bad-grobid-xml", 200, {"error_message": "the answer is not well-formed XML"}),
        (answer(200, b""), "bad-grobid-xml", 200, {"error_message": "the answer is not well-formed XML"}),
        (tei(TEI[:-20]), "bad-grobid-xml", 200, {"error_message": "the answer is not well-formed XML"}),
        (tei(b"<html><p>Hello</p></html>"), "bad-grobid-xml", 200, {"error_message": "the answer is XML, but not TEI"}),
        (answer(204), "error", 204, {"error_message": "GROBID found nothing in the file"}),
        (answer(400, "Bad request"), "error", 400, {"error_message": "Bad request"}),
        (
            answer(500, "[NO_BLOCKS] PDF parsing resulted\n in empty content"),
            "error",
            500,
            {"error": "NO_BLOCKS", "error_message": "[NO_BLOCKS] PDF parsing resulted in empty content"},
        ),
        (
            json_error("BAD_INPUT_DATA", "cannot be opened"),
            "error",
            500,
            {"error": "BAD_INPUT_DATA", "error_message": "cannot be opened"},
        ),
        (answer(500, "<html><h1>Oops</h1></html>"), "error", 500, {"error_message": "GROBID answers 500"}),
        (answer(413, ""), "error", 413, {"error_message": "GROBID answers 413"}),
        (HANG, "error-timeout", -4, {"error_message": "GROBID: no answer within 180 s"}),
        (LOST, "error", None, {"error_message": "GROBID ended the connection: Server disconnected without sending a response."}),
    ],
)  # fmt: skip
def test_every_other_answer_is_a_fact_with_its_code(given: Any, status: str, code: int | None, said: Any) -> None:
    fact, _ = play(FakeGrobid([given]), one)
    assert (fact.status, fact.status_code, fact.metadata) == (status, code, said)
    assert fact.grobid_version == "0.8.1" and fact.xml_url is None


@pytest.mark.parametrize("kind", grobid_api.KINDS)
def test_each_kind_of_error_is_recognised_in_text_and_in_json(kind: str) -> None:
    for given in (answer(500, f"org.grobid: [{kind}] so"), json_error(kind, "so")):
        fact, _ = play(FakeGrobid([given]), one)
        assert fact.metadata["error"] == kind


def test_while_it_is_busy_it_is_asked_again_a_few_times() -> None:
    fake = FakeGrobid([answer(503), answer(503, retry_after="7"), tei()])
    fact, seconds = play(fake, one)
    assert fact.status == "success" and len(fake.files) == 3 and seconds == pytest.approx(15)


def test_if_it_stays_busy_nothing_is_said_of_the_file() -> None:
    problem, seconds = play(FakeGrobid([answer(503)]), refusal)
    assert problem.is_busy and (problem.status_code, problem.seconds) == (503, 60.0) and 40 < seconds < 60
    problem, seconds = play(FakeGrobid([answer(503, retry_after="600")]), refusal)
    assert problem.is_busy and problem.seconds == 600 and seconds < 1


def test_one_that_is_away_is_not_asked_again_for_a_minute() -> None:
    fake = FakeGrobid([REFUSED, tei()])

    async def main(api: GrobidApi) -> tuple[list[int], Grobid]:
        asked = []
        for _ in range(50):
            assert not (await refusal(api)).is_busy
            asked.append(len(fake.files))
        await asyncio.sleep(61)
        return asked, await one(api)

    (asked, fact), seconds = play(fake, main)
    assert set(asked) == {1} and fact.status == "success" and seconds < 62


def test_one_that_is_silent_for_every_file_does_not_hold_up_the_rest() -> None:
    async def main(api: GrobidApi) -> list[str]:
        return [await word(api) for _ in range(1000)]

    words, seconds = play(FakeGrobid([HANG]), main)
    assert words[:2] == ["error-timeout"] * 2 and set(words[2:]) == {"GROBID is not asked"} and seconds < 400


@pytest.mark.parametrize("status", [401, 403, 404, 405, 301])
def test_where_there_is_no_grobid_a_person_has_to_look(status: int) -> None:
    problem, _ = play(FakeGrobid([answer(status)]), refusal)
    assert problem.seconds is None and f"the answer is {status}. Check grobid_url" in str(problem)


@pytest.mark.parametrize("given", [answer(502), answer(504)])
def test_a_proxy_without_a_service_behind_it_is_a_service_that_is_away(given: httpx.Response) -> None:
    problem, _ = play(FakeGrobid([given]), refusal)
    assert problem.seconds == 60 and not problem.is_busy and problem.status_code == given.status_code


def test_no_more_files_are_given_to_it_at_once_than_it_can_take() -> None:
    fake = FakeGrobid([tei()], seconds=10.0)

    async def main(api: GrobidApi) -> list[Any]:
        return await asyncio.gather(*(one(api) for _ in range(9)))

    facts, seconds = play(fake, main, SETTINGS.model_copy(update={"grobid_concurrency": 3}))
    assert {fact.status for fact in facts} == {"success"} and fake.most_at_once == 3 and seconds == pytest.approx(30)


def test_few_files_are_held_open_while_it_works() -> None:
    async def main(api: GrobidApi) -> list[Any]:
        return await asyncio.gather(*(one(api) for _ in range(500)), return_exceptions=True)

    found, _ = play(FakeGrobid([tei()], seconds=10.0), main)
    refused = [each for each in found if isinstance(each, Unavailable)]
    assert len(found) - len(refused) == grobid_api.MAX_WAITING + 4 and all(each.is_busy for each in refused)


def test_a_file_beyond_its_limit_and_an_answer_beyond_ours_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grobid_api, "MAX_PDF_BYTES", len(PDF) - 1)
    fake = FakeGrobid([tei()])
    fact, _ = play(fake, one)
    assert (fact.status, fact.status_code, fake.files) == ("blob-too-large", None, [])
    monkeypatch.undo()
    monkeypatch.setattr(grobid_api, "MAX_TEI_CHARACTERS", len(TEI) // 4 - 1)
    fact, _ = play(FakeGrobid([tei()]), one)
    assert (fact.status, fact.status_code) == ("error", 200) and "longer than" in fact.metadata["error_message"]
    monkeypatch.setattr(grobid, "MAX_TEI_CHARACTERS", 100)
    monkeypatch.setattr(grobid_api, "MAX_TEI_CHARACTERS", len(TEI))
    fact, _ = play(FakeGrobid([tei()]), one)
    assert (fact.status, fact.metadata) == (
        "bad-grobid-xml",
        {"error_message": "the answer has more than 100 characters"},
    )


def test_an_answer_whose_reading_does_not_end_is_a_fact() -> None:
    pool = Here()
    pool.problem = OutOfTime("no end within 60 s")
    fact, _ = play(FakeGrobid([tei()]), lambda api: one(api, pool))
    assert fact.status == "bad-grobid-xml" and "no end within 60 s" in fact.metadata["error_message"]


def test_an_answer_that_attacks_its_reader_is_read_or_refused() -> None:
    bomb = (
        b"<!DOCTYPE TEI ["
        + b"".join(
            b'<!ENTITY e%d "%s">' % (level, b"&e%d;" % (level - 1) * 10 if level else b"salt" * 10)
            for level in range(9)
        )
        + b"]>"
    )
    document = TEI.replace(b"<TEI ", bomb + b"<TEI ", 1).replace(b"On salt", b"&e8;")
    fact, _ = play(FakeGrobid([tei(document)]), one)
    assert fact.status == "bad-grobid-xml"
    outside = b'<!DOCTYPE TEI [<!ENTITY f SYSTEM "file:///etc/passwd">]>'
    fact, _ = play(
        FakeGrobid([tei(TEI.replace(b"<TEI ", outside + b"<TEI ", 1).replace(b"On salt", b"Salt &f;"))]), one
    )
    assert "root:" not in str(fact.metadata)


@pytest.mark.parametrize(
    ("content", "version"),
    [
        (b'{"version":"0.8.1","revision":"0.8.1-12-gabc"}', "0.8.1"),
        (b"0.7.3-SNAPSHOT\n", "0.7.3-SNAPSHOT"),
        (b"0.9", "0.9"),
        (b"<html>no</html>", None),
        (b"", None),
        (b'{"version": null}', None),
        (b"[1]", None),
    ],
)
def test_the_version_is_read_from_json_and_from_text(content: bytes, version: str | None) -> None:
    assert version_of(content) == version


def test_a_large_body_is_sent_from_its_file_byte_for_byte(tmp_path: Any) -> None:
    data = b"%PDF-1.4" + bytes(range(256)) * 20_000
    fake = FakeGrobid([tei()])

    async def main(api: GrobidApi) -> Answer:
        with open(tmp_path / "body", "wb+") as file:
            file.write(data)
            file.flush()
            return await api.read_pdf(Body(file=file, size=len(data)))

    found, _ = play(fake, main)
    assert found.status == "success" and fake.files == [data]


def test_rows_with_one_file_share_an_answer_and_after_a_failure_the_next_one_asks() -> None:
    fake = FakeGrobid([REFUSED, tei()], seconds=1.0)

    async def main(api: GrobidApi) -> tuple[list[str], int, int]:
        reader = grobid.PdfReader(api, has_store=False)

        async def row(*, again: bool = False) -> str:
            try:
                (fact,) = (await reader.read(body(), SHA1, Here(), again=again)).facts  # type: ignore[arg-type]
            except Unavailable:
                return "unavailable"
            assert isinstance(fact, Grobid) and fact.xml_url is None
            return fact.status

        first = await asyncio.gather(row(), row())
        await asyncio.sleep(61)
        words = [*first, *await asyncio.gather(*(row() for _ in range(5))), await row()]
        before = len(fake.files)
        return [*words, await row(again=True)], before, len(fake.files)

    (words, before, after), _ = play(fake, main)
    assert words == ["unavailable"] * 2 + ["success"] * 7 and (before, after) == (2, 3)

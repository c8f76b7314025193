"""Corpora from the web, against local servers: what nasty pages come to, what is kept, what is never reached."""

import gzip
import hashlib
import ipaddress
import itertools
import json
import logging
import re
import shutil
import socket
import ssl
import subprocess
from functools import partial
from pathlib import Path

import httpx
import nasty_server as nasty
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nasty_server import PUBLIC, SENTENCE, SMALL, FakeSerper, NastyServer, PrivateService, World, html, running

from berdslib.data.datasets import describe_corpus
from berdslib.data.formats import read_passages
from berdslib.data.records import Question
from berdslib.data.web import SearchError, Web, cache_path, corpus_name, open_web_corpora, search_web, web_corpora
from berdslib.data.webpage import (
    AGENT,
    Fetcher,
    PageError,
    check_extractor,
    decode,
    is_public,
    page_text,
    page_url,
    robots_rules,
)
from berdslib.errors import InputError, MissingDataError

KEY = "k3y-of-a-test"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, user_cache):
    """No proxy of the machine on the way to the local servers; a key; a cache of the test's own."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "*")
    monkeypatch.setenv("SERPER_API_KEY", KEY)


@pytest.fixture
def server():
    with running(NastyServer()) as one:
        yield one


@pytest.fixture
def serper():
    with running(FakeSerper()) as one:
        yield one


def limits(server, **changes):
    return SMALL._replace(allow={server.address}, **changes)


def web_of(server, serper, **changes):
    return Web(service=serper.url, limits=limits(server), **changes)


@pytest.fixture
def corpus(tmp_path):
    """Return the passages that the web has for one question."""

    def passages(web):
        web_corpora([Question("q", "x")], tmp_path / "one", web)
        return open_web_corpora(tmp_path / "one")["q"]

    return passages


# ---------------------------------------------------------------- nasty pages


@pytest.fixture(scope="module")
def outcomes():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("http_proxy", "http://127.0.0.1:1/")  # would break every page if it were used
        return nasty.outcomes()


@pytest.mark.slow
def test_each_nasty_page_has_its_outcome_in_time(outcomes):
    found, _ = outcomes
    came = {case: text.outcome if text else page.outcome for case, (page, text, _, _) in found.items()}
    assert came == {case: expected for case, (*_, expected) in found.items()}
    for case, (page, text, seconds, expected) in found.items():
        assert seconds < 2 * SMALL.total, case
        assert (expected == "ok") == bool(text and text.text), case
        assert page.reason or page.outcome == "ok", case
        if case.startswith("charset"):
            assert text.text == nasty.FRENCH.strip(), case


@pytest.mark.slow
def test_no_request_reaches_a_private_address(outcomes):
    assert outcomes[1] == 0
    with running(PrivateService()) as private, running(NastyServer(private.port)) as server:
        httpx.get(server.url("redirect-private"), follow_redirects=True)
        assert private.reached == 1  # the same without the checks: the count can fail


# ---------------------------------------------------------------- addresses


ADDRESSES = st.one_of(
    st.ip_addresses(),
    st.ip_addresses(v=4).map(lambda ip: ipaddress.IPv6Address(f"::ffff:{ip}")),
    st.ip_addresses(v=4).map(lambda ip: ipaddress.IPv6Address(int(ipaddress.IPv6Address("64:ff9b::")) + int(ip))),
    st.ip_addresses(v=4).map(lambda ip: ipaddress.IPv6Address(int(ip))),
    st.ip_addresses(v=4).map(lambda ip: ipaddress.IPv6Address((0x2002 << 112) + (int(ip) << 80))),
)
SPECIAL = [
    "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.16.0.1",
    "192.168.1.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::7f00:1", "64:ff9b::7f00:1",
    "64:ff9b::a00:1", "2002:7f00:1::", "2001:db8::1", "2001:0:1::1", "fc00::1", "fe80::1",
    "fe80::1%eth0", "fec0::1", "ff02::1", "100::1", "5f00::1", "4000::1",
    "127.1", "2130706433", "0x7f000001", "localhost", "192.0.0.8", "192.0.0.9",
    "192.0.0.192", "168.63.129.16", "::ffff:168.63.129.16", "64:ff9b::a83f:8110", "3fff::1",
    "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
]  # fmt: skip


@given(ADDRESSES)
def test_what_is_not_global_is_never_accepted(ip):
    assert ip.is_global or not is_public(str(ip))


def test_special_addresses_are_not_public_and_public_ones_are():
    assert [one for one in SPECIAL if is_public(one)] == []
    public = ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "64:ff9b::808:808", "192.0.1.1", "168.63.129.15"]
    assert [one for one in public if not is_public(one)] == []


class Recorder(httpx.AsyncBaseTransport):
    def __init__(self):
        self.asked = []

    async def handle_async_request(self, request):
        self.asked.append(request.url.host)
        return httpx.Response(404)


@given(st.lists(ADDRESSES.map(str), max_size=4), st.sampled_from([80, 443, 22, 8080]))
def test_a_request_goes_only_to_an_address_that_was_checked(addresses, port):
    recorder = Recorder()
    fetcher = Fetcher(SMALL, resolve=lambda *_: addresses, transport=lambda: recorder)
    page = fetcher.fetch(f"http://some.example:{port}/")
    if addresses and all(map(is_public, addresses)) and port in (80, 443):
        assert page.outcome == "status"
        assert {ipaddress.ip_address(host) for host in recorder.asked} == {ipaddress.ip_address(addresses[0])}
    else:
        assert page.outcome == ("refused" if addresses else "network")
        assert recorder.asked == []


def cases(kind):
    """Return the rows of one kind in web.jsonl."""
    rows = map(json.loads, (Path(__file__).parent / "web.jsonl").read_text(encoding="utf-8").splitlines())
    return [cells for found, *cells in rows if found == kind]


def test_an_address_that_is_none_for_us():
    for url, _ in [*cases("refused"), ("http://example.org/" + "a" * 90_000, "too long")]:
        with pytest.raises(PageError) as caught:
            page_url(url)
        assert caught.value.outcome == "refused"


def test_only_the_port_that_is_allowed(server):
    with running(PrivateService()) as private:
        page = Fetcher(limits(server)).fetch(f"http://127.0.0.1:{private.port}/")
        assert (page.outcome, private.reached) == ("refused", 0)
    fetcher = Fetcher(SMALL, resolve=lambda *_: [PUBLIC], transport=partial(World, server, server))
    for port in (0, 22, 8080, 99999):
        page = fetcher.fetch(f"http://web.example:{port}/good")
        assert page.outcome == "refused" and f"port {port}" in page.reason


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_the_certificate_must_be_that_of_the_name(server, tmp_path, monkeypatch):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -addext subjectAltName=DNS:secure.example"
    )
    subprocess.run([*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    refused = secure(server).fetch("https://secure.example/good")
    assert (refused.outcome, server.seen) == ("network", [])
    assert "certificate verify failed" in refused.reason
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert secure(server).fetch("https://secure.example/good").outcome == "ok"
    assert "Hostname mismatch" in secure(server).fetch("https://other.example/good").reason


def secure(server):
    return Fetcher(SMALL, resolve=lambda *_: [PUBLIC], transport=partial(World, server, server))


# ---------------------------------------------------------------- politeness


def test_the_rules_of_robots_txt():
    """What RFC 9309 says, worked out by hand: robots.txt, a path, and whether it may be fetched."""
    for robots, path, allowed in cases("robots"):
        rules = robots_rules(robots.encode().decode("utf-8-sig"))
        assert rules.can_fetch(str(page_url(f"http://x.example{path}")), AGENT) is allowed, (robots, path)


def test_only_rules_forbid(server):
    """Whatever robots.txt fails with is the outcome; 4xx means that there is none (RFC 9309, 2.3.1)."""
    found = {}
    for status in (404, 403, 410, 429, 500, 503):
        server.robots = status
        page = Fetcher(limits(server)).fetch(server.url("good"))
        found[status] = (page.outcome, page.status)
    assert {found.pop(status) for status in (404, 403, 410)} == {("ok", 200)}
    assert found == {status: ("status", status) for status in (429, 500, 503)}
    assert server.count("good") == 3
    with socket.socket() as deaf:  # bound, so that nobody else takes the port, but listening to none
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]
        fetcher = Fetcher(SMALL._replace(allow={f"127.0.0.1:{port}"}))
        pages = [fetcher.fetch(f"http://127.0.0.1:{port}/{i}") for i in range(2)]
    assert {page.outcome for page in pages} == {"network"} and "ConnectError" in pages[0].reason


@pytest.mark.slow
def test_one_request_at_a_time_with_a_pause(server):
    server.pause = 0.05
    fetcher = Fetcher(limits(server, pause=0.3))
    pages = list(fetcher.fetch_all([server.url("good")] * 4))
    assert [page.outcome for page in pages] == ["ok"] * 4
    assert server.most_active == 1
    assert min(gaps(server)) >= 0.3


def test_a_crawl_delay_is_kept(server):
    server.robots = "User-agent: *\nCrawl-delay: 30\n"
    fetcher = Fetcher(limits(server, longest_pause=0.3))
    for _ in range(2):
        fetcher.fetch(server.url("good"))
    assert 0.29 <= gaps(server)[-1] < 15  # within the bound


def gaps(server):
    return [later - when for (_, when), (_, later) in itertools.pairwise(server.seen)]


# ---------------------------------------------------------------- search


def test_the_key_is_nowhere(server, serper, user_cache, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    serper.links = [server.url("good")]
    web_corpora([Question("q1", "Who pays?")], tmp_path / "out", web_of(server, serper))
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.endswith(".lock")]
    assert len(kept) == 5  # a search, a page, a corpus, a report, a list
    for path in kept:
        content = path.read_bytes()
        assert KEY.encode() not in (gzip.decompress(content) if path.suffix == ".gz" else content)
    monkeypatch.setenv("SERPER_API_KEY", "another-k3y")
    for failures in ([], [(400, {}, {"message": "bad another-k3y"})], [(302, {"Location": serper.url}, {})]):
        serper.failures = failures
        with pytest.raises(SearchError) as caught:
            search_web("another", Web(serper.url))
        assert "k3y" not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert "k3y" not in caplog.text


@pytest.mark.parametrize(
    ("status", "named"), [(403, "SERPER_API_KEY"), (400, "Not enough credits"), (429, "429"), (302, "302")]
)
def test_a_search_engine_that_refuses(serper, status, named):
    body = {"message": "Not enough credits", "statusCode": status}
    serper.failures = [(status, {"Location": "http://10.0.0.7/"}, body)]
    with pytest.raises(SearchError, match=re.escape(serper.url)) as caught:
        search_web("x", Web(serper.url))
    assert named in str(caught.value) and len(serper.seen) == 1
    assert search_web("x", Web(serper.url)) == []  # a failure is not kept


@pytest.mark.parametrize(
    "answer",
    [b"<html>", b"{}", b'{"organic": 3}', b"[" * 99999, b'{"organic": [{"link": 3}]}'],
)  # fmt: skip
def test_an_answer_in_another_form_is_an_error_and_not_kept(server, serper, answer):
    web = web_of(server, serper)
    serper.failures = [(200, {}, answer)]
    with pytest.raises(SearchError, match=re.escape(serper.url)):
        search_web("x", web)
    assert search_web("x", web) == []
    assert len(serper.seen) == 2


# ---------------------------------------------------------------- corpora


def test_a_corpus_is_the_pages_in_pieces_of_a_hundred_words(server, serper, corpus):
    words = [f"word{i}" for i in range(250)]
    server.pages["long"] = ({}, html(" ".join(words)))
    server.pages["untitled"] = ({}, f"<html><body><p>{SENTENCE}</p></body></html>")
    serper.links = [server.url("long"), server.url("not-found"), server.url("untitled")]
    passages = corpus(web_of(server, serper))
    assert [p.text.split() for p in passages[:3]] == [words[:100], words[100:200], words[200:]]
    assert [p.title for p in passages] == ["A nasty page"] * 3 + ["Result 3"]
    start = hashlib.sha256(server.url("long").encode()).hexdigest()[:16]
    assert [p.docno for p in passages[:3]] == [f"{start}-0", f"{start}-1", f"{start}-2"]


def questions():
    return [Question("q1", "Who pays?"), Question("q/2", "Who decides?")]


def test_corpora_and_report(server, serper, tmp_path):
    paths = ("good", "not-found", "script-only", "pdf", "plain-text")
    serper.links = [server.url(path) for path in paths]
    report = web_corpora(questions(), tmp_path / "out", web_of(server, serper))
    assert report["outcome"].tolist() == ["ok", "status", "no text", "type", "ok"] * 2
    assert report["words"].tolist() == [48, 0, 0, 0, 16] * 2
    assert report["position"].tolist() == [1, 2, 3, 4, 5] * 2 and (report["seconds"] > 0).all()
    for question in questions():
        passages = read_passages(tmp_path / "out" / corpus_name(question.qid))
        assert [len(p.text.split()) for p in passages] == [48, 16]
    written = pd.read_csv(tmp_path / "out" / "pages.csv", keep_default_na=False)
    pd.testing.assert_frame_equal(written, report, check_dtype=False)
    assert server.count("good") == 1  # the second question found the same pages


def test_addresses_in_place_of_a_search(server, serper, tmp_path):
    addresses = {"q1": [server.url("good"), server.url("good")], "q/2": []}
    report = web_corpora(questions(), tmp_path / "out", web_of(server, serper), addresses)
    assert report[["qid", "url", "outcome"]].to_numpy().tolist() == [["q1", server.url("good"), "ok"]]
    assert [p.title for p in open_web_corpora(tmp_path / "out")["q1"]] == ["A nasty page"]
    assert serper.seen == []


def test_a_folder_of_other_files_is_left_alone(server, serper, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "q1.jsonl").write_text("my own work")
    with pytest.raises(InputError) as caught:
        web_corpora(questions(), folder, web_of(server, serper))
    assert caught.value.path == folder
    assert (folder / "q1.jsonl").read_text() == "my own work" and serper.seen == []


def test_a_network_that_was_away_is_asked_again_on_request(server, serper, tmp_path, monkeypatch, caplog):
    class Network(World):
        up = False

        async def handle_async_request(self, request):
            if not self.up:
                raise httpx.ConnectError("down")
            return await super().handle_async_request(request)

    transport = partial(Network, server, server)
    fetcher = lambda limits, _: Fetcher(limits, resolve=lambda *_: [PUBLIC], transport=transport)  # noqa: E731
    monkeypatch.setattr("berdslib.data.web.Fetcher", fetcher)
    serper.links = ["http://first.example/good"]

    def outcomes(name, **changes):
        web = Web(serper.url, limits=SMALL, **changes)
        return web_corpora(questions()[:1], tmp_path / name, web)["outcome"].tolist()

    assert outcomes("away") == ["network"]
    assert "--retry-failed" in caplog.text
    Network.up = True
    assert outcomes("again") == ["network"]
    assert outcomes("retry", retry_failed=True) == ["ok"]
    Network.up = False
    assert outcomes("kept") == ["ok"]


def test_a_folder_holds_the_questions_of_its_run_or_is_not_there(server, serper, tmp_path, monkeypatch):
    serper.links = [server.url("good")]
    serper.failures = [(200, {}, b'{"organic": []}')]
    folder, web = tmp_path / "out", web_of(server, serper)
    asked = [Question("none", "Nobody?"), *questions(), Question("", "What?")]

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("berdslib.data.web.write_passages", stop)
        with pytest.raises(KeyboardInterrupt):
            web_corpora(asked, folder, web)
    assert not folder.exists()
    for _ in range(2):  # what it wrote, it replaces
        web_corpora(asked, folder, web)
    corpora = open_web_corpora(folder)
    found = corpora["q1"]
    assert corpora == {"none": [], "q1": found, "q/2": found, "": found} and server.count("good") == 1
    told = describe_corpus(str(folder))
    assert (told["corpora"], told["passages"], told["documents"], told["mean_words"]) == (4, 0.75, 0.75, 48)
    with pytest.raises(InputError, match=re.escape(str(folder))):
        web_corpora(questions(), folder, web)
    (folder / corpus_name("q/2")).unlink()
    with pytest.raises(InputError, match="q/2") as caught:
        open_web_corpora(folder)
    assert caught.value.path == folder / corpus_name("q/2")


def test_a_list_from_elsewhere_opens_nothing_but_corpora(tmp_path):
    (tmp_path / "q.jsonl").write_text("precious")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "pages.csv").write_text("qid\n")
    (folder / "corpora.json").write_text('{"q": "../q.jsonl"}')
    with pytest.raises(InputError) as caught:
        open_web_corpora(folder)
    assert caught.value.path == folder / "q.jsonl"
    for content in ("", "3", "qid,file\n"):
        (folder / "corpora.json").write_text(content)
        with pytest.raises(InputError, match=r"corpora\.json"):
            open_web_corpora(folder)


def test_what_cannot_be_had(corpus, tmp_path, monkeypatch):
    nobody = "http://127.0.0.1:1/"
    refused = [
        (lambda: corpus(Web(extractor="trafilature")), InputError, "trafilature"),
        (lambda: open_web_corpora(tmp_path), InputError, str(tmp_path)),
        (lambda: search_web("x", Web(nobody)), SearchError, nobody),
        (lambda: web_corpora(questions(), tmp_path / "out", addresses={"q1": []}), InputError, "q/2"),
    ]
    for call, error, named in refused:
        with pytest.raises(error, match=re.escape(named)):
            call()
    monkeypatch.delenv("SERPER_API_KEY")
    with pytest.raises(SearchError, match="SERPER_API_KEY"):
        search_web("x", Web(nobody))
    monkeypatch.setattr("berdslib.data.webpage.find_spec", lambda name: None)
    for call, package in ((Fetcher, "protego"), (lambda: check_extractor("readability+html2text"), "readability")):
        with pytest.raises(MissingDataError, match=package):
            call()


@pytest.mark.slow
def test_a_damaged_file_counts_as_not_there(server, serper, corpus, caplog):
    serper.links = [server.url("good")]
    web = web_of(server, serper)
    before = corpus(web)
    path = cache_path("page", server.url("good"))
    whole = path.read_bytes()
    for damaged in (b"", b"no gzip", whole[:-9], whole[:20], whole[:100] + b"\0" + whole[101:], gzip.compress(b"3\n")):
        path.write_bytes(damaged)
        caplog.clear()
        assert corpus(web) == before
        assert "is damaged" in caplog.text
    assert server.count("good") == 7


# ---------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("charset", "text"),
    [("koi8-r", "Кто должен платить за университет? "), ("shift_jis", "大学の費用は誰が払うべきですか。"),
     ("utf-8", "Wer soll die Universität bezahlen? "), ("gbk", "谁应该支付大学教育的费用？")],
)  # fmt: skip
def test_charsets_by_header_by_meta_and_by_detection(charset, text):
    page = html(text * 8)
    assert decode(page.encode(charset), f'text/html; charset="{charset}"') == page
    by_meta = html(text * 8, f'<meta http-equiv="Content-Type" content="text/html; charset={charset}">')
    assert decode(by_meta.encode(charset), "text/html") == by_meta
    assert decode(page.encode(charset)) == page


def test_a_codec_that_is_no_charset_is_not_used():
    text = "plain \\u0041 +AGE- text"
    for name in ("utf-7", "", "x" * 40, "a\0b"):
        assert decode(text.encode(), f"text/html; charset={name}") == text, name
    for name in ("zip", "rot13", "hex"):
        assert page_text(text.encode(), f"text/html; charset={name}").outcome == "parser", name


@given(st.binary(max_size=300), st.text(max_size=40))
def test_any_bytes_are_read(body, content_type):
    text = page_text(body, content_type)
    assert text.outcome in ("ok", "binary", "no text", "parser")
    (text.title + text.text).encode()
    assert "\0" not in text.text
    assert (text.outcome == "ok") == bool(text.text)


def test_nothing_of_a_page_is_loaded_or_run(server, tmp_path):
    mark = tmp_path / "mark"
    page = (
        '<?xml version="1.0"?><!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/hostname">'
        f'<!ENTITY y SYSTEM "{server.url("good")}">]>'
        f'<html><head><link rel="stylesheet" href="{server.url("good")}"></head><body><p>{SENTENCE} &x; &y;</p>'
        f'<img src="{server.url("good")}"><script>require("fs").writeFileSync("{mark}", "")</script></body></html>'
    )
    text = page_text(page.encode(), "application/xhtml+xml")
    assert SENTENCE.strip() in text.text
    assert socket.gethostname() not in text.text
    assert server.seen == []
    assert not mark.exists()


def test_b22_the_papers_extractor_and_ours(server, serper, corpus):
    pytest.importorskip("html2text")
    pytest.importorskip("readability")
    body = html(SENTENCE * 10 + '<a href="http://x.example/">a link</a>')
    text = page_text(body.encode(), "text/html", "readability+html2text")
    assert text.outcome == "ok"
    assert text.title == "A nasty page"
    assert " ".join(text.text.split()) == (SENTENCE * 10 + "a link").strip()
    marked = html(f"<article><h2>Costs</h2><p>{SENTENCE * 10}</p><p>Who <b>pays</b>?</p></article>").encode()
    ours, theirs = (page_text(marked, "text/html", name).text for name in ("trafilatura", "readability+html2text"))
    assert ours.endswith("Who pays?") and theirs.endswith("Who **pays**?")  # theirs keeps what is marked
    assert page_text(marked, "text/html").text == ours
    serper.links = [server.url("good")]
    assert len(corpus(web_of(server, serper, extractor="readability+html2text"))) == 1


def test_the_contract_of_serper(server, serper):
    serper.links = [server.url("good"), server.url("good#part"), "https://other.example/a"]
    results = search_web("Who pays?", web_of(server, serper, num=50))
    assert search_web("Who pays?", web_of(server, serper, num=50)) == results  # of the cache
    assert serper.seen == [(KEY, {"q": "Who pays?", "num": 50})]
    assert [(r.url, r.title, r.position) for r in results] == [
        (server.url("good"), "Result 1", 1),
        ("https://other.example/a", "Result 3", 3),
    ]

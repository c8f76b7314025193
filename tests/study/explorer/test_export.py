"""The explorer as a file that needs nothing but itself, and as a page that is served; and both commands."""

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser

import pytest
from shell import berds, tried

import berdslib as bd
from berdslib.data.records import make_verdicts
from berdslib.study.explorer import APP_SETTINGS, app
from berdslib.study.explorer.export import export_page, page_of
from berdslib.study.explorer.session import Session, ViewRequest
from berdslib.study.explorer.widget import Explorer, open_app

HOSTILE = [
    "</script><script>alert(1)</script>",
    "</script x",
    "<!--<script>",
    "-->",
    "]]>",
    "\u2028 and \u2029",
    '"\'&amp;<b onclick="x()">',
    "{data} {script}",
    "\\u003c \\n \\",
    "😀 ‮",
    "javascript:alert(1)",
]


class Page(HTMLParser):
    """What a browser finds in a page: tags with their attributes, and the text of scripts and styles."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts = [("", {})], [""]
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.texts.append("")

    def handle_endtag(self, tag):
        self.handle_starttag("", ())

    def handle_data(self, data):
        self.texts[-1] += data

    def all(self, tag, **wanted):
        """Return the texts of elements of a kind."""
        found = zip(self.tags, self.texts, strict=True)
        return [text for (name, has), text in found if name == tag and wanted.items() <= has.items()]

    @property
    def data(self):
        (text,) = self.all("script", type="application/json")
        return json.loads(text)


def hash_of(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def assert_self_contained(text):
    """Nothing is allowed but its own script and style, and neither fetches, sends or parses anything."""
    page = Page(text)
    (script,), (style,) = page.all("script", type="module"), page.all("style")
    (policy,) = [has["content"] for _, has in page.tags if has.get("http-equiv") == "Content-Security-Policy"]
    assert policy == (
        f"default-src 'none'; script-src {hash_of(script)}; style-src {hash_of(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    for tag, has in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form", "a", "svg")
        assert not [name for name in has if name in ("src", "href", "srcdoc", "action", "style") or name[:2] == "on"]
    code = re.sub(r"^\s*//.*$", "", script, flags=re.M)
    forbidden = (
        r"\b(import|export|fetch|eval)\b|XMLHttpRequest|WebSocket|sendBeacon|(inner|outer|Adjacent)HTML|\.write\("
    )
    assert not re.search(forbidden, code) and not re.search(r"url\(|@import|expression\(|http", style)
    # The one address that is set is that of a file made here; the one that is named, SVG's name, is never fetched.
    assert not re.search(r"""["'.](src|srcdoc|action|formaction)\b""", script)
    assert set(re.findall(r"href = ([\w.]+\()", script)) == {"URL.createObjectURL("} and '"href"' not in script
    assert set(re.findall(r"https?:[^\s\"'`]*", script)) == {"http://www.w3.org/2000/svg"}
    return page


def tiny(texts=HOSTILE):
    """A collection in which every text is hostile."""
    passages = [bd.Passage(f"d{i}{text}", f"zoo {text}", text) for i, text in enumerate(texts)]
    questions = [
        bd.Question("q1", f"Zoo? {' '.join(texts)}", tuple(texts[:2]), ("support", "oppose"), texts[0]),
        bd.Question(texts[0], "Which zoo?", ("Any.",)),
    ]
    gold = make_verdicts([("q1", 0, passages[0].docno, 1.0, True)], "gold")
    return bd.Collection(texts[0], questions, passages, gold)


def session_of(data, **options):
    here = Session(data, judge=lambda pairs: [0.25 for _ in pairs], **options)
    return here, ViewRequest(data.questions[0].qid, systems=("bm25", "bm25+expand:rule"), k=3)


@pytest.fixture(autouse=True)
def _own_cache(user_cache):
    """Nothing is written into the cache of whoever runs the tests."""


# ---------------------------------------------------------------- the page


def test_hostile_texts_come_back_as_they_were_and_leave_their_place_nowhere():
    data = {"texts": HOSTILE, **{text: text for text in HOSTILE}}
    written = page_of(data, "</title><script>alert(1)</script>")
    # Parsers of the past and the future may know other ways out of a script than this one: no markup is there at all.
    (kept,) = re.findall(r'<script type="application/json" id="data">(.*)</script>\n', written)
    assert kept.isascii() and not set(kept) & set("<>&")
    page = assert_self_contained(written)
    assert page.data == data
    assert page.all("title") == ["</title><script>alert(1)</script>"]


def test_a_page_holds_every_view_of_every_question(tmp_path):
    data = tiny()
    here, first = session_of(data)
    path = tmp_path / "page.html"
    size = export_page(path, here, first._replace(qid=HOSTILE[0]))
    assert size == path.stat().st_size
    page = assert_self_contained(path.read_text(encoding="utf-8"))
    found = page.data
    assert [qid for qid, _ in found["questions"]] == [q.qid for q in data.questions] and found["first"] == HOSTILE[0]
    assert sorted(qid for qid, _ in found["differences"]) == sorted(q.qid for q in data.questions)
    assert {qid: list(views) for qid, views in found["views"].items()} == {
        "q1": ["-1", "0", "1"],
        HOSTILE[0]: ["-1", "0"],
    }
    for qid, views in found["views"].items():
        for asked, view in views.items():
            wanted = list(here.render_steps(first._replace(qid=qid, asked=int(asked)), longest=0))[-1]
            passages = wanted.pop("passages")
            assert view == wanted and passages.items() <= found["passages"].items()
            assert set(passages) <= found["details"][qid].keys()
    told = found["details"]["q1"][data.passages[0].docno]["opinions"]
    assert [one["p"] for one in told] == [0.25, 0.25]


def test_the_command_shows_two_runs_and_verdicts_of_ones_own(tmp_path):
    a, b = bd.load("sample", split="all").questions[:2]
    for name, docnos in (("one", ("s001", "s002")), ("two", ("s002", "s003"))):
        rows = [f"{q.qid} Q0 {docno} {i} {9 - i} {name}" for q in (a, b) for i, docno in enumerate(docnos, 1)]
        (tmp_path / f"{name}.run").write_text("\n".join(rows) + "\n")
    (tmp_path / "qrels").write_text(f"{a.qid} 0 s001 1\n{a.qid} 1 s002 1\n{b.qid} 0 s003 1\n")
    options = ["--run", f"theirs={tmp_path}/one.run", "--run", f"ours={tmp_path}/two.run"]
    options += ["--qrels", tmp_path / "qrels", "-k", 2, "--question", b.qid, "--no-opinions", "--no-sides"]
    page = tmp_path / "page.html"
    said = berds("explore", "-q", "sample", "--limit", 2, *options, "-o", page, "--json")
    summary = json.loads(said.stdout)
    assert summary["questions"] == 2 and summary["bytes"] == page.stat().st_size
    found = Page(page.read_text(encoding="utf-8")).data
    assert found["first"] == b.qid
    shown = [[(row["docno"], row["argues"]) for row in one["rows"]] for one in found["views"][a.qid]["-1"]["lists"]]
    assert shown == [[("s001", [0]), ("s002", [1])], [("s002", [1]), ("s003", [])]]
    assert [one["system"] for one in found["views"][a.qid]["-1"]["lists"]] == ["theirs", "ours"]


# ---------------------------------------------------------------- the app


@pytest.fixture
def served(monkeypatch):
    """What the app would be served with; nothing is."""
    calls = []
    monkeypatch.setattr(app, "serve", lambda settings, **options: calls.append((settings, options)))
    return calls


def test_it_listens_on_this_machine_only_unless_told_otherwise(served):
    here = berds("explore").stderr
    assert served[0] == (
        {"questions": ["sample"], "split": "all", "k": 5},
        {"port": 8866, "host": "127.0.0.1", "browser": True, "idle": 600},
    )
    everywhere = berds("explore", "--host", "0.0.0.0", "--no-browser", "--port", 1234, "--idle", 20).stderr
    assert served[1][1] == {"port": 1234, "host": "0.0.0.0", "browser": False, "idle": 20}
    assert "127.0.0.1" in here and "0.0.0.0" in everywhere and "docs/explorer.md" in everywhere


def test_what_it_is_told_reaches_the_notebook(served, monkeypatch):
    berds("explore", "-q", "sample,sample", "-r", "bm25,bm25+expand:rule", "-k", 3, "-j", "laptop", "--split", "dev",
          "--corpus", "sample")  # fmt: skip
    assert served[0][0] == {
        "questions": ["sample", "sample"],
        "split": "dev",
        "k": 3,
        "corpus": "sample",
        "systems": ["bm25", "bm25+expand:rule"],
        "judge": "laptop",
    }
    monkeypatch.setenv(
        APP_SETTINGS, json.dumps({"questions": ["sample"], "systems": ["bm25", "bm25+expand:rule"], "k": 2})
    )
    opened = open_app()
    assert isinstance(opened, Explorer) and opened.wait(10)
    assert opened.asked.systems == ("bm25", "bm25+expand:rule") and opened.view["k"] == 2
    assert len(opened.choices["questions"]) == len(bd.load("sample", split="all").questions)


def test_without_voila_it_says_what_to_install(monkeypatch):
    for name in ("voila.app", app.__name__):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, app.__name__)
    result = tried("explore")
    assert result.exit_code == 1 and "pip install 'berdslib[app]'" in result.stderr


PAGE = ("--limit", "1", "--no-opinions", "-o", "page.html")


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        (["-r", "bm25"], 1, "[systems]"),
        (["-q", ","], 1, "','"),
        (["-q", "sample,theperspective"], 1, "--corpus"),
        (["-k", "21"], 2, "21"),
        (["--port", "70000"], 2, "70000"),
        (["--no-sides"], 2, "--sides"),
        (["--port", "80", "-o", "x.html"], 2, "--port"),
        ([*PAGE, "-r", "bm25"], 1, "[systems]"),
        ([*PAGE, "-r", "bm25,bm26"], 1, "'bm26'"),
        ([*PAGE, "--question", "quark"], 1, "'quark'"),
        ([*PAGE, "-o", "page.txt"], 1, "page.txt"),
        ([*PAGE, "--run", "a=quark.run"], 1, "quark.run"),
    ],
)
def test_what_the_command_refuses(options, code, named, served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = tried("explore", *options)
    assert result.exit_code == code and named in result.stderr and "Traceback" not in result.output
    assert not served and not list(tmp_path.glob("page*"))

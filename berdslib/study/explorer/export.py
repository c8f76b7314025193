"""The explorer as one HTML file that opens offline: its lists are searched and judged in advance."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from pathlib import Path
from typing import Any

from berdslib.errors import InputError
from berdslib.files import StrPath, write_text
from berdslib.progress import bar
from berdslib.study.explorer import STATIC
from berdslib.study.explorer.session import AS_ASKED, Session, ViewRequest
from berdslib.study.explorer.views import visible

# The page may use only its own script and style sheet; it may not fetch, send or frame anything.
_POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
)
_BODY = """<main id="page"><noscript>This page needs JavaScript; it contains its own script.</noscript></main>
<script type="application/json" id="data">{data}</script>"""


def export_page(
    path: StrPath, session: Session, request: ViewRequest, *, sides: bool = True, opinions: bool = True
) -> int:
    """Write a self-contained page with two systems' lists for every question; return its size in bytes.

    With `sides`, the page also has the lists of searches with each perspective. With `opinions`, it has the judge's
    opinion on every listed passage.

    Raises:
        InputError: a file name that does not end in .html or .htm, or a system without a list for a question.
    """
    if Path(path).suffix not in (".html", ".htm"):
        raise InputError("the name of a page must end in .html", path=path)
    differences = session.labelled_questions(request)  # judges all lists of the questions themselves, which it logs
    views: dict[str, dict[int, Any]] = {}
    passages: dict[str, Any] = {}
    details: dict[str, dict[str, Any]] = {}
    for question in bar(session.collection.questions, desc="questions", unit="question"):
        of_question = request._replace(qid=question.qid)
        listed: dict[str, Any] = {}
        views[question.qid] = {}
        for asked in [AS_ASKED, *(range(len(question.perspectives)) if sides else [])]:
            view = _finished(session, of_question._replace(asked=asked))
            listed |= view.pop("passages")
            views[question.qid][asked] = view
        passages |= listed
        details[question.qid] = session.judge_passages(of_question, list(listed)) if opinions else {}
    data = {
        "views": views,
        "passages": passages,
        "details": details,
        "questions": [[qid, by_way[AS_ASKED]["question"]["text"]] for qid, by_way in views.items()],
        "differences": differences,
        "first": request.qid,
        "corpus": visible(session.collection.name),
    }
    page = page_of(data, title=f"{' | '.join(request.systems)} on {session.collection.name}")
    with write_text(path) as file:
        file.write(page)
    return len(page.encode())


def _finished(session: Session, request: ViewRequest) -> dict[str, Any]:
    """Return the complete view of a request; a system without a list for the question itself is an InputError."""
    # The page needs all questions, so they are searched together, as in an experiment.
    for system in request.systems:
        session.run(request, system, together=True)
    *_, view = session.render_steps(request, longest=0)
    problems = [listing["problem"] for listing in view["lists"] if listing["problem"]]
    # A finished run may lack the lists of perspectives; the page reports that in the place of the list.
    if problems and request.asked == AS_ASKED:
        raise InputError(f"question {request.qid!r}: {problems[0]}")
    return view


def page_of(data: dict[str, Any], title: str) -> str:
    """Return the HTML of the page that shows `data`, embedded as JSON and escaped so that no text can act as markup."""
    drawing, own, *styles = (
        (STATIC / name).read_text(encoding="utf-8") for name in ("explorer.js", "page.js", "explorer.css", "page.css")
    )
    script = f"{drawing}\n{own}".replace("export default { render };", "")
    kept = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        kept = kept.replace(character, f"\\u{ord(character):04x}")
    return closed_page(_BODY.format(data=kept), script, "".join(styles), title)


def closed_page(body: str, script: str, style: str, title: str, *, pictures: bool = False) -> str:
    """Return an HTML page that can run and load nothing but its own script and style, and pictures in ``data:`` URLs.

    The body is inserted as it is, so its texts must be escaped; the title is escaped here.
    """
    policy = _POLICY.format(script=_hash(script), style=_hash(style)) + ("; img-src data:" if pictures else "")
    page = (STATIC / "page.html").read_text(encoding="utf-8")
    filled = {"policy": html.escape(policy), "title": html.escape(visible(title))}
    return page.format(**filled, style=style, body=body, script=script)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

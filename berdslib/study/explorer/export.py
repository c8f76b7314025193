"""The explorer as one file that can be mailed: lists searched and judged in advance, opened without any network."""

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

# Nothing may be fetched, sent, framed or run but the one script and the one style sheet in the file itself.
_POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
)


def export_page(
    path: StrPath, session: Session, request: ViewRequest, *, sides: bool = True, opinions: bool = True
) -> int:
    """Write a page that shows two systems' lists for many questions, and opens by itself; return its size in bytes.

    With `sides` each perspective is searched with, too; with `opinions` the judge reads every listed passage.
    """
    if Path(path).suffix not in (".html", ".htm"):
        raise InputError("a page is written as .html", path=path)
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
        "differences": session.labelled_questions(request),
        "first": request.qid,
        "corpus": visible(session.collection.name),
    }
    page = page_of(data, title=f"{' | '.join(request.systems)} on {session.collection.name}")
    with write_text(path) as file:
        file.write(page)
    return len(page.encode())


def _finished(session: Session, request: ViewRequest) -> dict[str, Any]:
    """Return the last view of a request; a list that could not be made is an error here, not a remark in the page."""
    # All questions are searched in any case, so they are searched together, as in an experiment.
    for system in request.systems:
        session.run(request, system, together=True)
    *_, view = session.render_steps(request, longest=0)
    problems = [listing["problem"] for listing in view["lists"] if listing["problem"]]
    # A foreign run need not hold lists of perspectives, and the page says so there.
    if problems and request.asked == AS_ASKED:
        raise InputError(f"question {request.qid!r}: {problems[0]}")
    return view


def page_of(data: dict[str, Any], title: str) -> str:
    """Return the page that shows some data: text of anybody's stands in it as JSON that no markup can leave."""
    page, drawing, own, *styles = (
        (STATIC / name).read_text(encoding="utf-8")
        for name in ("page.html", "explorer.js", "page.js", "explorer.css", "page.css")
    )
    script = f"{drawing}\n{own}".replace("export default { render };", "")
    style = "".join(styles)
    kept = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        kept = kept.replace(character, f"\\u{ord(character):04x}")
    policy = _POLICY.format(script=_hash(script), style=_hash(style))
    filled = {"policy": html.escape(policy), "title": html.escape(visible(title))}
    return page.format(**filled, style=style, data=kept, script=script)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

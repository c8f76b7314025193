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
from berdslib.study.explorer.session import QUESTION, Session, Wish
from berdslib.study.explorer.views import by_change, change_of, csv_of, table_of, visible

# Nothing may be fetched, sent, framed or run but the one script and the one style sheet in the file itself.
_POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
)


def export_page(path: StrPath, session: Session, wish: Wish, *, sides: bool = True, opinions: bool = True) -> int:
    """Write a page that shows two systems' lists for many questions, and opens by itself; return its size in bytes.

    With `sides` each perspective is searched with, too; with `opinions` the judge reads every listed passage.
    """
    if Path(path).suffix not in (".html", ".htm"):
        raise InputError("a page is written as .html", path=path)
    views, tables = dict[str, dict[str, Any]](), dict[str, dict[str, str]]()
    passages, read, changes = dict[str, Any](), dict[str, dict[str, Any]](), []
    for question in bar(session.collection.questions, desc="questions", unit="question"):
        ways = [QUESTION, *(range(len(question.perspectives)) if sides else [])]
        shown = {str(way): _finished(session, wish._replace(qid=question.qid, asked=way)) for way in ways}
        listed = {docno: one for view in shown.values() for docno, one in view.pop("passages").items()}
        passages |= listed
        views[question.qid] = shown
        tables[question.qid] = {way: csv_of(table_of(view).drop(columns="marked_by")) for way, view in shown.items()}
        read[question.qid] = session.opinions(wish._replace(qid=question.qid), list(listed)) if opinions else {}
        lists = [[(row["docno"], row["argues"]) for row in one["rows"]] for one in shown[str(QUESTION)]["lists"]]
        changes.append(change_of(question, lists, wish.k))
    data: dict[str, Any] = {"views": views, "tables": tables, "passages": passages, "read": read, "order": list(views)}
    data["most"] = [[one.qid, str(one)] for one in by_change(changes)]
    data |= {"first": wish.qid, "corpus": visible(session.collection.name)}
    page = page_of(data, title=f"{' | '.join(wish.systems)} on {session.collection.name}")
    with write_text(path) as file:
        file.write(page)
    return len(page.encode())


def _finished(session: Session, wish: Wish) -> dict[str, Any]:
    """Return the last view of a wish; a list that could not be made is an error here, not a remark in the page."""
    view = list(session.looks(wish, longest=0))[-1]
    # A foreign run need not hold lists of perspectives, and the page says so there.
    if wish.asked == QUESTION and (problem := next((one["problem"] for one in view["lists"] if one["problem"]), "")):
        raise InputError(f"question {wish.qid!r}: {problem}")
    return view


def page_of(data: dict[str, Any], title: str) -> str:
    """Return the page that shows some data: text of anybody's stands in it as JSON that no markup can leave."""
    page, face, own, *styles = (
        (STATIC / name).read_text(encoding="utf-8")
        for name in ("page.html", "explorer.js", "page.js", "explorer.css", "page.css")
    )
    script = f"{face}\n{own}".replace("export default { render };", "").replace("export function", "function")
    style = "".join(styles)
    kept = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        kept = kept.replace(character, f"\\u{ord(character):04x}")
    policy = _POLICY.format(script=_hash(script), style=_hash(style))
    given = {"policy": html.escape(policy), "title": html.escape(visible(title))}
    return page.format(**given, style=style, data=kept, script=script)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

"""Questions and PIR tasks as files, which the readers read back: only tests write them."""

import json

from berdslib.data.pir import check_pir
from berdslib.data.tables import write_jsonl
from berdslib.files import write_text


def write_questions(path, questions):
    """Write questions as JSONL that read_questions reads back unchanged."""
    write_jsonl(
        path,
        (
            {
                "qid": q.qid,
                "question": q.text,
                "perspectives": list(q.perspectives),
                "stances": list(q.stances),
                "source": q.source,
                "split": q.split,
            }
            for q in questions
        ),
    )


def write_pir(task, path):
    """Write a task in the authors' JSON layout, which load_pir reads back.

    That layout knows texts and queries by their places only: other ids are lost, and a title is written in front of its
    text.
    """
    check_pir(task)
    place = {p.docno: i for i, p in enumerate(task.passages)}
    content = {
        "corpus": [p.full_text for p in task.passages],
        "queries": [q.text for q in task.queries],
        "source_queries": [q.root for q in task.queries],
        "perspectives": [q.perspective for q in task.queries],
        "key_ref": {str(i): [place[docno] for docno in q.gold] for i, q in enumerate(task.queries)},
        "query_labels": [q.label for q in task.queries],
    }
    with write_text(path) as file:
        json.dump({task.name: content}, file, ensure_ascii=False)

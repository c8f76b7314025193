"""Questions and PIR tasks as files, which the readers read back: only tests write them."""

import json

from berdslib.data.tables import write_jsonl
from berdslib.files import write_text


def jsonl(*rows):
    """Return rows as JSONL."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


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
    """Write a task in the authors' JSON layout, which berdslib.load reads back.

    That layout knows texts and queries by their places only: other ids are lost, and a title is written in front of its
    text.
    """
    place = {p.docno: i for i, p in enumerate(task.passages)}
    gold = {key: part["docno"].tolist() for key, part in task.gold.groupby(["qid", "pid"])}
    texts = [gold[q.qid, pid] for q in task.questions for pid in range(len(q.perspectives))]
    content = {
        "corpus": [p.full_text for p in task.passages],
        "queries": [q.text for q in task.queries],
        "source_queries": [q.question.text for q in task.queries],
        "perspectives": [q.perspective for q in task.queries],
        "key_ref": {str(i): [place[docno] for docno in docnos] for i, docnos in enumerate(texts)},
        "query_labels": [q.question.labels[q.pid] if q.question.labels else "" for q in task.queries],
    }
    with write_text(path) as file:
        json.dump({task.name: content}, file, ensure_ascii=False)

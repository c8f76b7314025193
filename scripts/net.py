"""The net under a change that should change nothing: figures, everyday lines and error messages, as text to compare.

Usage: [BERDS_DATA=FOLDER] python scripts/net.py > before.txt;  … change …;  python scripts/net.py > after.txt; diff …

Vectors are float32, so that the last printed digit is the same on every processor. Without BERDS_DATA, the figures on
data sets of others are left out. Minutes on two cores, once their passages are encoded (BERDS_CACHE keeps vectors).
"""

import argparse
import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

os.environ["BERDS_NUMBER_FORMAT"] = "float32"

import berdslib as bd
from berdslib.cli import main

BERDS_DEV = "-q arguana,kialo,opinionqa -c arguana-corpus --limit 40 -j laptop"
PIR = ["", "+add", "+add+", "+concat", "+concat+", "+cast", "+cast+", "+dual-sum", "+tri-sum", "+pap", "+pap+"]
# README and docs/results.md, by the commands that they name.
FIGURES = [
    "experiment -q theperspective -r bm25,rank-bm25,minilm -m MRecall@5,MRecall@10,Precision@5,Precision@10 --pairs",
    "experiment -q theperspective -r bm25,minilm -m MRecall@5,Precision@5",
    f"experiment {BERDS_DEV} -r bm25,rank-bm25,minilm -m MRecall@5,MRecall@10,Precision@5,Precision@10",
    f"experiment -q pir-demo:perspectrum,pir-demo:ambigqa,pir-demo:allsides,pir-demo:exfever "
    f"-r {','.join(f'minilm{way}' for way in PIR)} -m pRecall@5",
    "experiment -q pir-demo:allsides -r whitespace-bm25,bm25 -m pRecall@5",
    "rate judge --data pers-det -j random,overlap,similarity,laptop",
    "sides -q theperspective -r bm25,minilm,minilm+mmr:0.75,minilm+expand:rule,minilm+pap:1.0",
]
# What docs/everyday.md, README and the teaching pages ask for, on what is shipped.
EVERYDAY = [
    "data list",
    "data card sample",
    "data stats -q sample",
    "data leaks -q sample",
    "data stats -c sample",
    "prompts list",
    "notebook list",
    "experiment -q sample --split test -r bm25,minilm,minilm+mmr:0.9",
    "experiment -q sample -r bm25,minilm -m MRecall@5,Precision@5,alpha_nDCG@10,ERR_IA@10,StRecall@10 --letters",
    "experiment -q sample -r minilm,minilm+expand:recorded,minilm+expand:rule+mmr:0.9,minilm+multi:recorded -j laptop",
    "experiment -q sample -r minilm+xquad:0.5,minilm+pm2:0.5,minilm+coverage:0.8,minilm+dpp:0.7 --aspect-judge overlap",
    "experiment -q pir-sample:location,pir-sample:stories -r bm25,minilm,minilm+pap:1.0,minilm+cast+ -m pRecall@5",
    "experiment -q perspectivearg-sample:explicit -r bm25,bm25+profile:filter -m nDCG@20,alpha_nDCG@20,rKL@20",
    "retrieve -q perspectivearg-sample:baseline -r bm25,minilm -k 50 -o {system}.jsonl",
    "evaluate -q perspectivearg-sample:baseline bm25.jsonl minilm.jsonl",
    "data validate perspectivearg-sample:baseline bm25.jsonl",
    "retrieve -q sample -r minilm -k 20 -o run.trec",
    "judge -q sample --run run.trec -j overlap -k 5 -o verdicts.tsv",
    "evaluate -q sample --run run.trec --verdicts verdicts.tsv -m MRecall@5,Precision@5",
    "evaluate -q sample --run run.trec -m MRecall@5,Precision@5,Coverage@5 --per-question",
    "sides -q sample -r bm25,minilm",
    "data export out -q sample",
    "experiment -q out -r bm25 -m Precision@5",
    "explore -o page.html -q sample -r bm25,minilm",
]
QUESTIONS = '{"qid": "q1", "question": "Is tea better?", "perspectives": ["Tea is.", "Coffee is."]}\n'
PASSAGES = '{"id": "d1", "text": "Tea is better."}\n{"id": "d2", "text": "Coffee wakes us."}\n'
VERDICTS = "qid\tpid\tdocno\tp_yes\nq1\t0\td1\t1\n"
GOOD = {"q.jsonl": QUESTIONS, "p.jsonl": PASSAGES, "run.trec": "q1 Q0 d1 1 2.0 x\n", "v.tsv": VERDICTS}
EXPERIMENT = "experiment -q q.jsonl -c p.jsonl -r bm25 -j overlap"
EVALUATE = "evaluate -q q.jsonl --run run.trec --verdicts v.tsv"
# A command, and the file that is not as it should be.
MALFORMED = [
    (EXPERIMENT, {"q.jsonl": QUESTIONS + "{"}),
    (EXPERIMENT, {"q.jsonl": ""}),
    (EXPERIMENT, {"q.jsonl": '{"qid": "q1", "perspectives": ["a", "b"]}\n'}),
    (EXPERIMENT, {"q.jsonl": QUESTIONS + QUESTIONS}),
    (EXPERIMENT, {"q.jsonl": '{"qid": "q1", "question": "Is tea better?", "perspectives": "Tea is."}\n'}),
    (EXPERIMENT, {"q.jsonl": '{"qid": "q1", "question": " ", "perspectives": ["a", "b"]}\n'}),
    (EXPERIMENT, {"p.jsonl": '{"id": "d1"}\n'}),
    (EXPERIMENT, {"p.jsonl": PASSAGES + '{"id": "d1", "text": "Again."}\n'}),
    (EXPERIMENT, {"p.jsonl": b"\xff\xfe"}),
    (EXPERIMENT.replace("bm25", "bm52"), {}),
    (EXPERIMENT.replace("bm25", "bm25+mrr:0.9"), {}),
    (EXPERIMENT.replace("bm25", "bm25+mmr:2"), {}),
    (EXPERIMENT.replace("overlap", "overlp"), {}),
    (f"{EXPERIMENT} -m MRecal@5", {}),
    (f"{EXPERIMENT} -m MRecall@0", {}),
    (EXPERIMENT.replace("p.jsonl", "nowhere.jsonl"), {}),
    (EXPERIMENT.replace("q.jsonl", "smaple"), {}),
    (EVALUATE, {"run.trec": "q1 Q0 d1 1 2.0\n"}),
    (EVALUATE, {"run.trec": "q1 Q0 d1 1 high x\n"}),
    (EVALUATE, {"run.trec": "q1 Q0 d1 1 2.0 x\nq1 Q0 d1 2 1.0 x\n"}),
    (EVALUATE, {"v.tsv": "qid\tpid\tdocno\nq1\t0\td1\n"}),
    (EVALUATE, {"v.tsv": VERDICTS + "q1\t0\td2\t1.5\n"}),
    (EVALUATE, {"v.tsv": VERDICTS + "q1\t0\td1\t0\n"}),
    (EVALUATE, {"v.tsv": "qid\tpid\tdocno\tp_yes\nq1\t7\td1\t1\n"}),
    ("notebook run 03_retrieval -p retriver bm25", {}),
]


def said(command):
    """Run a command in this process; return what it prints and its exit code."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(shlex.split(command), prog_name="berds", standalone_mode=True)
        except SystemExit as end:
            code = end.code or 0
    told = "\n".join(line for line in err.getvalue().splitlines() if "|" not in line and "it/s" not in line)
    text = f"{out.getvalue()}{told}".replace(os.getcwd(), ".")
    return re.sub(r"\b\d+(\.\d+)? (s|KiB)\b", r"N \2", text), code


def show(commands):
    for command in commands:
        text, code = said(command)
        print(f"\n$ berds {command}\n{text.rstrip()}\n[exit {code}]", flush=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    cache = os.environ.get("BERDS_CACHE")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        show(EVERYDAY)
        for command, wrong in MALFORMED:
            for name, content in (GOOD | wrong).items():
                Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
            print("\n#", json.dumps(wrong, default=repr, ensure_ascii=False))
            show([command])
        if os.environ.get("BERDS_DATA"):
            show(FIGURES)
        else:
            print("\nBERDS_DATA is not set: no figures on data sets of others", file=sys.stderr)
    print(f"\nnames: {sorted(bd.__all__)}")

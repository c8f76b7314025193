"""Give answers that were written by hand the keys under which a build looks for them.

A recorded answer is found by a hash of all that was asked, so whenever a prompt or a raw row changes, its key does.
The rows of the file also say what they answer (builder, item, step, attempt), and from that this script computes the
keys anew:

    python scripts/record_answers.py data/raw/recorded.jsonl arguana=data/raw/arguments.jsonl …

With --check nothing is written, and a file that is not as it would be written is an error. Answers that are no longer
asked for are reported and stay out.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from berdslib.construction.build import make, read_items
from berdslib.construction.pipeline import Draft, Step
from berdslib.data.tables import read_jsonl, write_jsonl
from berdslib.llm.asking import Answer
from berdslib.llm.chat import Messages, Reply
from berdslib.llm.recorded import exchange_key

MODEL = "written-by-hand"
Row = Mapping[str, str]


class Written:
    """Answers by item and step, each with the key of what was asked."""

    id = MODEL

    def __init__(self, builder: str, rows: Iterable[Row]) -> None:
        self.builder = builder
        self.rows = {(row["item"], row["step"], row["attempt"]): row for row in rows if row["builder"] == builder}
        self.keyed: dict[tuple[str, str, str], dict[str, str]] = {}

    def __call__(self, step: Step, drafts: Sequence[Draft], asked: Sequence[Messages], /) -> list[Answer]:
        """Return what was written for each item; what nobody wrote is that item's problem."""
        return [self._answer(step.name, draft.key, messages) for draft, messages in zip(drafts, asked, strict=True)]

    def _answer(self, step: str, item: str, messages: Messages) -> Answer:
        attempt = "again" if sum(message["role"] == "assistant" for message in messages) else "first"
        row = self.rows.get((item, step, attempt))
        if row is None:
            return Answer(None, f"nobody wrote what {item!r} gets at the step {step!r} ({attempt})")
        self.keyed[item, step, attempt] = {**row, "key": exchange_key(MODEL, messages)}
        return Answer(Reply(row["text"]))


def keyed(
    rows: Sequence[Row], sources: Sequence[tuple[str, Path]], sample: int = 0, seed: int = 0
) -> list[dict[str, str]]:
    """Return the rows that a build asks for, with their keys; what nobody wrote goes to stderr."""
    found: list[dict[str, str]] = []
    for builder, raw in sources:
        written = Written(builder, rows)
        made = make(builder, read_items(builder, raw, sample, seed).drafts, written)
        for one in made.unanswered:
            print(f"{builder}: {one.detail}", file=sys.stderr)
        found += written.keyed.values()
    asked = {(row["builder"], row["item"], row["step"], row["attempt"]) for row in found}
    for row in rows:
        if (which := (row["builder"], row["item"], row["step"], row["attempt"])) not in asked:
            print(f"never asked for: {which}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("sources", nargs="+", metavar="BUILDER=RAW")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    sources = [(builder, Path(raw)) for builder, raw in (one.split("=", 1) for one in given.sources)]
    there = [row for _, row in read_jsonl(given.file)]
    rows = keyed(there, sources, given.sample, given.seed)
    if not given.check:
        write_jsonl(given.file, rows)
    elif rows != there:
        sys.exit(f"{given.file} is not as this script would write it; run it without --check")
    print(json.dumps({"answers": len(rows)}))


if __name__ == "__main__":
    main()

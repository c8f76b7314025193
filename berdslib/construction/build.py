"""A build: raw rows through steps and checks to questions with perspectives, a split, and a folder to share.

Every answer is recorded as soon as it is there, so a build that broke off, or was stopped by its budget, goes on where
it was when it is run again: what is recorded is never asked, or paid, twice.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from filelock import FileLock, Timeout

from berdslib.construction.builders import BUILDERS, COUNTS, make, read_items, wording_of
from berdslib.construction.pipeline import Answers, ByChat, ByRule, Draft, Rehearsal, Rejection, write_rejections
from berdslib.construction.statements import LABEL
from berdslib.data import own
from berdslib.data.collection import Collection
from berdslib.data.leaks import groups
from berdslib.data.own import OwnCard, write_dataset
from berdslib.data.records import Passage, Question, check_passages
from berdslib.errors import InputError
from berdslib.llm.budget import Budgeted
from berdslib.llm.chat import ChatModel, Endpoint
from berdslib.llm.prompting import load_prompt
from berdslib.llm.recorded import Kept
from berdslib.models.chat import make_chat

EXCHANGES, SPENDING, REJECTED, UNANSWERED = "exchanges.jsonl", "spending.jsonl", "rejected.jsonl", "unanswered.jsonl"
FAILED, LOCK = "failed.jsonl", "build.lock"
MAX_TOKENS = 1000  # of an answer: thirty statements, one for each answer to a question
DEV_SHARE = 0.25  # of BeRDS (Table 1)
logger = logging.getLogger(__name__)


def split_questions(
    questions: Sequence[Question],
    gold: pd.DataFrame | None = None,
    *,
    dev: float = 0.25,
    threshold: float = 0.8,
    seed: int = 0,
) -> list[Question]:
    """Return the questions with their split, "dev" or "test"; those that leak into one another share one.

    BeRDS splits 25 to 75 (Table 1: 250 and 750, 294 and 882, 258 and 774). The number of dev questions is rounded down,
    and met exactly unless groups of leaking questions are too large for that.
    Gold verdicts keep questions with nearly the same passages together too; `threshold` is the overlap from which two
    questions leak, see :func:`berdslib.data.leaks.leaks`.
    """
    if not 0 < dev < 1:
        raise InputError(f"the share of dev questions must lie between 0 and 1, not {dev}", field="dev")
    together = groups(questions, gold, threshold=threshold)
    wanted = int(dev * len(questions))
    chosen: set[str] = set()
    for i in np.random.default_rng(seed).permutation(len(together)):
        if len(chosen) + len(together[i]) <= wanted:
            chosen.update(together[i])
    if not wanted:
        logger.warning("%d questions are too few for a share of %g in dev: all are in test", len(questions), dev)
    elif not chosen:
        logger.warning("all questions are in test: those that overlap stay together, and no group is as small as %d",
                       wanted)  # fmt: skip
    return [q._replace(split="dev" if q.qid in chosen else "test") for q in questions]


class Built(NamedTuple):
    """A finished build.

    Fields: ``collection`` the data set; ``rejected`` what was left out; ``unanswered`` what the endpoint could not
    answer, which is asked again when the build is run again; ``counts`` a frame with a row for each step: step, items,
    asked, left_out, unanswered; ``folder`` where the data set lies; ``spent`` what all requests to an endpoint cost so
    far at the prices given, those included that came to nothing.
    """

    collection: Collection
    rejected: list[Rejection]
    unanswered: list[Rejection]
    counts: pd.DataFrame
    folder: Path
    spent: float = 0.0


def build(
    builder: str,
    raw: str | Path,
    folder: str | Path,
    model: str | ChatModel = "rule",
    *,
    name: str | None = None,
    title: str | None = None,
    licence: str = "none stated",
    source: str = "",
    language: str = "en",
    passages: Sequence[Passage] = (),
    dev: float | None = None,
    sample: int = 0,
    seed: int = 0,
    wording: str = "ours",
    prices: tuple[float, float] | None = None,
    budget: float | None = None,
    workers: int = 4,
) -> Built:
    """Build a data set from a source, and write it to a folder that ``berdslib.load`` reads.

    Args:
        builder: "arguana", "kialo" or "opinionqa", whose sources BeRDS is made of; or "questions", a plain list.
        raw: the source's file or folder; see the builder's reader for its form.
        folder: where the data set goes, with all answers (`exchanges.jsonl`), what was left out (`rejected.jsonl`), and
            what could not be answered (`unanswered.jsonl`). It must be new, or that of an earlier run of this build.
        model: who answers: "rule" for rules alone, which answer what they are sure of; a name as
            :func:`berdslib.models.chat.make_chat` reads it; or a chat model.
        name: of the data set; None for the folder's.
        title: what it is, in one line; None for one made of the name.
        licence: under which terms others may use it.
        source: where its texts come from.
        language: of its texts.
        passages: a corpus to go with it; none where it is searched in another's.
        dev: share of development questions; 0 to leave the splits of the source, if it has some; None for a quarter as
            in BeRDS, or 0 for a plain list.
        sample: how many items to draw from the source; 0 for all.
        seed: of that draw, and of the split.
        wording: of the prompts: "ours", or "published" for the papers', which are imported first.
        prices: per million prompt and completion tokens, for `budget`.
        budget: most to spend in all runs into this folder; None for no limit.
        workers: requests in flight at a time.

    Raises:
        InputError: an unusable source, a wrong option, or nothing is left of all items.
        BudgetError: the budget does not cover the next request; what was answered is recorded.
        ChatError: the endpoint refuses.
        MissingDataError: a model or a published wording that is not there.

    Source: BeRDS, section 4.1, A.1 and A.8.
    """
    raw, folder = Path(raw), Path(folder)
    share = (0.0 if builder == "questions" else DEV_SHARE) if dev is None else dev
    _check_options(dev=share, sample=sample, seed=seed, workers=workers, prices=prices, budget=budget)
    _check_folder(folder, raw, builder)
    called = name or folder.resolve().name
    card = OwnCard(called, title or f"Questions and perspectives: {called}", licence, source, language)
    check_passages(passages)
    items = read_items(builder, raw, sample, seed)
    with _alone_in(folder):
        answers, meter = _answers(model, folder, prices, budget, workers)
        made = make(builder, items.drafts, answers, wording)
        if not made.drafts:
            write_rejections(folder / FAILED, [*items.unusable, *made.rejected])
            why = f"{len(made.rejected)} were left out ({folder / FAILED}) and {len(made.unanswered)} not answered"
            raise InputError(f"nothing is left of {len(items.drafts)} items: {why}", path=raw)
        found = [draft.as_question(card.name) for draft in made.drafts]
        found = split_questions(found, dev=share, seed=seed) if share else found
        facts = {
            "builder": builder,
            "raw": raw.name,
            "raw_sha256": _digest(raw)[:16],
            "answers": answers.id,
            "prompts": {} if answers.id == ByRule.id else _prompts(builder, wording, answers.id),
            "items": items.usable,
            "drawn": len(items.drafts) if sample else None,
            "left_out": dict(Counter(one.reason for one in [*items.unusable, *made.rejected]).most_common()),
            "unanswered": len(made.unanswered),
            "seed": seed if sample or share else None,
        }
        card = replace(card, made={name: value for name, value in facts.items() if value not in ({}, None)})
        write_dataset(folder, card, found, passages, more={d.key: _origin(d) for d in made.drafts})
        write_rejections(folder / REJECTED, [*items.unusable, *made.rejected])
        write_rejections(folder / UNANSWERED, made.unanswered)
        (folder / FAILED).unlink(missing_ok=True)  # of an earlier run that ended with nothing
    unusable, total = len(items.unusable), items.usable + len(items.unusable)
    row = dict(zip(COUNTS, ("read", total, 0, unusable, 0), strict=True))
    return Built(
        Collection(card.name, found, passages),
        [*items.unusable, *made.rejected],
        made.unanswered,
        pd.concat([pd.DataFrame([row]), made.counts], ignore_index=True),
        folder,
        meter.spent if meter else 0.0,
    )


def rehearse(
    builder: str,
    raw: str | Path,
    folder: str | Path,
    model: str | ChatModel,
    *,
    prices: tuple[float, float] = (0.0, 0.0),
    sample: int = 0,
    seed: int = 0,
    wording: str = "ours",
) -> pd.DataFrame:
    """Return what a build would ask and cost, without asking anything; see :class:`~.pipeline.Rehearsal`.

    The arguments are those of :func:`build`; what an earlier run recorded in the folder need not be asked. Returns a
    frame with a row for each step, and one for all: step, recorded, to_ask, prompt_tokens, completion_tokens,
    likely_cost, most_cost.
    """
    if model == ByRule.id:
        raise InputError("the rules ask nobody and cost nothing; a dry run is for a chat model")
    _check_options(sample=sample, seed=seed, prices=prices)
    drafts = read_items(builder, Path(raw), sample, seed).drafts
    rehearsal = Rehearsal(_chat(model), Path(folder) / EXCHANGES)
    make(builder, drafts, rehearsal, wording, check=False)
    return rehearsal.table(prices)


def _check_options(
    *,
    dev: float = 0.0,
    sample: int = 0,
    seed: int = 0,
    workers: int = 1,
    prices: tuple[float, float] | None = None,
    budget: float | None = None,
) -> None:
    """Refuse a wrong option before anything is read, asked or paid."""
    whole = {"sample": (sample, 0), "seed": (seed, 0), "workers": (workers, 1)}
    for name, (value, least) in whole.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"a whole number from {least} was expected, not {value!r}", field=name)
    if isinstance(dev, bool) or not isinstance(dev, int | float) or not 0 <= dev < 1:
        raise InputError(f"a share from 0 to below 1 was expected, not {dev!r}", field="dev")
    amounts = [*([] if budget is None else [budget]), *(() if prices is None else prices)]
    if any(isinstance(n, bool) or not isinstance(n, int | float) or not 0 <= n < float("inf") for n in amounts):
        raise InputError(f"amounts from 0 were expected, not {budget!r} at {prices!r}", field="prices")
    if prices is not None and len(prices) != 2:
        problem = f"two prices were expected, of prompt and completion tokens, not {prices!r}"
        raise InputError(problem, field="prices")
    if budget is not None and prices is None:
        raise InputError("a budget needs the prices per million prompt and completion tokens", field="prices")


def _check_folder(folder: Path, raw: Path, builder: str) -> None:
    """Refuse to write over the source, other people's files, or a data set that was built from something else."""
    inner, outer = folder.resolve(), raw.resolve()
    if inner == outer or inner in outer.parents or outer in inner.parents:
        raise InputError("the data set needs a folder of its own, apart from its source", path=folder)
    if own.is_own(folder):
        before = own.read_card(folder).made
        if (before.get("builder"), before.get("raw")) != (builder, raw.name):
            told = f"from {before['raw']} by {before['builder']}" if "raw" in before else "by hand"
            raise InputError(f"holds a data set that was made {told}; name another folder", path=folder)
        return
    ours = (EXCHANGES, SPENDING, FAILED, LOCK)
    if not any((folder / name).exists() for name in ours):
        foreign = [name for name in (own.QUESTIONS, own.CORPUS, own.README) if (folder / name).exists()]
        if foreign:
            raise InputError(f"holds {foreign[0]!r}, which no build wrote; name another folder", path=folder)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold a folder for one build: two would pay for the same answers, each up to the whole budget."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / LOCK, timeout=0):
            yield
    except Timeout:
        raise InputError("another build is under way in this folder; wait for it", path=folder) from None


def _chat(model: str | ChatModel) -> ChatModel:
    return make_chat(model, max_tokens=MAX_TOKENS) if isinstance(model, str) else model


def _answers(
    model: str | ChatModel, folder: Path, prices: tuple[float, float] | None, budget: float | None, workers: int
) -> tuple[Answers, Budgeted | None]:
    """Return who answers, and what counts the cost: of an endpoint always, so that a later limit knows of all runs."""
    if model == ByRule.id:
        return ByRule(), None
    chat, meter = _chat(model), None
    if prices is not None or isinstance(chat, Endpoint):
        limit = sys.float_info.max if budget is None else budget
        meter = Budgeted(chat, prices=prices or (0.0, 0.0), limit=limit, ledger=folder / SPENDING)
    return ByChat(Kept(meter or chat, folder / EXCHANGES), workers), meter


def _origin(draft: Draft) -> dict[str, object]:
    """Return what a reviewer needs beside the question: the texts that it was made of, and where they are."""
    options = () if set(draft.options) <= set(draft.sources) else (" / ".join(draft.options),)
    facts = {"where": draft.where, "sources": (*draft.sources, *options), "documents": draft.documents}
    return {name: value for name, value in facts.items() if value}


def _prompts(builder: str, wording: str, asked: str) -> dict[str, str]:
    tasks = [step.task for step in (*BUILDERS[builder].steps, LABEL)]
    return {task: load_prompt(task, wording_of(task, wording), asked=asked).hash for task in tasks}


def _digest(raw: Path) -> str:
    """Return the checksum of a file, or of all the files of a folder."""
    digest = hashlib.sha256()
    for path in sorted(raw.rglob("*")) if raw.is_dir() else [raw]:
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()

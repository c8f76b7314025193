"""A build: raw rows through steps and checks to questions with perspectives, a split, and a folder to share.

Each answer is recorded as soon as it arrives, so an interrupted build resumes and never repeats a request.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from filelock import FileLock, Timeout

from berdslib.construction import checks, debates, opinionqa, questions
from berdslib.construction.pipeline import Answers, ByChat, ByRule, Draft, Passed, Rehearsal, Rejection, Step, take
from berdslib.construction.questions import LABEL
from berdslib.data.collection import Collection
from berdslib.data.leaks import groups
from berdslib.data.records import Passage, Question, check_passages
from berdslib.data.saved import check_nothing_foreign, is_saved, read_card, write_collection
from berdslib.data.tables import write_jsonl
from berdslib.errors import InputError, known
from berdslib.llm.chat import ChatModel
from berdslib.llm.prompting import OURS, load_prompt, wordings
from berdslib.llm.recorded import Recorded
from berdslib.models.chat import make_chat
from berdslib.statements.contradiction import same_text

EXCHANGES = "exchanges.jsonl"
REJECTED = "rejected.jsonl"
UNANSWERED_FILE = "unanswered.jsonl"
FAILED_FILE = "failed.jsonl"
LOCK = "build.lock"
COUNTS = ["step", "items", "asked", "left_out", "unanswered"]
_CHECKS = "checks"
MAX_TOKENS = 1000  # of an answer: thirty statements, one for each answer to a question
DEV_SHARE = 0.25  # of BeRDS (Table 1)
logger = logging.getLogger(__name__)


# ---------------------------------------------------------------- the ways from a source to questions


class Builder(NamedTuple):
    """A way from a source to questions; ``passes`` lists reasons of the automatic checks that it ignores.

    The source of a ``finished`` builder already has questions and perspectives, so the checks are skipped.
    """

    read: Callable[..., tuple[list[Draft], list[Rejection]]]
    steps: tuple[Step, ...]
    passes: frozenset[str] = frozenset()
    finished: bool = False


# Questions that people wrote skip the checks of their form.
_OF_FORM = frozenset({"not a question", "several sentences", "copied"})

BUILDERS: Mapping[str, Builder] = {
    # points and counter-points → question → statement and negation
    "arguana": Builder(debates.read_arguments, debates.ARGUMENT_STEPS),
    # discussions → the statement's opposite, or a statement for each answer
    "kialo": Builder(debates.read_discussions, debates.DISCUSSION_STEPS, _OF_FORM),
    # survey questions and options → opinion, not experience → question, yes and no; to keep the survey's words
    "opinionqa": Builder(opinionqa.read_survey, opinionqa.STEPS, frozenset({"copied"})),
    # a plain list of questions → statement and negation, or one statement for each position
    "questions": Builder(questions.read_list, questions.LIST_STEPS, _OF_FORM),
    # questions with perspectives, as they are → which of two supports
    "stances": Builder(questions.read_named, (questions.STANCES,), finished=True),
}


# ---------------------------------------------------------------- items


class Items(NamedTuple):
    """The content of a source: the sampled ``drafts``, the number of ``usable`` items, and the ``unusable`` items."""

    drafts: list[Draft]
    usable: int
    unusable: list[Rejection]


def read_items(builder: str, raw: Path, sample: int = 0, seed: int = 0, split: str | None = None) -> Items:
    """Read a source and draw a sample of its items in file order; a sample of 0 keeps all items."""
    way = BUILDERS[known("builder", builder, BUILDERS)]
    if split and not way.finished:
        raise InputError("only the builder 'stances' takes one", field="split")
    drafts, unusable = way.read(raw, split) if way.finished else way.read(raw)
    if not 0 <= sample <= len(drafts):
        raise InputError(f"a sample of 1 to {len(drafts)} items can be drawn, or 0 for all, not {sample}", path=raw)
    drawn = np.random.default_rng(seed).choice(len(drafts), sample or len(drafts), replace=False)
    return Items([drafts[place] for place in np.sort(drawn)], len(drafts), unusable)


# ---------------------------------------------------------------- through the steps


def make(
    builder: str, drafts: Sequence[Draft], answers: Answers, wording: str = "ours", *, check: bool = True
) -> Passed:
    """Run all items through a builder's steps and checks, then label the supporting perspective of each pair."""
    way = BUILDERS[known("builder", builder, BUILDERS)]
    done = Passed(list(drafts), [], [], [])
    for step in way.steps:
        done = done.then(take(step, done.drafts, answers, wording_of(step.task, wording)))
    if way.finished:
        return done
    if check:  # before the labelling step spends requests on faulty items
        done = done.then(_checked(done.drafts, way.passes))
    given = {draft.key for draft in drafts if draft.stances}  # recorded stances are kept
    label = replace(LABEL, applies=lambda draft: draft.key not in given and LABEL.applies(draft))
    return done.then(take(label, done.drafts, answers, wording_of(label.task, wording)))


def wording_of(task: str, wording: str) -> str:
    """Return the wording of a task's prompt for one of our wordings or "published"; some tasks have only ours."""
    if known("wording", wording, (*OURS, "published")) in OURS:
        return wording
    return next((name for name in wordings(task) if name.startswith("table-")), "ours")


def _checked(drafts: Sequence[Draft], passes: frozenset[str]) -> Passed:
    """Reject items that fail an automatic check, except for reasons in `passes`, and repeated questions."""
    faulty: list[Rejection] = []
    twice: list[Rejection] = []
    first: dict[str, Draft] = {}
    for draft in drafts:
        problems = checks.problems_of(draft.question, draft.perspectives, sources=(*draft.sources, *draft.options))
        problems = [problem for problem in problems if problem.reason not in passes]
        if problems:
            others = [f"{problem.reason}: {problem.detail}" for problem in problems[1:]]
            detail = "; ".join([problems[0].detail, *others])
            faulty.append(Rejection(draft, _CHECKS, problems[0].reason, detail))
            continue
        same = first.setdefault(same_text(draft.question), draft)
        if same is not draft:
            twice.append(Rejection(draft, _CHECKS, questions.TWICE, f"as {same.key!r}"))
    out = faulty + twice
    return Passed(list(first.values()), out, [], [(_CHECKS, len(drafts), len(drafts), len(out), 0)])


# ---------------------------------------------------------------- a build


def split_questions(questions: Sequence[Question], *, dev: float = DEV_SHARE, seed: int = 0) -> list[Question]:
    """Return the questions with their split, "dev" or "test"; questions that leak into one another share a split.

    The share of dev is never exceeded; it is met exactly unless the groups of leaking questions are too large.
    """
    together = groups(questions)
    wanted = int(dev * len(questions))
    chosen: set[str] = set()
    for place in np.random.default_rng(seed).permutation(len(together)):
        if len(chosen) + len(together[place]) <= wanted:
            chosen.update(together[place])
    if not chosen:
        logger.warning("all %d questions are in test: for a share of %g in dev they are too few, or too many overlap, "
                       "which stay together", len(questions), dev)  # fmt: skip
    return [q._replace(split="dev" if q.qid in chosen else "test") for q in questions]


class Built(NamedTuple):
    """A finished build.

    ``rejected`` holds the items that were left out, ``unanswered`` those that the next run asks about again; ``counts``
    is a frame step, items, asked, left_out, unanswered.
    """

    collection: Collection
    rejected: list[Rejection]
    unanswered: list[Rejection]
    counts: pd.DataFrame
    folder: Path


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
    workers: int = 4,
    split: str | None = None,
) -> Built:
    """Build a data set from a source and write it to a folder that ``berdslib.load`` reads.

    Args:
        builder: "arguana", "kialo" or "opinionqa" for the sources of BeRDS; "questions" for a plain list; or "stances",
            which labels the supporting perspective of finished questions with two perspectives (A.8).
        raw: the source's file or folder; see the builder's reader for its format. "stances" also takes names of data
            sets.
        folder: the output folder; it receives the data set, all answers (`exchanges.jsonl`), the rejected items
            (`rejected.jsonl`) and the unanswered items (`unanswered.jsonl`). It must be new, or the folder of an
            earlier run of this build.
        model: the source of answers: "rule" for rules alone, which skip items they are unsure about; a name that
            :func:`berdslib.models.chat.make_chat` accepts; or a chat model.
        name: name of the data set; None for the folder's name.
        title: a one-line title; None for a title made from the name.
        licence: the licence of the data set.
        source: the origin of its texts.
        language: the language of its texts.
        passages: the data set's own corpus; empty if another corpus is searched.
        dev: share of development questions; 0 to keep the splits of the source; None for a quarter as in BeRDS, or 0
            for a plain list and for "stances".
        sample: number of items to draw from the source; 0 for all.
        seed: seed of the sample and of the split.
        wording: wording of the prompts: "ours", or "published" for the papers' prompts, which must be imported first.
        workers: number of concurrent requests.
        split: for "stances", the split of the data sets, or "all"; None for the first.

    Raises:
        InputError: an unusable source, a wrong option, or all items were rejected.
        ChatError: the endpoint refuses.
        MissingDataError: a missing model or published wording.

    Source: BeRDS, section 4.1, A.1 and A.8.
    """
    raw = Path(raw)
    folder = Path(folder)
    dev = _development_share(builder, dev)
    if workers < 1:
        raise InputError(f"at least one was expected, not {workers!r}", field="workers")
    _check_folder(folder, raw, builder)
    check_passages(passages)
    items = read_items(builder, raw, sample, seed, split)
    name = name or folder.resolve().name
    with _alone_in(folder):
        answers = _answers_by(model, folder, workers)
        made = make(builder, items.drafts, answers, wording)
        rejected = [*items.unusable, *made.rejected]
        if not made.drafts:
            _write(folder / FAILED_FILE, rejected)
            why = f"{len(made.rejected)} were left out ({folder / FAILED_FILE}) and {len(made.unanswered)} not answered"
            raise InputError(f"nothing is left of {len(items.drafts)} items: {why}", path=raw)
        found = [draft.as_question(name) for draft in made.drafts]
        collection = Collection(name, split_questions(found, dev=dev, seed=seed) if dev else found, passages)
        title = title or f"Questions and perspectives: {name}"
        card = {"title": title, "licence": licence, "source": source, "language": language}
        facts = {
            "builder": builder,
            "raw": raw.name,
            "raw_sha256": _digest(raw)[:16] if raw.exists() else None,
            "answers": answers.id,
            "prompts": {} if answers.id == ByRule.id else _prompts(builder, wording, answers.id),
            "items": items.usable,
            "drawn": len(items.drafts) if sample else None,
            "left_out": dict(Counter(rejection.reason for rejection in rejected).most_common()),
            "unanswered": len(made.unanswered),
            "seed": seed if sample or dev else None,
        }
        facts = {name: value for name, value in facts.items() if value not in ({}, None)}
        more = {draft.key: _origin(draft) for draft in made.drafts}
        write_collection(folder, collection, card | {"made": facts}, more=more)
        _write(folder / REJECTED, rejected)
        _write(folder / UNANSWERED_FILE, made.unanswered)
        (folder / FAILED_FILE).unlink(missing_ok=True)  # left by an earlier run that rejected all items
    unusable = len(items.unusable)
    counts = pd.DataFrame([("read", items.usable + unusable, 0, unusable, 0), *made.counts], columns=COUNTS)
    return Built(collection, rejected, made.unanswered, counts, folder)


def _development_share(builder: str, dev: float | None) -> float:
    if dev is None:
        dev = 0.0 if builder in ("questions", "stances") else DEV_SHARE
    if not 0 <= dev < 1:
        raise InputError(f"a share from 0 to below 1 was expected, not {dev!r}", field="dev")
    return dev


def _answers_by(model: str | ChatModel, folder: Path, workers: int) -> Answers:
    if model == ByRule.id:
        return ByRule()
    return ByChat(Recorded(folder / EXCHANGES, _chat(model)), workers)


def rehearse(
    builder: str,
    raw: str | Path,
    folder: str | Path,
    model: str | ChatModel,
    *,
    sample: int = 0,
    seed: int = 0,
    wording: str = "ours",
    split: str | None = None,
) -> pd.DataFrame:
    """Return the number and size of a build's requests without sending any; arguments as for :func:`build`.

    Frame step, recorded, to_ask, most_prompt_tokens; the last row is "all".
    """
    if model == ByRule.id:
        raise InputError("the rules send no requests; name a chat model for a dry run")
    drafts = read_items(builder, Path(raw), sample, seed, split).drafts
    rehearsal = Rehearsal(_chat(model), Path(folder) / EXCHANGES)
    make(builder, drafts, rehearsal, wording, check=False)
    return rehearsal.table()


def _check_folder(folder: Path, raw: Path, builder: str) -> None:
    """Refuse to overwrite the source, foreign files, or a data set that was built from another source."""
    target = folder.resolve()
    origin = raw.resolve()
    if target == origin or target in origin.parents or origin in target.parents:
        raise InputError("the data set needs a folder of its own, apart from its source", path=folder)
    if is_saved(folder):
        made = read_card(folder).get("made", {})
        if (made.get("builder"), made.get("raw")) != (builder, raw.name):
            raise InputError("holds another data set; name another folder", path=folder)
    elif not any((folder / name).exists() for name in (EXCHANGES, FAILED_FILE, LOCK)):
        check_nothing_foreign(folder)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder for one build; two concurrent builds would send the same requests."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / LOCK, timeout=0):
            yield
    except Timeout:
        raise InputError("another build is under way in this folder; wait for it", path=folder) from None


def _chat(model: str | ChatModel) -> ChatModel:
    return make_chat(model, max_tokens=MAX_TOKENS) if isinstance(model, str) else model


def _write(path: Path, rejections: Sequence[Rejection]) -> None:
    write_jsonl(path, (rejection.as_row() for rejection in rejections))


def _origin(draft: Draft) -> dict[str, object]:
    """Return the provenance that a reviewer needs: the texts behind the question, and where they come from."""
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

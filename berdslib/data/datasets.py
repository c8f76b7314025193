"""Data sets by name or from files: whole, as ``berdslib.load`` returns them, or their parts; and their cards.

Files are looked for under BERDS_DATA first, then in the user's cache; only :func:`fetch` asks the network. A part of a
file never comes before the whole of it, and one split is never substituted for another.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

import numpy as np
import pandas as pd

from berdslib.data import formats
from berdslib.data.arguments import is_release
from berdslib.data.catalogue import DATASETS, Dataset
from berdslib.data.collection import Collection
from berdslib.data.corpus import Corpus, Written, cut_rows, is_corpus, make_corpus, open_corpus
from berdslib.data.fetch import every_place, fetch_files, fetch_hint, marked
from berdslib.data.gold import share_verdicts, unjudged_copies
from berdslib.data.passages import corpus_statistics
from berdslib.data.pir import is_pir, load_task
from berdslib.data.readers import READERS, LabelledPair, aspects_at, beir_at, from_ir_datasets, nuggets_at, table_at
from berdslib.data.records import (
    GRADE,
    QRELS_COLUMNS,
    Passage,
    Qrels,
    Question,
    as_qrels,
    at_level,
    check_questions,
    check_some_yes,
    check_verdicts,
    counted,
    judged_still,
    verdicts_from_qrels,
    with_perspectives,
)
from berdslib.data.saved import saved_at
from berdslib.data.scenario import Scenario, load_scenario
from berdslib.data.tables import Records, is_records
from berdslib.data.trec import read_judgements
from berdslib.data.web import OwnCorpora, is_web_corpora, open_web_corpora
from berdslib.errors import InputError, MissingDataError, errors_in, known

logger = logging.getLogger(__name__)

_LONGEST_NAME = 255  # bytes between two slashes, of every usual file system
IR_DATASETS = "ir_datasets:"

# ---------------------------------------------------------------- what a name stands for


def names() -> list[str]:
    """Return the names of all data sets."""
    return list(DATASETS)


def find(name: str | Path) -> Dataset:
    """Return the data set that a name or a path stands for.

    A known name comes first, also before a folder of that name. What a path holds is told by its content. A path is a
    Path, or a text that names something or looks like a path.
    """
    if isinstance(name, str) and name in DATASETS:
        return DATASETS[name]
    path = Path(name)
    for at in (saved_at, nuggets_at, aspects_at, beir_at):
        if (one := at(path)) is not None:
            return one
    if isinstance(name, Path) or path.exists() or path.suffix != "" or len(path.parts) > 1:
        return table_at(path)
    return DATASETS.find(name)[0]  # which says what there is


def dataset(name: str | Path) -> Dataset:
    """Return the entry of a data set: one that is known by name, or a folder with the card of one.

    >>> dataset("kialo").hf_repo
    'timchen0618/Kialo'
    """
    one = find(name)
    return DATASETS.find(str(name))[0] if one.reader == "table" else one


def _part(name: str | Path, part: str, split: str | None = None) -> tuple[Dataset, Any]:
    """Return a data set and a part of it, of a split where the part has some. A table may be of anything."""
    one = find(name)
    if one.make is not None:
        made = getattr(_made(one, split), part, None)
        if made is not None and len(made):
            return one, made
    elif part in (READERS["table"] if one.reader == "table" else one.parts):
        splits = [_splits(one, split)] if part in ("questions", "expansions") else []
        return one, READERS[one.reader][part](one, *splits)
    able = ", ".join(n for n, other in DATASETS.items() if part in other.parts)
    what = {"gold": "gold verdicts", "pairs": "labelled pairs"}.get(part, part)
    raise InputError(f"{one.name!r} has no {what} of its own (see its card); these have: {able}")


def _splits(one: Dataset, split: str | None) -> tuple[str, ...]:
    if one.reader == "table":
        return ()
    if not one.splits:
        if split in (None, "all"):
            return ()
        raise InputError(f"{one.name!r} is not split; use split = 'all', not {split!r}", field="split")
    known("split", split or one.splits[0], (*one.splits, "all"))
    return one.splits if split == "all" else (split or one.splits[0],)


# ---------------------------------------------------------------- parts


def load_questions(name: str | Path, split: str | None = None, limit: int = 0) -> list[Question]:
    """Return the questions of a data set, of a file or of a BEIR folder.

    Args:
        name: a data set, the path of a file that :func:`berdslib.data.formats.read_questions` reads, or a BEIR folder,
            whose queries have their own text as their one perspective.
        split: a split, or "all"; None = the first of a data set's, which is "dev" where it has one ("test" of a BEIR
            folder), or everything where it has none.
        limit: only the first so many; 0 = all.
    """
    check_limit(limit)
    one, found = _part(name, "questions", split)
    questions: list[Question] = list(found)
    if one.reader == "table":
        questions = _of_split(questions, split or "all", one.place)
    else:
        check_questions(questions, need_perspectives=True)
    return questions[: limit or None]


def load_passages(name_or_path: str | Path, limit: int = 0) -> Sequence[Passage]:
    """Return the passages of a data set, a file or a BEIR folder; nothing is downloaded here, see :func:`fetch`.

    Args:
        name_or_path: a data set with passages; a path that :func:`berdslib.data.formats.iter_passages` reads; a folder
            that :func:`berdslib.data.corpus.write_corpus` made; or one of :func:`berdslib.data.web.web_corpora`, where
            every question has passages of its own. With ":words" behind it the rows are documents, to be cut into
            passages of 100 words; what comes of that is kept on disk and memory-mapped, see
            :func:`berdslib.data.corpus.open_corpus`.
        limit: only the first so many; 0 = all, which for the large ones does not fit into memory: stream those with
            ``iter_passages(passage_file(name))``, or open them with ``open_corpus``.
    """
    check_limit(limit)
    is_cut = str(name_or_path).endswith(":words")
    place = passage_file(str(name_or_path).removesuffix(":words") if is_cut else name_or_path)
    opened: Sequence[Passage]
    if not isinstance(place, Path):
        opened = list(cut_rows(place, "words")[0]) if is_cut else place
    elif is_cut:
        opened = open_corpus(place, cut="words")
    elif is_web_corpora(place):
        opened = OwnCorpora(open_web_corpora(place))
    elif is_corpus(place):
        opened = Corpus(place)
    else:
        return formats.read_passages(place, limit)
    return opened[:limit] if limit else opened


def passage_file(name_or_path: str | Path) -> Path | Sequence[Passage]:
    """Return where the passages of a data set lie, to be streamed, or those that a function of the user's made."""
    place: Path | Sequence[Passage] = _part(name_or_path, "passages")[1]
    return place


def load_gold(name: str | Path) -> pd.DataFrame:
    """Return the gold verdicts of a data set that has some ("sample", "theperspective"), of a file or a BEIR folder.

    Args:
        name: a data set, a file that :func:`berdslib.data.trec.read_verdicts` reads, or a BEIR folder, whose judgements
            of all splits are returned.
    """
    one, found = _part(name, "gold", "all")
    gold = check_verdicts(found)
    return share_verdicts(gold, load_passages(name)) if one.verdicts_on_texts else gold


def load_pairs(name: str | Path) -> list[LabelledPair]:
    """Return the (document, perspective) pairs that people labelled, of a data set ("pers-det") or of a file."""
    pairs: list[LabelledPair] = _part(name, "pairs")[1]
    return pairs


def load_expansions(name: str | Path, split: str | None = None) -> dict[str, list[tuple[str, str]]]:
    """Return the recorded query expansions of a data set.

    Args:
        name: "sample", "arguana", "kialo" or "opinionqa".
        split: as in :func:`load_questions`; those of BeRDS were published for "dev" only.

    Returns:
        qid → [(name of the perspective, text), …], in the order in which they were generated.
    """
    expansions: dict[str, list[tuple[str, str]]] = _part(name, "expansions", split)[1]
    return expansions


# ---------------------------------------------------------------- wholes


def load(
    name: str | Path | Records | Sequence[str | Path],
    *,
    passages: str | Path | Records | Sequence[Passage] | None = None,
    split: str | None = None,
    gold: str | Path | Records | None = None,
    limit: int = 0,
    relevance_level: float | None = None,
    first_subtopic: int | None = None,
) -> Collection:
    """Return questions with their corpus and what is known about them.

    What is missing is logged, with counts: questions without a verdict, judged passages that are not in the corpus.

    Args:
        name: a data set ("sample", "theperspective", "kialo", …); a task of PIR ("pir-demo:allsides",
            "pir-sample:location", or a JSON file in the authors' layout, "FILE.json:TASK"); a scenario of
            PerspectiveArg ("perspectivearg-sample:explicit", or a release's folder, "FOLDER:implicit"); a file of
            questions (JSONL, TSV, CSV or Parquet); a BEIR folder; "ir_datasets:NAME"; or several of these, which need
            `passages`. A known name comes before a folder of that name beside you: "./theperspective" is the folder.
            A data frame, or a list of dicts, holds questions in the columns of such a file.
        passages: a data set, file or folder to search; a data frame or list of dicts; or a list of passages; None for
            the data set's own.
        split: a split of the data set, or "all", which PerspectiveArg has not; None for "dev" where there is one, else
            for its first ("test" of a BEIR folder); for everything of what is not split, and of a file. A question's
            field `split` says which it is of.
        gold: verdicts or qrels to score by: a file, a data set, a frame or list of dicts; None for the data set's own.
            Where questions list no perspectives, the subtopics that some passage is relevant to take their place; where
            there are no subtopics either, the question's own text.
        limit: only the first so many questions of each; 0 for all.
        relevance_level: of graded qrels, the smallest relevance that is a yes, as trec_eval's -l; None for 1.
        first_subtopic: of qrels, the number of a topic's first subtopic, 0 or 1; None to decide for each topic, see
            :func:`berdslib.data.records.verdicts_from_qrels`.

    Raises:
        InputError: an unknown name or split, or a file that cannot be read.
        MissingDataError: a data set that is not on this machine; it says how to get it.
    """
    check_limit(limit)
    several = _several(name)
    for given in (*several, passages, gold):
        if isinstance(given, str | Path):
            _check_place(given)
    if len(several) > 1 and passages is None:
        raise InputError("several data sets are searched together only in a corpus that you name", field="passages")
    shared = load_passages(passages) if isinstance(passages, str | Path) else passages
    if is_records(shared):
        shared = formats.read_passages(shared)
    loaded = [_load_one(one, shared, split) for one in several]
    for one in loaded:
        if isinstance(one, Scenario) and (passages is not None or gold is not None or len(loaded) > 1):
            problem = f"{one.name!r} comes with its own arguments and answers, and stands alone"
            raise InputError(problem, field="passages" if gold is None else "gold")
    everything = [q.qid for one in loaded for q in one.questions]
    loaded = [_of_file(one, split) if _is_table(name) else one for name, one in zip(several, loaded, strict=True)]
    if limit:
        loaded = [one.only(one.questions[:limit]) for one in loaded]
    whole = loaded[0] if len(loaded) == 1 else _joined(loaded, shared or ())
    if gold is not None:
        whole = _with_gold(whole, gold, relevance_level, first_subtopic)
    elif relevance_level is not None and whole.gold is not None:
        whole = replace(whole, gold=at_level(whole.gold, relevance_level, whole.name))
    if isinstance(whole, Scenario) or whole.gold is None:
        return whole
    check_some_yes(whole.gold, whole.name)
    said = [*whole.missing.in_words(), _copies_in_words(whole)]
    if relevance_level is None:
        said.append(_grades_in_words(whole))
    if gold is not None and all(map(_is_table, several)):  # of a data set, another split may be judged too
        others = whole.gold.loc[~whole.gold["qid"].isin(everything), "qid"].unique()
        if len(others):
            judged = counted(len(others), "judged question")
            said.append(f"{judged}, such as {others[0]!r}, not among the questions: the verdicts are ignored")
    for sentence in filter(None, said):
        logger.warning("%s: %s", whole.name, sentence)
    return whole


def _is_table(name: Any) -> bool:
    """Return whether questions are rows in memory or in a file, of which nothing else is known."""
    if is_records(name):
        return True
    return Path(name).is_file() and not is_pir(Path(name)) and find(name).reader == "table"


def _of_file(whole: Collection, split: str | None) -> Collection:
    """Return the questions of a split; without one all, and if there are several splits, say so."""
    if split is not None:
        return whole.only(_of_split(whole.questions, split, whole.name))
    splits = Counter(q.split for q in whole.questions)
    if len(splits) > 1:
        there = ", ".join(f"{name or 'none'} {n}" for name, n in splits.items())
        one = next(filter(None, splits))
        logger.warning("%s: split: all (%s); split=%r (--split %s) takes one", whole.name, there, one, one)
    return whole


def _with_gold(
    whole: Collection, given: str | Path | Records, relevance_level: float | None, first_subtopic: int | None
) -> Collection:
    """Return a collection with other verdicts, and with perspectives where its questions list none."""
    found = _judgements(given)
    level = 1.0 if relevance_level is None else relevance_level
    listed = {q.qid: len(q.perspectives) for q in whole.questions}
    firsts: Mapping[str, int] = {}
    if isinstance(found, Qrels):
        most = max(whole.questions, key=lambda q: len(q.perspectives))
        if len(most.perspectives) > 1 and first_subtopic is None and not found.rows["subtopic"].any():
            problem = f"these qrels name no perspectives, and question {most.qid!r} has {len(most.perspectives)}"
            hint = "diversity qrels number them (iteration); to score relevance alone, give questions without any"
            raise InputError(f"{problem}; {hint}", field="gold")
        verdicts, firsts = verdicts_from_qrels(found, listed, first_subtopic=first_subtopic, relevance_level=level)
    else:
        verdicts = found if relevance_level is None else at_level(found, level)
    if isinstance(whole.passages, list | tuple) and len(verdicts):
        docnos = {p.docno for p in whole.passages}
        if docnos and not verdicts["docno"].isin(docnos).any():
            problem = f"none of its passages, such as {verdicts['docno'].iloc[0]!r}, is in the corpus"
            raise InputError(f"{problem}, which has {next(iter(whole.passages)).docno!r}", field="gold")
    questions, verdicts = _with_subtopics(whole.questions, verdicts, firsts)
    return replace(whole, questions=questions, gold=verdicts)


def _judgements(given: str | Path | Records) -> Qrels | pd.DataFrame:
    """Return qrels, or verdicts, of a file, a data set, a frame or a list of rows."""
    if isinstance(given, Mapping):
        return read_judgements(given)
    if not isinstance(given, str | Path):
        frame = pd.DataFrame(given) if is_records(given) else given
        qrels = as_qrels(frame)
        return check_verdicts(frame) if qrels is None else qrels
    one = find(given)
    if one.reader == "table":
        return read_judgements(one.place)
    gold = load_gold(given)
    if one.reader != "beir":
        return gold
    relevance = gold[GRADE] if GRADE in gold else gold["supports"].astype(float)
    return Qrels(gold.assign(subtopic=gold["pid"], relevance=relevance)[QRELS_COLUMNS], one.place)


def _with_subtopics(
    questions: Sequence[Question], verdicts: pd.DataFrame, firsts: Mapping[str, int]
) -> tuple[list[Question], pd.DataFrame]:
    """Make subtopics the perspectives of questions that list none, and number the verdicts by these.

    As in ndeval, a subtopic that no passage is relevant to is dropped, unless the topic has no other; of a topic in the
    layout of TREC Web, whose subtopics count from 1, also where the question lists it. A passage that was judged for
    such subtopics only counts as judged. A question without subtopics has its own text for a perspective.
    """
    bare = {q.qid for q in questions if not q.perspectives}
    numbered = verdicts[verdicts["qid"].isin(bare | {q.qid for q in questions if firsts.get(q.qid) == 1})]
    has_yes = numbered.groupby(["qid", "pid"])["supports"].any()
    kept: dict[str, list[int]] = {}
    names: dict[str, tuple[str, ...]] = {}
    for name, found in has_yes.groupby(level="qid"):
        qid, first = str(name), firsts.get(str(name), 1)  # verdicts that are no qrels number their first perspective 0
        pids = found.index.get_level_values("pid")
        if found.any():
            kept[qid] = pids[found].tolist()
        elif qid in bare:
            kept[qid] = [pids.min()]
        if pids.max() > 0 or first > 0:
            names[qid] = tuple(f"subtopic {pid + first}" for pid in kept.get(qid, ()))
    named = []
    for question in questions:
        if question.qid in bare:
            named.append(question._replace(perspectives=names.get(question.qid, (question.text,))))
        else:
            named.append(with_perspectives(question, kept.get(question.qid, range(len(question.perspectives)))))
    fewer = [q.qid for q, now in zip(questions, named, strict=True) if len(now.perspectives) < len(q.perspectives)]
    if fewer:
        problem = "perspectives that no passage is relevant to are left out, as in ndeval"
        logger.warning("%s; of %s, such as %r", problem, counted(len(fewer), "question"), fewer[0])
    places = {(qid, pid): place for qid, pids in kept.items() for place, pid in enumerate(pids)}
    pairs = zip(verdicts["qid"], verdicts["pid"], strict=True)
    place = [places.get((qid, pid), -1 if qid in kept else pid) for qid, pid in pairs]
    verdicts = verdicts.assign(pid=np.array(place, dtype=np.int64))
    left_out = verdicts["pid"] < 0
    return named, check_verdicts(judged_still(verdicts[~left_out], verdicts[left_out]))


def _grades_in_words(whole: Collection) -> str:
    """Say which grades there are where no cut was named, and how negative ones count; "" without grades."""
    if whole.gold is None or GRADE not in whole.gold:
        return ""
    gold = whole.gold[whole.gold["qid"].isin([q.qid for q in whole.questions])]
    grades = gold[GRADE]
    cut = gold.loc[gold["supports"], GRADE].min() if gold["supports"].any() else 1.0
    if grades.isin([0, 1]).all():
        return ""
    others = sorted(grades[(grades > 0) & (grades != cut)].unique(), key=lambda grade: (grade < cut, grade))
    hint = f"; in Python, bd.load(…, relevance_level={others[0]:g}) sets another cut" if others else ""
    said = f"grades {grades.min():g} to {grades.max():g}; a yes is {cut:g} or more{hint}"
    if negative := int((grades < 0).sum()):
        said += f"; {negative:,} below 0 (spam in TREC Web) count as not relevant"
    return said


def _copies_in_words(whole: Collection) -> str:
    """Say how many texts of the corpus are judged under some of their ids only, capitals and blanks aside."""
    if whole.gold is None or not isinstance(whole.passages, list | tuple):  # one on disk is not read through for this
        return ""
    gold = whole.gold[whole.gold["qid"].isin([q.qid for q in whole.questions])]
    plain = [Passage(p.docno, " ".join(p.full_text.casefold().split())) for p in whole.passages]
    n = unjudged_copies(gold, plain)["text"].nunique()
    if not n:
        return ""
    stands = "stands" if n == 1 else "stand"
    return f"{counted(n, 'text')} {stands} under several ids, of which some are judged; the copies are not judged"


def _check_place(given: str | Path) -> None:
    """Refuse what no system takes for a name: a long text, say, in the place of a path."""
    try:
        coded = os.fsencode(given)
    except UnicodeEncodeError:
        coded = b"\0"
    if b"\0" in coded or max(map(len, coded.split(b"/"))) > _LONGEST_NAME:
        raise InputError(f"{shortened(str(given))} is neither a name nor a path")


def _several(given: str | Path | Records | Sequence[str | Path]) -> list[Any]:
    several: list[Any] = list(given) if isinstance(given, list | tuple) and not is_records(given) else [given]
    if not several:
        raise InputError("no data set is named; such as 'sample'", field="name")
    for one in several:
        if not isinstance(one, str | Path) and not is_records(one):
            problem = f"a data set or a file is named by text, such as 'sample', not by {type(one).__name__}"
            raise InputError(problem, field="name")
    return several


def _load_one(name: str | Path | Records, shared: Sequence[Passage] | None, split: str | None) -> Collection:
    """Return everything that a name stands for; its own corpus is read only where no other takes its place."""
    if is_records(name):
        read = formats.read_questions(name, source="questions")
        return Collection("questions", read, shared or ())
    if str(name).startswith(IR_DATASETS):
        theirs = from_ir_datasets(str(name).removeprefix(IR_DATASETS), with_passages=shared is None)
        found: Collection | None = _part_of(theirs, split)
    else:
        found = _task(name, split)
    if found is None:
        one = find(name)
        if one.make is not None:
            found = _made(one, split)
        else:
            questions = load_questions(name, None if one.reader == "table" else split)
            own_passages = load_passages(name) if shared is None and "passages" in one.parts else ()
            gold = load_gold(name) if "gold" in one.parts else None
            found = Collection(one.name, questions, own_passages, gold, _recorded_expansions(name, one, split))
    return found if shared is None or isinstance(found, Scenario) else replace(found, passages=shared)


def _task(name: str | Path, split: str | None) -> Collection | None:
    """Return a task of PIR or a scenario of PerspectiveArg, perhaps named behind a colon; None where it is neither."""
    text, (head, _, task) = str(name), str(name).rpartition(":")
    data_set = text.partition(":")[0]
    is_known = isinstance(name, str) and data_set in DATASETS
    for place, chosen in ((text, ""), (head, task)):
        one = DATASETS.get(place) if is_known else None
        reader = one.reader if one else ""
        if reader == "perspectivearg" or (not is_known and place and is_release(place)):
            return load_scenario(place, chosen, split)
        if reader == "pir" or (not is_known and place and is_pir(Path(place))):
            return _part_of(load_task(one or Path(place), chosen), split)
    return None


def _made(one: Dataset, split: str | None) -> Collection:
    """Return what a function of the user's returns; it may take the split, or hold questions of all."""
    assert one.make is not None
    takes_split = "split" in inspect.signature(one.make).parameters
    made = one.make(split=split) if takes_split else one.make()
    if not isinstance(made, Collection):
        raise InputError(f"the data set {one.name!r} must make a Collection, not {type(made).__name__}")
    return made if takes_split else _part_of(made, split)


def _part_of(whole: Collection, split: str | None) -> Collection:
    """Return the part of a collection that is of a split; where it has splits, "dev" if none is named."""
    has_dev = any(q.split == "dev" for q in whole.questions)
    return whole.only(_of_split(whole.questions, split or ("dev" if has_dev else "all"), whole.name))


def _of_split(questions: Sequence[Question], split: str, path: str) -> list[Question]:
    """Return the questions of a split, or all of them for "all"."""
    found = [q for q in questions if split in ("all", q.split)]
    if not found:
        there = ", ".join(sorted({q.split for q in questions} - {""})) or "none"
        raise InputError(f"holds no questions of the split {split!r}; splits in it: {there}", path=path, field="split")
    return found


def _recorded_expansions(name: str | Path, one: Dataset, split: str | None) -> dict[str, list[tuple[str, str]]]:
    """Return recorded expansions; of those that were never recorded, or are not on this machine, there are none."""
    try:
        return load_expansions(name, split) if "expansions" in one.parts else {}
    except MissingDataError:
        return {}  # a system that needs them says so, and what there is instead


def _joined(parts: Sequence[Collection], passages: Sequence[Passage]) -> Collection:
    verdicts = [one.gold for one in parts if one.gold is not None]
    if verdicts and len(verdicts) < len(parts):
        without = ", ".join(one.name for one in parts if one.gold is None)
        logger.warning("%s has no gold verdicts, so those of the others are left out", without)
    expansions = {qid: pairs for one in parts for qid, pairs in one.expansions.items()}
    questions = [q for one in parts for q in one.questions]
    gold = pd.concat(verdicts, ignore_index=True) if len(verdicts) == len(parts) else None
    return Collection(",".join(one.name for one in parts), questions, passages, gold, expansions)


# ---------------------------------------------------------------- fetching and describing


def fetch(name: str) -> list[Path]:
    """Download a data set into the cache (folder data/NAME), and return the files.

    Files that are there are kept; the splits of a Hugging Face repository are read anew. With BERDS_HF_DIR set, a
    clone of the repository at BERDS_HF_DIR/OWNER/NAME takes its place.
    """
    return fetch_files(dataset(name))


def card(name: str) -> str:
    """Return the description of a data set as plain text."""
    one = dataset(name)
    facts = {
        "paper": "beside the papers" if one.paper == "support" else one.paper,
        "kind": one.kind,
        "size": one.size,
        "splits": ", ".join(one.splits) or "none",
        "source": one.source,
        "licence": one.licence,
        "loader": ", ".join(one.loaders),
        "note": one.note,
    }
    lines = [f"{one.name}: {one.title}", *(f"  {label + ':':<9}{text}" for label, text in facts.items() if text)]
    places = every_place(one)
    lines += ["  looked for:", *marked(places)] if places else []
    return "\n".join([*lines, f"  get it:  {fetch_hint(one)}"])


def statistics(questions: Sequence[Question]) -> dict[str, float]:
    """Return the columns of BeRDS Table 1 for some questions.

    Words are counted as the paper does, with NLTK's word tokenizer, but without its sentence splitter, which needs a
    download: a full stop inside a perspective of several sentences stays with its word.

    Returns:
        n, dev, test (numbers of questions), mean_perspectives (per question), mean_words (per perspective).

    >>> statistics([Question("q", "Is it?", ("It is.", "It is not."), (None, None), "", "dev")])
    {'n': 1, 'dev': 1, 'test': 0, 'mean_perspectives': 2.0, 'mean_words': 3.5}
    """
    from nltk.tokenize import NLTKWordTokenizer

    check_questions(questions)
    tokenize = NLTKWordTokenizer().tokenize
    lengths = [len(tokenize(p)) for q in questions for p in q.perspectives]
    return {
        "n": len(questions),
        "dev": sum(q.split == "dev" for q in questions),
        "test": sum(q.split == "test" for q in questions),
        "mean_perspectives": len(lengths) / len(questions),
        "mean_words": sum(lengths) / len(lengths) if lengths else float("nan"),
    }


def write_source(source: str, folder: Path, *, limit: int = 0, **shape: Any) -> Written:
    """Write the passages of a data set, file, BEIR folder or corpus on disk as a corpus, replacing one there.

    `limit` is for the first so many rows; `shape` goes to :func:`berdslib.data.corpus.make_corpus`.
    """
    check_limit(limit)
    with errors_in(source):
        return make_corpus(passage_file(source), folder, limit=limit, **shape)


def describe_corpus(name: str) -> dict[str, Any]:
    """Return the columns of BeRDS Table 2 for a data set, file or folder.

    NAME:words cuts its rows first. Of a folder with a corpus for each question, the means over them. Passages of one
    document are told by the docno's final -NUMBER only where documents were cut here: names such as MED-10 end so too.
    """
    if is_web_corpora(name):
        nothing = {"passages": 0, "documents": 0, "mean_words": float("nan")}
        each = [corpus_statistics(one) if one else nothing for one in open_web_corpora(name).values()]
        return {"corpus": name, "corpora": len(each), **pd.DataFrame(each).mean(), "documents_by": "docno"}
    with errors_in(name):
        wanted = "words" if name.endswith(":words") else "none"
        passages, cut = cut_rows(passage_file(name.removesuffix(":words")), wanted)
        is_cut = cut != "none"
        return {
            "corpus": name,
            **corpus_statistics(passages, is_cut),
            "documents_by": "docno" if is_cut else "passage",
        }


def check_limit(limit: int) -> None:
    """Raise InputError unless a number of rows is a whole number from 0."""
    if isinstance(limit, bool) or not isinstance(limit, Integral) or limit < 0:
        raise InputError(f"{shortened(limit)} is not a number of rows; 0 = all", field="limit")

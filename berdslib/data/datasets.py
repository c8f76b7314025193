"""Data sets by name or from files: whole, as ``berdslib.load`` returns them, or in parts; and their cards.

Files are searched under BERDS_DATA first, then in the user's cache; only :func:`fetch` uses the network. A whole file
comes before a part of it, and one split never replaces another.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
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
from berdslib.data.readers import (
    READERS,
    LabelledPair,
    aspects_at,
    beir_at,
    from_ir_datasets,
    hub_at,
    nuggets_at,
    table_at,
)
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
from berdslib.files import say_once

logger = logging.getLogger(__name__)

_LONGEST_NAME = 255  # bytes between two slashes, of every usual file system
IR_DATASETS = "ir_datasets:"

# ---------------------------------------------------------------- names


def find(name: str | Path) -> Dataset:
    """Return the data set of a name or a path.

    A known name comes first, even before a folder of that name. The content of a path tells its kind. A path is a Path,
    or a text that names an existing file or looks like a path.
    """
    if isinstance(name, str) and name in DATASETS:
        return DATASETS[name]
    path = Path(name)
    for data_set_at in (saved_at, nuggets_at, aspects_at, beir_at, hub_at):
        entry = data_set_at(path)
        if entry is not None:
            return entry
    if isinstance(name, Path) or path.exists() or path.suffix != "" or len(path.parts) > 1:
        return table_at(path)
    return DATASETS.find(name)[0]  # or an error that lists the known names


def dataset(name: str | Path) -> Dataset:
    """Return the entry of a data set, known by name or saved in a folder with a card.

    >>> dataset("kialo").hf_repo
    'timchen0618/Kialo'
    """
    entry = find(name)
    return DATASETS.find(str(name))[0] if entry.reader == "table" else entry


def _part(name: str | Path, part: str, split: str | None = None) -> tuple[Dataset, Any]:
    """Return a data set and one of its parts, for a split if the part has splits. A table may be any part."""
    entry = find(name)
    if entry.make is not None:
        content = getattr(_made(entry, split), part, None)
        if content is not None and len(content):
            return entry, content
    elif part in (READERS["table"] if entry.reader == "table" else entry.parts):
        read = READERS[entry.reader][part]
        if part in ("questions", "expansions"):
            return entry, read(entry, _splits(entry, split))
        return entry, read(entry)
    able = ", ".join(known_name for known_name, other in DATASETS.items() if part in other.parts)
    noun = {"gold": "gold verdicts", "pairs": "labelled pairs"}.get(part, part)
    raise InputError(f"{entry.name!r} has no {noun} of its own (see its card); these have: {able}")


def _splits(entry: Dataset, split: str | None) -> tuple[str, ...]:
    if entry.reader == "table":
        return ()
    if not entry.splits:
        if split in (None, "all"):
            return ()
        raise InputError(f"{entry.name!r} is not split; use split = 'all', not {split!r}", field="split")
    chosen = split or entry.splits[0]
    known("split", chosen, (*entry.splits, "all"))
    return entry.splits if split == "all" else (chosen,)


# ---------------------------------------------------------------- parts


def load_questions(name: str | Path, split: str | None = None, limit: int = 0) -> list[Question]:
    """Return the questions of a data set, of a file or of a BEIR folder.

    Args:
        name: a data set, the path of a file that :func:`berdslib.data.formats.read_questions` reads, or a BEIR folder,
            whose queries have their own text as their one perspective.
        split: a split, or "all"; None for the data set's first split, "dev" if it exists ("test" of a BEIR folder), or
            for everything if there are no splits.
        limit: number of questions to return, the first ones; 0 for all.
    """
    check_limit(limit)
    entry, content = _part(name, "questions", split)
    questions: list[Question] = list(content)
    if entry.reader == "table":
        questions = _of_split(questions, split or "all", entry.place)
    return questions[: limit or None]


def load_passages(name_or_path: str | Path, limit: int = 0) -> Sequence[Passage]:
    """Return the passages of a data set, a file or a BEIR folder; this downloads nothing, see :func:`fetch`.

    Args:
        name_or_path: a data set with passages; a path that :func:`berdslib.data.formats.iter_passages` reads; a folder
            made by :func:`berdslib.data.corpus.write_corpus`; or a folder made by
            :func:`berdslib.data.web.web_corpora`, where every question has its own passages. With the suffix ":words"
            the rows are documents, which are cut into passages of 100 words; the result is kept on disk and
            memory-mapped, see :func:`berdslib.data.corpus.open_corpus`.
        limit: number of passages to return, the first ones; 0 for all. The large corpora do not fit into memory: stream
            them with ``iter_passages(passage_file(name))``, or open them with ``open_corpus``.
    """
    check_limit(limit)
    is_cut = str(name_or_path).endswith(":words")
    if is_cut:
        name_or_path = str(name_or_path).removesuffix(":words")
    place = passage_file(name_or_path)
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
    """Return the file or folder of a data set's passages, or the passages that a user's function made."""
    place: Path | Sequence[Passage] = _part(name_or_path, "passages")[1]
    return place


def load_gold(name: str | Path) -> pd.DataFrame:
    """Return the gold verdicts of a data set ("sample", "theperspective"), of a file or of a BEIR folder.

    Args:
        name: a data set, a file that :func:`berdslib.data.trec.read_verdicts` reads, or a BEIR folder, whose judgements
            of all splits are returned.
    """
    entry, content = _part(name, "gold", "all")
    gold = check_verdicts(content)
    if entry.verdicts_on_texts:
        return share_verdicts(gold, load_passages(name))
    return gold


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
        qid → [(name of the perspective, text), …], in the order of generation.
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
    columns: Mapping[str, str] | None = None,
) -> Collection:
    """Return questions with their corpus, gold verdicts and recorded expansions.

    Missing data is logged, with counts: questions without a verdict, judged passages that are not in the corpus.

    Args:
        name: a data set ("sample", "theperspective", "kialo", …); a task of PIR ("pir-demo:allsides",
            "pir-sample:location", or a JSON file in the authors' layout, "FILE.json:TASK"); a scenario of
            PerspectiveArg ("perspectivearg-sample:explicit", or a release's folder, "FOLDER:implicit"); a file of
            questions (JSONL, TSV, CSV or Parquet); a folder of BEIR or for the Hugging Face hub; "ir_datasets:NAME";
            or several of these, which need `passages`. A known name comes before a folder of that name:
            "./theperspective" is the folder. A data frame, or a list of dicts, holds questions in the columns of such a
            file.
        passages: a data set, file or folder to search; a data frame or list of dicts; or a list of passages; None for
            the data set's own.
        split: a split of the data set, or "all" (not for PerspectiveArg); None for "dev" if it exists, else for the
            first split ("test" of a BEIR folder), and for everything in an unsplit data set or a file. The field
            `split` of a question names its split.
        gold: verdicts or qrels to score by: a file, a data set, a frame or list of dicts; None for the data set's own.
            Questions without perspectives get the subtopics with a relevant passage as perspectives, or their own text
            if there are no subtopics either.
        limit: number of questions to load of each data set, the first ones; 0 for all.
        relevance_level: of graded qrels, the smallest relevance that is a yes, as trec_eval's -l; None for 1.
        first_subtopic: of qrels, the number of a topic's first subtopic, 0 or 1; None to decide for each topic, see
            :func:`berdslib.data.records.verdicts_from_qrels`.
        columns: for files and rows whose columns have other names, ours → theirs: {"question": "ask", "perspectives":
            "views"} of questions (also qid, stances, source, split, labels, weights), {"text": "body", "docno": "uid",
            "title": "headline"} of passages.

    Raises:
        InputError: an unknown name or split, or a file that cannot be read.
        MissingDataError: a data set that is not on this machine; the message says how to get it.
    """
    check_limit(limit)
    names_given = _several(name)
    for place in (*names_given, passages, gold):
        if isinstance(place, str | Path):
            _check_place(place)
    if len(names_given) > 1 and passages is None:
        raise InputError("several data sets are searched together only in a corpus that you name", field="passages")
    of_questions, of_passages = formats.split_columns(columns)
    shared = _corpus(passages, of_passages)
    loaded = [_load_one(each, shared, split, of_questions) for each in names_given]
    is_alone = passages is None and gold is None and len(loaded) == 1
    for collection in loaded:
        if isinstance(collection, Scenario) and not is_alone:
            problem = f"{collection.name!r} comes with its own arguments and answers, and stands alone"
            raise InputError(problem, field="passages" if gold is None else "gold")
    asked = [question.qid for collection in loaded for question in collection.questions]
    are_tables = [_is_table(each) for each in names_given]
    parts = []
    for each, collection, is_table in zip(names_given, loaded, are_tables, strict=True):
        path = collection.name if is_records(each) else each
        part = _of_file(collection, split, path) if is_table else collection
        parts.append(part.only(part.questions[:limit]) if limit else part)
    whole = parts[0] if len(parts) == 1 else _joined(parts, shared or ())
    if gold is not None:
        whole = _with_gold(whole, gold, relevance_level, first_subtopic)
    elif relevance_level is not None and whole.gold is not None:
        whole = replace(whole, gold=at_level(whole.gold, relevance_level, whole.name))
    if isinstance(whole, Scenario) or whole.gold is None:
        return whole
    check_some_yes(whole.gold, whole.name)
    notes = [*whole.missing.in_words(), _copies_in_words(whole)]
    if relevance_level is None:
        notes.append(_grades_in_words(whole))
    if gold is not None and all(are_tables):  # the gold of a data set may cover other splits
        notes.append(_foreign_in_words(whole.gold, asked))
    for note in filter(None, notes):
        logger.warning("%s: %s", whole.name, note)
    return whole


def _corpus(
    passages: str | Path | Records | Sequence[Passage] | None, columns: Mapping[str, str]
) -> Sequence[Passage] | None:
    """Return the passages that replace those of a data set."""
    if is_records(passages):
        return formats.read_passages(passages, columns=columns)
    if columns:
        if not isinstance(passages, str | Path) or find(passages).reader not in ("table", "beir", "hub"):
            problem = f"passages have the column {next(iter(columns))}; give a corpus as a file (-c) or as rows"
            raise InputError(problem, field="columns")
        return formats.read_passages(passages, columns=columns)
    return load_passages(passages) if isinstance(passages, str | Path) else passages


def _foreign_in_words(gold: pd.DataFrame, asked: Sequence[str]) -> str:
    """Say how many judged questions are not among those of the files; "" if there are none."""
    others = gold.loc[~gold["qid"].isin(asked), "qid"].unique()
    if not len(others):
        return ""
    judged = counted(len(others), "judged question")
    return f"{judged}, such as {others[0]!r}, not among the questions: the verdicts are ignored"


def _is_table(name: Any) -> bool:
    """Return whether questions are rows in memory, or in a file that is not a known data set."""
    if is_records(name):
        return True
    return Path(name).is_file() and not is_pir(Path(name)) and find(name).reader == "table"


def _of_file(whole: Collection, split: str | None, path: str | Path) -> Collection:
    """Return the questions of a split; if `split` is None, all of them, with a warning about several splits."""
    if split is not None:
        return whole.only(_of_split(whole.questions, split, path))
    splits = Counter(question.split for question in whole.questions)
    if len(splits) > 1:
        sizes = ", ".join(f"{name or 'none'} {n}" for name, n in splits.items())
        first = next(filter(None, splits))
        logger.warning("%s: split: all (%s); split=%r (--split %s) takes one", whole.name, sizes, first, first)
    return whole


def _with_gold(
    whole: Collection, given: str | Path | Records, relevance_level: float | None, first_subtopic: int | None
) -> Collection:
    """Return a collection with other verdicts, and with perspectives for questions that list none."""
    judgements = _judgements(given)
    whole = _with_perspectives_of(whole, given)
    firsts: Mapping[str, int] = {}
    if isinstance(judgements, Qrels):
        if first_subtopic is None:
            _check_subtopics(judgements, whole.questions)
        listed = {question.qid: len(question.perspectives) for question in whole.questions}
        level = 1.0 if relevance_level is None else relevance_level
        verdicts, firsts = verdicts_from_qrels(judgements, listed, first_subtopic=first_subtopic, relevance_level=level)
    else:
        verdicts = judgements if relevance_level is None else at_level(judgements, relevance_level)
    if isinstance(whole.passages, list | tuple) and len(verdicts):
        docnos = {passage.docno for passage in whole.passages}
        if docnos and not verdicts["docno"].isin(docnos).any():
            problem = f"none of its passages, such as {verdicts['docno'].iloc[0]!r}, is in the corpus"
            first = whole.passages[0].docno
            hint = "; passages without a column of ids are named after their lines: add docno, or name yours, "
            yours = hint + "--columns docno=NAME" if re.fullmatch(r"line-\d+", first) else ""
            raise InputError(f"{problem}, which has {first!r}{yours}", field="gold")
    questions, verdicts = _with_subtopics(whole.questions, verdicts, firsts)
    return replace(whole, questions=questions, gold=verdicts)


def _with_perspectives_of(whole: Collection, given: str | Path | Records) -> Collection:
    """Return a collection whose questions without perspectives have those of a data set, by their ids.

    Verdicts of a data set, such as a folder of nuggets, number its own perspectives; other ones are refused.
    """
    if not isinstance(given, str | Path):
        return whole
    entry = find(given)
    if entry.reader in ("table", "beir") or "questions" not in entry.parts:
        return whole
    theirs = {question.qid: question for question in load_questions(given, "all" if entry.splits else None)}
    questions = []
    for question in whole.questions:
        other = theirs.get(question.qid)
        if other is not None and not question.perspectives:
            question = other._replace(text=question.text, source=question.source, split=question.split)
        elif other is not None and question.perspectives != other.perspectives:
            problem = (
                f"question {question.qid!r} has perspectives like {question.perspectives[0]!r}, and in the gold like"
            )
            hint = "give the questions without perspectives, and they get those of the gold"
            raise InputError(f"{problem} {other.perspectives[0]!r}; {hint}", path=entry.place or None, field="gold")
        questions.append(question)
    return replace(whole, questions=questions)


def _check_subtopics(qrels: Qrels, questions: Sequence[Question]) -> None:
    """Refuse qrels without subtopics for questions with several perspectives."""
    most = max(questions, key=lambda question: len(question.perspectives))
    if len(most.perspectives) > 1 and not qrels.rows["subtopic"].any():
        problem = f"these qrels name no perspectives, and question {most.qid!r} has {len(most.perspectives)}"
        hint = "diversity qrels number them (iteration); to score relevance alone, give questions without any"
        raise InputError(f"{problem}; {hint}", field="gold")


def _judgements(given: str | Path | Records) -> Qrels | pd.DataFrame:
    """Return qrels, or verdicts, of a file, a data set, a frame or a list of rows."""
    if isinstance(given, Mapping):
        return read_judgements(given)
    if not isinstance(given, str | Path):
        frame = pd.DataFrame(given) if is_records(given) else given
        qrels = as_qrels(frame)
        return check_verdicts(frame) if qrels is None else qrels
    entry = find(given)
    if entry.reader == "table":
        return read_judgements(entry.place)
    gold = load_gold(given)
    if entry.reader != "beir":
        return gold
    relevance = gold[GRADE] if GRADE in gold else gold["supports"].astype(float)
    rows = gold.assign(subtopic=gold["pid"], relevance=relevance)
    return Qrels(rows[QRELS_COLUMNS], entry.place)


def _with_subtopics(
    questions: Sequence[Question], verdicts: pd.DataFrame, firsts: Mapping[str, int]
) -> tuple[list[Question], pd.DataFrame]:
    """Make subtopics the perspectives of questions that list none, and renumber the verdicts.

    As in ndeval, a subtopic without a relevant passage is dropped, unless the topic has no other. In the layout of TREC
    Web, whose subtopics count from 1, this holds for listed perspectives too. A passage that was judged for dropped
    subtopics only counts as judged. A question without subtopics gets its own text as its perspective.
    """
    bare = {question.qid for question in questions if not question.perspectives}
    from_1 = {question.qid for question in questions if firsts.get(question.qid) == 1}
    kept, names = _kept_subtopics(verdicts[verdicts["qid"].isin(bare | from_1)], bare, firsts)
    replaced = []
    shortened_qids = []
    for question in questions:
        qid = question.qid
        if qid in bare:
            replaced.append(question._replace(perspectives=names.get(qid, (question.text,))))
            continue
        n = len(question.perspectives)
        pids = kept.get(qid, range(n))
        replaced.append(with_perspectives(question, pids))
        if len(pids) < n:
            shortened_qids.append(qid)
    if shortened_qids:
        problem = "perspectives that no passage is relevant to are left out, as in ndeval"
        number = counted(len(shortened_qids), "question")
        logger.warning("%s; of %s, such as %r", problem, number, shortened_qids[0])
    verdicts = verdicts.assign(pid=_renumbered(verdicts, kept))
    left_out = verdicts["pid"] < 0
    return replaced, check_verdicts(judged_still(verdicts[~left_out], verdicts[left_out]))


def _kept_subtopics(
    verdicts: pd.DataFrame, bare: Container[str], firsts: Mapping[str, int]
) -> tuple[dict[str, list[int]], dict[str, tuple[str, ...]]]:
    """Return qid → the subtopics that stay, and qid → their names, for topics with subtopics."""
    kept: dict[str, list[int]] = {}
    names: dict[str, tuple[str, ...]] = {}
    has_yes = verdicts.groupby(["qid", "pid"])["supports"].any()
    for name, of_topic in has_yes.groupby(level="qid"):
        qid = str(name)
        first = firsts.get(qid, 1)  # verdicts, unlike qrels, number the first perspective 0
        pids = of_topic.index.get_level_values("pid")
        if of_topic.any():
            kept[qid] = pids[of_topic].tolist()
        elif qid in bare:
            kept[qid] = [pids.min()]
        if pids.max() > 0 or first > 0:
            names[qid] = tuple(f"subtopic {pid + first}" for pid in kept.get(qid, ()))
    return kept, names


def _renumbered(verdicts: pd.DataFrame, kept: Mapping[str, Sequence[int]]) -> np.ndarray:
    """Return the new pid of each verdict, int64 (n,); -1 for a dropped subtopic."""
    places = {}
    for qid, pids in kept.items():
        for place, pid in enumerate(pids):
            places[qid, pid] = place
    numbers = []
    for qid, pid in zip(verdicts["qid"], verdicts["pid"], strict=True):
        numbers.append(places.get((qid, pid), -1) if qid in kept else pid)
    return np.array(numbers, dtype=np.int64)


def _grades_in_words(whole: Collection) -> str:
    """Describe the grades, the cut, and how negative grades count; "" without grades."""
    if whole.gold is None or GRADE not in whole.gold:
        return ""
    gold = whole.gold[whole.gold["qid"].isin([question.qid for question in whole.questions])]
    grades = gold[GRADE]
    if grades.isin([0, 1]).all():
        return ""
    cut = gold.loc[gold["supports"], GRADE].min() if gold["supports"].any() else 1.0
    sentence = f"grades {grades.min():g} to {grades.max():g}; a yes is {cut:g} or more"
    others = grades[(grades > 0) & (grades != cut)]
    if others.size:
        above = others[others > cut]
        other = above.min() if above.size else others.min()
        sentence += f"; in Python, bd.load(…, relevance_level={other:g}) sets another cut"
    negative = int((grades < 0).sum())
    if negative:
        sentence += f"; {negative:,} below 0 (spam in TREC Web) count as not relevant"
    return sentence


def _copies_in_words(whole: Collection) -> str:
    """Say how many texts of the corpus are judged under only some of their ids, ignoring case and white space."""
    if whole.gold is None or not isinstance(whole.passages, list | tuple):  # a corpus on disk is too large for this
        return ""
    gold = whole.gold[whole.gold["qid"].isin([question.qid for question in whole.questions])]
    plain = []
    for passage in whole.passages:
        words = passage.full_text.casefold().split()
        plain.append(Passage(passage.docno, " ".join(words)))
    n = unjudged_copies(gold, plain)["text"].nunique()
    if not n:
        return ""
    stands = "stands" if n == 1 else "stand"
    return f"{counted(n, 'text')} {stands} under several ids, of which some are judged; the copies are not judged"


def _check_place(given: str | Path) -> None:
    """Refuse a text that is too long for a path, such as the question itself."""
    if max(map(len, os.fsencode(given).split(b"/"))) > _LONGEST_NAME:
        raise InputError(f"{shortened(str(given))} is neither a name nor a path")


def _several(given: str | Path | Records | Sequence[str | Path]) -> list[Any]:
    several: list[Any] = list(given) if isinstance(given, list | tuple) and not is_records(given) else [given]
    if not several:
        raise InputError("no data set is named; such as 'sample'", field="name")
    for name in several:
        if not isinstance(name, str | Path) and not is_records(name):
            problem = f"a data set or a file is named by text, such as 'sample', not by {type(name).__name__}"
            raise InputError(problem, field="name")
    return several


def _load_one(
    name: str | Path | Records, shared: Sequence[Passage] | None, split: str | None, columns: Mapping[str, str]
) -> Collection:
    """Return the collection of a name; its own corpus is read only if no other corpus replaces it."""
    if columns and not _is_table(name):
        problem = f"{str(name)!r} is no table of questions with the column {next(iter(columns.values()))!r}"
        raise InputError(problem, field="columns")
    if is_records(name) or columns:
        source = "questions" if is_records(name) else table_at(Path(name)).name
        return Collection(source, formats.read_questions(name, source=source, columns=columns), shared or ())
    if str(name).startswith(IR_DATASETS):
        theirs = from_ir_datasets(str(name).removeprefix(IR_DATASETS), with_passages=shared is None)
        loaded = _part_of(theirs, split)
    else:
        loaded = _task(name, split) or _data_set(name, split, with_passages=shared is None)
    if shared is None or isinstance(loaded, Scenario):
        return loaded
    return replace(loaded, passages=shared)


def _data_set(name: str | Path, split: str | None, with_passages: bool) -> Collection:
    """Return the collection of a data set that is neither a task of PIR nor a scenario."""
    entry = find(name)
    if entry.make is not None:
        return _made(entry, split)
    questions = load_questions(name, None if entry.reader == "table" else split)
    if entry.reader == "nuggets" and any(question.text == question.qid for question in questions):
        problem = "short banks lack the texts of questions, and ids stand in for them"
        say_once(name, f"{problem}; load a file of questions, with these banks as its gold")
    passages = load_passages(name) if with_passages and "passages" in entry.parts else ()
    gold = load_gold(name) if "gold" in entry.parts else None
    return Collection(entry.name, questions, passages, gold, _recorded_expansions(name, entry, split))


def _task(name: str | Path, split: str | None) -> Collection | None:
    """Return a task of PIR or a scenario of PerspectiveArg, optionally named after a colon; None for anything else."""
    text = str(name)
    head, _, task = text.rpartition(":")
    data_set = text.partition(":")[0]
    is_known = isinstance(name, str) and data_set in DATASETS
    for place, chosen in ((text, ""), (head, task)):
        entry = DATASETS.get(place) if is_known else None
        reader = entry.reader if entry else ""
        if reader == "perspectivearg" or (not is_known and place and is_release(place)):
            return load_scenario(place, chosen, split)
        if reader == "pir" or (not is_known and place and is_pir(Path(place))):
            return _part_of(load_task(entry or Path(place), chosen), split)
    return None


def _made(entry: Dataset, split: str | None) -> Collection:
    """Return the collection of a user's function, which may take the split, or return the questions of all splits."""
    assert entry.make is not None
    takes_split = "split" in inspect.signature(entry.make).parameters
    collection = entry.make(split=split) if takes_split else entry.make()
    if not isinstance(collection, Collection):
        raise InputError(f"the data set {entry.name!r} must make a Collection, not {type(collection).__name__}")
    return collection if takes_split else _part_of(collection, split)


def _part_of(whole: Collection, split: str | None) -> Collection:
    """Return the part of a collection in a split; None is "dev" if the collection has it, else everything."""
    has_dev = any(question.split == "dev" for question in whole.questions)
    default = "dev" if has_dev else "all"
    return whole.only(_of_split(whole.questions, split or default, whole.name))


def _of_split(questions: Sequence[Question], split: str, path: str | Path) -> list[Question]:
    """Return the questions of a split, or all of them for "all"."""
    chosen = [question for question in questions if split in ("all", question.split)]
    if not chosen:
        splits = {question.split for question in questions} - {""}
        listed = ", ".join(sorted(splits)) or "none"
        raise InputError(f"holds no questions of the split {split!r}; splits in it: {listed}", path=path, field="split")
    return chosen


def _recorded_expansions(name: str | Path, entry: Dataset, split: str | None) -> dict[str, list[tuple[str, str]]]:
    """Return recorded expansions; {} if none were recorded, or none are on this machine."""
    if "expansions" not in entry.parts:
        return {}
    try:
        return load_expansions(name, split)
    except MissingDataError:
        return {}  # a system that needs them raises the error, with alternatives


def _joined(parts: Sequence[Collection], passages: Sequence[Passage]) -> Collection:
    verdicts = [part.gold for part in parts if part.gold is not None]
    if verdicts and len(verdicts) < len(parts):
        without = ", ".join(part.name for part in parts if part.gold is None)
        logger.warning("%s has no gold verdicts, so those of the others are left out", without)
    gold = pd.concat(verdicts, ignore_index=True) if len(verdicts) == len(parts) else None
    questions: list[Question] = []
    expansions: dict[str, Sequence[tuple[str, str]]] = {}
    for part in parts:
        questions += part.questions
        expansions |= part.expansions
    name = ",".join(part.name for part in parts)
    return Collection(name, questions, passages, gold, expansions)


# ---------------------------------------------------------------- fetching and describing


def fetch(name: str) -> list[Path]:
    """Download a data set into the cache (folder data/NAME), and return the files.

    Existing files are kept; the splits of a Hugging Face repository are read again. If BERDS_HF_DIR is set, a clone at
    BERDS_HF_DIR/OWNER/NAME replaces the repository.
    """
    return fetch_files(dataset(name))


def card(name: str) -> str:
    """Return the description of a data set as plain text."""
    entry = dataset(name)
    facts = {
        "paper": "beside the papers" if entry.paper == "support" else entry.paper,
        "kind": entry.kind,
        "size": entry.size,
        "splits": ", ".join(entry.splits) or "none",
        "source": entry.source,
        "licence": entry.licence,
        "loader": ", ".join(entry.loaders),
        "note": entry.note,
    }
    lines = [f"{entry.name}: {entry.title}"]
    lines += [f"  {label + ':':<9}{text}" for label, text in facts.items() if text]
    places = every_place(entry)
    if places:
        lines += ["  looked for:", *marked(places)]
    lines.append(f"  get it:  {fetch_hint(entry)}")
    return "\n".join(lines)


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
    lengths = [len(tokenize(perspective)) for question in questions for perspective in question.perspectives]
    splits = Counter(question.split for question in questions)
    return {
        "n": len(questions),
        "dev": splits["dev"],
        "test": splits["test"],
        "mean_perspectives": len(lengths) / len(questions),
        "mean_words": sum(lengths) / len(lengths) if lengths else float("nan"),
    }


def write_source(source: str, folder: Path, *, limit: int = 0, **shape: Any) -> Written:
    """Write the passages of a data set, file, BEIR folder or corpus on disk as a corpus, replacing one there.

    `limit` is the number of rows to read, 0 for all; `shape` goes to :func:`berdslib.data.corpus.make_corpus`.
    """
    check_limit(limit)
    with errors_in(source):
        return make_corpus(passage_file(source), folder, limit=limit, **shape)


def describe_corpus(name: str, columns: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the columns of BeRDS Table 2 for a data set, file or folder.

    NAME:words cuts its rows first. A folder with a corpus for each question gives the means over the corpora. A final
    -NUMBER of a docno names a passage of a document only if documents were cut here: ids such as MED-10 end alike.
    """
    if is_web_corpora(name):
        empty = {"passages": 0, "documents": 0, "mean_words": float("nan")}
        corpora = open_web_corpora(name).values()
        rows = [corpus_statistics(passages) if passages else empty for passages in corpora]
        return {"corpus": name, "corpora": len(rows), **pd.DataFrame(rows).mean(), "documents_by": "docno"}
    with errors_in(name):
        wanted = "words" if name.endswith(":words") else "none"
        passages, cut = cut_rows(passage_file(name.removesuffix(":words")), wanted, columns=columns)
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

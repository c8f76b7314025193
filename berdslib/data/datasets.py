"""Data sets by name: where they are, how to read them, how to download them.

Files are looked for under BERDS_DATA first, then in the user's cache; only then is the network asked. A part of a file
never comes before the whole of it, and one split is never substituted for another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

import pandas as pd

from berdslib.data import formats
from berdslib.data.catalogue import DATASETS, dataset
from berdslib.data.corpus import Corpus, is_corpus, open_corpus
from berdslib.data.dataset import Dataset, RemoteFile
from berdslib.data.fetch import every_place, fetch_files, fetch_hint, marked
from berdslib.data.nuggets import is_nuggets
from berdslib.data.own import is_own
from berdslib.data.pairs import LabelledPair, read_labelled_pairs
from berdslib.data.passages import CUTS
from berdslib.data.records import Passage, Question, check_questions, check_verdicts
from berdslib.data.trec import read_verdicts
from berdslib.data.web import OwnCorpora, is_web_corpora, open_web_corpora
from berdslib.errors import InputError, known

__all__ = [
    "Dataset",
    "RemoteFile",
    "card",
    "dataset",
    "fetch",
    "load_expansions",
    "load_gold",
    "load_pairs",
    "load_passages",
    "load_questions",
    "names",
    "passage_file",
    "statistics",
]


def names(kind: str | None = None) -> list[str]:
    """Return the names of all data sets, or of those of a kind.

    Args:
        kind: "questions" or "passages" (both include those that hold both), "both", "pairs", or None for all.

    Raises:
        InputError: the kind is not known.
    """
    if kind is None:
        return list(DATASETS)
    known("kind of data set", kind, ("questions", "passages", "both", "pairs"))
    accepted = {kind, "both"} if kind in ("questions", "passages") else {kind}
    return [name for name, one in DATASETS.items() if one.kind in accepted]


# ---------------------------------------------------------------- loading


def load_questions(name: str | Path, split: str | None = None, limit: int = 0) -> list[Question]:
    """Return the questions of a data set, of a file or of a BEIR folder.

    Args:
        name: a data set, the path of a file that :func:`berdslib.data.formats.read_questions` reads, or a BEIR folder,
            whose queries have their own text as their one perspective.
        split: "dev", "test" or "all"; None = "dev" where the data set has splits, else everything. Of a BEIR folder,
            what its qrels are of; None = "test" where there are several.
        limit: only the first so many; 0 = all.

    Raises:
        MissingDataError: the split is neither on this machine nor reachable.
        InputError: an unknown name or split, or a file that cannot be read.
    """
    check_limit(limit)
    if is_path(name) and formats.is_beir(name):
        return _beir_questions(Path(name), split)[: limit or None]
    if is_path(name):
        questions = of_split(formats.read_questions(name), split or "all", str(name))
        return questions[: limit or None]
    one, load = _loader(str(name), "load_questions")
    questions = load(one, _splits(one, split))
    return list(check_questions(questions, need_perspectives=True))[: limit or None]


def load_passages(name_or_path: str | Path, limit: int = 0) -> Sequence[Passage]:
    """Return the passages of a data set, a file or a BEIR folder; nothing is downloaded here, see :func:`fetch`.

    Args:
        name_or_path: a data set with passages; a path that :func:`berdslib.data.formats.iter_passages` reads; a folder
            that :func:`berdslib.data.corpus.write_corpus` made; or one of :func:`berdslib.data.web.web_corpora`, where
            every question has passages of its own. With ":words" or ":sentences" behind it the rows are documents, to
            be cut into passages of 100 words; what comes of that is kept on disk and memory-mapped, see
            :func:`berdslib.data.corpus.open_corpus`.
        limit: only the first so many; 0 = all, which for the large ones does not fit into memory: stream those with
            ``iter_passages(passage_file(name))``, or open them with ``open_corpus``.

    Raises:
        MissingDataError: the data set is not on this machine.
        InputError: an unknown name, or a file that cannot be read.
    """
    check_limit(limit)
    name, _, cut = str(name_or_path).rpartition(":")
    if cut in CUTS:
        corpus = open_corpus(passage_file(name), cut=cut)
        return corpus[:limit] if limit else corpus
    path = passage_file(name_or_path)
    if is_web_corpora(path):
        corpora = OwnCorpora(open_web_corpora(path))
        return corpora[:limit] if limit else corpora
    if is_corpus(path):
        return Corpus(path)[:limit] if limit else Corpus(path)
    return formats.read_passages(path, limit)


def passage_file(name_or_path: str | Path) -> Path:
    """Return where the passages of a data set lie, to be streamed; a path is returned as it is.

    Raises:
        MissingDataError: the data set is not on this machine.
        InputError: an unknown name, or a data set without passages.
    """
    if is_path(name_or_path):
        return Path(name_or_path)
    one, where = _loader(str(name_or_path), "load_passages")
    found: Path = where(one)
    return found


def load_gold(name: str | Path) -> pd.DataFrame:
    """Return the gold verdicts of a data set that has some ("sample", "theperspective"), of a file or a BEIR folder.

    Args:
        name: a data set, a file that :func:`berdslib.data.trec.read_verdicts` reads, or a BEIR folder, whose judgements
            of all splits are returned.

    Raises:
        MissingDataError: the data set is not on this machine.
        InputError: an unknown name, a data set without gold verdicts, or a file that cannot be read.
    """
    if is_path(name) and Path(name).is_dir():
        return check_verdicts(pd.concat([formats.beir_gold(name, part) for part in formats.beir_splits(name)]))
    if is_path(name):
        return read_verdicts(name)
    one, load = _loader(str(name), "load_gold")
    gold: pd.DataFrame = load(one)
    return gold


def load_pairs(name: str | Path) -> list[LabelledPair]:
    """Return the (document, perspective) pairs that people labelled, of a data set ("pers-det") or of a file.

    Args:
        name: a data set, or a file that :func:`berdslib.data.pairs.read_labelled_pairs` reads.

    Raises:
        MissingDataError: the data set is not on this machine.
        InputError: an unknown name, a data set of another kind, or a file that cannot be read.
    """
    if is_path(name):
        return read_labelled_pairs(name)
    one, where = _loader(str(name), "load_pairs")
    return read_labelled_pairs(where(one))


def load_expansions(name: str, split: str | None = None) -> dict[str, list[tuple[str, str]]]:
    """Return the recorded query expansions of a data set.

    Args:
        name: "sample", "arguana", "kialo" or "opinionqa".
        split: as in :func:`load_questions`; those of BeRDS were published for "dev" only.

    Returns:
        qid → [(name of the perspective, text), …], in the order in which they were generated.

    Raises:
        MissingDataError: no expansions of that split, on this machine or reachable.
        InputError: an unknown name or split, or a file that cannot be read.
    """
    one, load = _loader(name, "load_expansions")
    found: dict[str, list[tuple[str, str]]] = load(one, _splits(one, split))
    return found


def fetch(name: str) -> list[Path]:
    """Download a data set into the cache (folder data/NAME), and return the files.

    Files that are there are kept; the splits of a Hugging Face repository are read anew. With BERDS_HF_DIR set, a
    clone of the repository at BERDS_HF_DIR/OWNER/NAME takes its place.

    Raises:
        MissingDataError: nothing to download, or not reachable; the message says how to get it.
        InputError: an unknown name.
    """
    return fetch_files(dataset(name))


# ---------------------------------------------------------------- describing


def card(name: str) -> str:
    """Return the description of a data set as plain text.

    Raises:
        InputError: the name is not known.
    """
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

    Raises:
        InputError: no questions.

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


# ---------------------------------------------------------------- BEIR folders


def _beir_questions(folder: Path, split: str | None) -> list[Question]:
    there = formats.beir_splits(folder)
    if split is None and len(there) > 1 and "test" not in there:
        raise InputError(f"say which split; there are {', '.join(there)}", path=folder, field="split")
    first = ["test"] if "test" in there else []
    wanted = {None: first or there, "all": [*first, *(part for part in there if part not in first)]}
    chosen = wanted.get(split) or [str(split)]
    questions = [q for part in chosen for q in formats.beir_questions(folder, part)]
    distinct: dict[str, Question] = {}
    for q in questions:  # one that is in two splits is that of the first, in its place
        distinct.setdefault(q.qid, q)
    return list(distinct.values())


# ---------------------------------------------------------------- arguments


def _loader(name: str, what: str) -> tuple[Dataset, Callable[..., Any]]:
    one = dataset(name)
    if what not in one.loaders:
        able = [n for n, d in DATASETS.items() if what in d.loaders]
        raise InputError(f"{what} does not work with {name!r} (see its card), only with: {', '.join(able)}")
    return one, one.loaders[what]


def _splits(one: Dataset, split: str | None) -> tuple[str, ...]:
    if not one.splits:
        if split in (None, "all"):
            return ()
        raise InputError(f"{one.name!r} is not split; use split = 'all', not {split!r}", field="split")
    known("split", split or "dev", (*one.splits, "all"))
    return one.splits if split == "all" else (split or "dev",)


def of_split(questions: list[Question], split: str, path: str) -> list[Question]:
    """Return the questions of a split, or all of them for "all".

    Raises:
        InputError: there are none.
    """
    if split == "all":
        return questions
    found = [q for q in questions if q.split == split]
    if not found:
        there = ", ".join(sorted({q.split for q in questions} - {""})) or "none"
        raise InputError(f"holds no questions of the split {split!r}; splits in it: {there}", path=path, field="split")
    return found


def is_path(name: str | Path) -> bool:
    """Return whether a path is meant: a Path, or a text that is no data set and names something or looks like one.

    The folder of a data set, with its card, is a data set like those that are known by name, and so are questions with
    nuggets.
    """
    path = Path(name)
    if name in DATASETS or is_own(path) or is_nuggets(path):
        return False
    return isinstance(name, Path) or path.exists() or path.suffix != "" or len(path.parts) > 1


def check_limit(limit: int) -> None:
    """Raise InputError unless a number of rows is a whole number from 0."""
    if isinstance(limit, bool) or not isinstance(limit, Integral) or limit < 0:
        raise InputError(f"{shortened(limit)} is not a number of rows; 0 = all", field="limit")

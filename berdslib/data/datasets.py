"""Parts of data sets by name, or of files: questions, passages, gold verdicts, pairs, recorded expansions.

Files are looked for under BERDS_DATA first, then in the user's cache; only then is the network asked. A part of a file
never comes before the whole of it, and one split is never substituted for another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

import pandas as pd

from berdslib.data import formats, own
from berdslib.data.catalogue import DATASETS, Dataset
from berdslib.data.corpus import Corpus, is_corpus, open_corpus
from berdslib.data.fetch import every_place, fetch_files, fetch_hint, marked
from berdslib.data.passages import CUTS
from berdslib.data.readers import READERS, LabelledPair, nuggets_at, read_labelled_pairs
from berdslib.data.records import Passage, Question, check_questions, check_verdicts
from berdslib.data.trec import read_verdicts
from berdslib.data.web import OwnCorpora, is_web_corpora, open_web_corpora
from berdslib.errors import InputError, MissingDataError, known

READERS["own"] = own.READER
_KINDS = {"questions": ("questions", "both"), "passages": ("passages", "both"), "both": ("both",), "pairs": ("pairs",)}


def names(kind: str | None = None) -> list[str]:
    """Return the names of all data sets, or of those of a kind.

    Args:
        kind: "questions" or "passages" (both include those that hold both), "both", "pairs", or None for all.
    """
    accepted = None if kind is None else _KINDS[known("kind of data set", kind, _KINDS)]
    return [name for name, one in DATASETS.items() if accepted is None or one.kind in accepted]


# ---------------------------------------------------------------- what a name stands for


def find(name: str | Path) -> Dataset | Path:
    """Return the data set that a name or a folder stands for, or else the path that is meant.

    A known name comes first, also before a folder of that name. The folder of a data set, with its card, is a data set
    like those that are known by name, and so are questions with nuggets. A path is a Path, or a text that names
    something or looks like a path.
    """
    path = Path(name)
    if isinstance(name, str) and name in DATASETS:
        return _with_card(DATASETS[name])
    if own.is_own(path):
        return own.as_dataset(path)
    if (nuggets := nuggets_at(path)) is not None:
        return nuggets
    if isinstance(name, Path) or path.exists() or path.suffix != "" or len(path.parts) > 1:
        return path
    return DATASETS.find(name)[0]  # which says what there is


def dataset(name: str | Path) -> Dataset:
    """Return the entry of a data set: one that is known by name, or a folder with the card of one.

    >>> dataset("kialo").hf_repo
    'timchen0618/Kialo'
    """
    found = find(name)
    return found if isinstance(found, Dataset) else DATASETS.find(str(name))[0]


def _with_card(one: Dataset) -> Dataset:
    """Return a data set of the user's as its card describes it now; if it cannot be read, loading it says so."""
    if one.reader != "own":
        return one
    try:
        return replace(own.as_dataset(Path(one.place)), name=one.name)
    except (InputError, OSError) as error:
        return replace(one, title="a data set of your own that cannot be read", parts=("questions",), how=str(error))


def _part(name: str | Path, part: str) -> tuple[Dataset, Callable[..., Any]] | Path:
    """Return a data set and what reads a part of it, or the path that is meant."""
    one = find(name)
    if isinstance(one, Path):
        return one
    if part not in one.parts:
        able = [n for n, other in DATASETS.items() if part in other.parts]
        raise InputError(f"load_{part} does not work with {one.name!r} (see its card), only with: {', '.join(able)}")
    return one, READERS[one.reader][part]


def _splits(one: Dataset, split: str | None) -> tuple[str, ...]:
    if not one.splits:
        if split in (None, "all"):
            return ()
        raise InputError(f"{one.name!r} is not split; use split = 'all', not {split!r}", field="split")
    known("split", split or one.splits[0], (*one.splits, "all"))
    return one.splits if split == "all" else (split or one.splits[0],)


# ---------------------------------------------------------------- loading


def load_questions(name: str | Path, split: str | None = None, limit: int = 0) -> list[Question]:
    """Return the questions of a data set, of a file or of a BEIR folder.

    Args:
        name: a data set, the path of a file that :func:`berdslib.data.formats.read_questions` reads, or a BEIR folder,
            whose queries have their own text as their one perspective.
        split: a split, or "all"; None = the first of a data set's, which is "dev" where it has one, or everything where
            it has none. Of a BEIR folder, what its qrels are of; None = "test" where there are several.
        limit: only the first so many; 0 = all.
    """
    check_limit(limit)
    found = _part(name, "questions")
    if isinstance(found, tuple):
        one, read = found
        questions = list(check_questions(read(one, _splits(one, split)), need_perspectives=True))
    elif formats.is_beir(found):
        questions = formats.beir_questions(found, split)
    else:
        questions = of_split(formats.read_questions(found), split or "all", str(found))
    return questions[: limit or None]


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
    """
    check_limit(limit)
    name, _, cut = str(name_or_path).rpartition(":")
    opened: Sequence[Passage]
    if cut in CUTS:
        opened = open_corpus(passage_file(name), cut=cut)
    elif is_web_corpora(path := passage_file(name_or_path)):
        opened = OwnCorpora(open_web_corpora(path))
    elif is_corpus(path):
        opened = Corpus(path)
    else:
        return formats.read_passages(path, limit)
    return opened[:limit] if limit else opened


def passage_file(name_or_path: str | Path) -> Path:
    """Return where the passages of a data set lie, to be streamed; a path is returned as it is."""
    found = _part(name_or_path, "passages")
    if isinstance(found, Path):
        return found
    path: Path = found[1](found[0])
    return path


def load_gold(name: str | Path) -> pd.DataFrame:
    """Return the gold verdicts of a data set that has some ("sample", "theperspective"), of a file or a BEIR folder.

    Args:
        name: a data set, a file that :func:`berdslib.data.trec.read_verdicts` reads, or a BEIR folder, whose judgements
            of all splits are returned.
    """
    found = _part(name, "gold")
    if isinstance(found, Path):
        return formats.beir_gold(found) if found.is_dir() else read_verdicts(found)
    return check_verdicts(found[1](found[0]))


def load_pairs(name: str | Path) -> list[LabelledPair]:
    """Return the (document, perspective) pairs that people labelled, of a data set ("pers-det") or of a file."""
    found = _part(name, "pairs")
    pairs: list[LabelledPair] = read_labelled_pairs(found) if isinstance(found, Path) else found[1](found[0])
    return pairs


def load_expansions(name: str, split: str | None = None) -> dict[str, list[tuple[str, str]]]:
    """Return the recorded query expansions of a data set.

    Args:
        name: "sample", "arguana", "kialo" or "opinionqa".
        split: as in :func:`load_questions`; those of BeRDS were published for "dev" only.

    Returns:
        qid → [(name of the perspective, text), …], in the order in which they were generated.
    """
    found = _part(name, "expansions")
    if isinstance(found, Path):
        raise InputError("expansions are those of a data set", path=found)
    one, read = found
    expansions: dict[str, list[tuple[str, str]]] = read(one, _splits(one, split))
    return expansions


def recorded_expansions(one: Dataset, split: str | None) -> dict[str, list[tuple[str, str]]]:
    """Return recorded expansions; of those that were never recorded, or are not on this machine, there are none."""
    try:
        return load_expansions(one.name, split) if "expansions" in one.parts else {}
    except MissingDataError:
        return {}  # a system that needs them says so, and what there is instead


def fetch(name: str) -> list[Path]:
    """Download a data set into the cache (folder data/NAME), and return the files.

    Files that are there are kept; the splits of a Hugging Face repository are read anew. With BERDS_HF_DIR set, a
    clone of the repository at BERDS_HF_DIR/OWNER/NAME takes its place.
    """
    return fetch_files(dataset(name))


# ---------------------------------------------------------------- describing


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


# ---------------------------------------------------------------- arguments


def of_split(questions: Sequence[Question], split: str, path: str) -> list[Question]:
    """Return the questions of a split, or all of them for "all"."""
    found = [q for q in questions if split in ("all", q.split)]
    if not found:
        there = ", ".join(sorted({q.split for q in questions} - {""})) or "none"
        raise InputError(f"holds no questions of the split {split!r}; splits in it: {there}", path=path, field="split")
    return found


def check_limit(limit: int) -> None:
    """Raise InputError unless a number of rows is a whole number from 0."""
    if isinstance(limit, bool) or not isinstance(limit, Integral) or limit < 0:
        raise InputError(f"{shortened(limit)} is not a number of rows; 0 = all", field="limit")

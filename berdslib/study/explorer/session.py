"""What the explorer does for a wish: search, judge, and say what was found; no widget and no thread is here."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from berdslib.data.catalogue import DATASETS
from berdslib.data.collection import Collection
from berdslib.data.corpus import by_docno
from berdslib.data.datasets import load
from berdslib.data.records import (
    OPPOSE,
    SUPPORT,
    Question,
    check_k,
    make_verdicts,
    perspective_qid,
    ranked_run,
)
from berdslib.data.scenario import Handout
from berdslib.errors import BerdsError, InputError, known
from berdslib.files import StrPath
from berdslib.judging.base import Judge, Pair, how_sure
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.retrieval.base import Retriever, run_of
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.systems import CROSS, EXPANDING, PROJECTED, Workshop, parse_system
from berdslib.statements.negation import two_sides
from berdslib.study.explorer.views import Change, Listing, by_change, change_of, supported_in, view_of, visible
from berdslib.study.figures.lists import letter_of
from berdslib.study.scoring import (
    AnyJudge,
    Data,
    Store,
    Systems,
    collection_of,
    is_recorded,
    judge_of,
    judged,
    named_systems,
    over_passages,
    store_of,
    workshop,
)
from berdslib.study.sides import statements

READER = "laptop"  # judges what nobody has labelled
TYPED = "typed"
DEPTH = 100  # candidates that a diversifier chooses from, unless told otherwise
QUESTION = -1
LONGEST = 600  # characters of a passage that a live view holds; all of it is sent when it is opened
AS_LISTED, MOST_TELLING = "in the order of the data", "where the lists differ most"
BY_ITSELF = "Searched by itself: scores were divided by the largest of this question, not of all of them."
_QUESTIONS, _STATEMENTS, _FULL = "questions", "statements", "full queries"


class Wish(NamedTuple):
    """What somebody wants to see.

    ``qid`` is "" for a question that was ``typed``, ``perspectives`` () for the recorded ones; ``asked`` is -1 to
    search with the question, else the number of the perspective to search with.
    """

    qid: str = ""
    typed: str = ""
    perspectives: tuple[str, ...] = ()
    asked: int = QUESTION
    systems: tuple[str, str] = ("bm25", "minilm")
    k: int = 5


class Session:
    """A collection to search and what was found in it so far; arguments are those of :func:`berdslib.explore`.

    All its questions are searched together, as in an experiment, or each by itself where that is slow.
    """

    def __init__(
        self,
        collection: Collection,
        *,
        judge: AnyJudge = None,
        own: Mapping[str, pd.DataFrame | Retriever] | None = None,
        aspect_judge: AnyJudge = READER,
        depth: int = DEPTH,
        recordings: StrPath | None = None,
        store: VerdictStore | None = None,
    ) -> None:
        name = collection.name
        if isinstance(collection, Handout):
            raise InputError(f"{name!r} is a scenario of PerspectiveArg, whose groups no list can be marked with")
        if not collection.passages:
            raise InputError(f"{name!r} has questions only; name the corpus to search", field="passages")
        self.collection, self.own = collection, dict(own or {})
        self._passages = by_docno(collection.passages)
        self._judge, self._aspect_judge = judge, aspect_judge
        self._named_reader = READER if is_recorded(judge) else judge
        self._depth, self._recordings = depth, None if recordings is None else Path(recordings).resolve()
        self._store = store or VerdictStore()
        self._runs: dict[tuple[Any, ...], pd.DataFrame] = {}
        self._workshops: dict[str, Workshop] = {}
        self._reading: Judge | None = None

    def clear(self) -> None:
        """Let go of everything that was found and indexed."""
        self._reading, self._passages = None, {}
        self._runs.clear()
        self._workshops.clear()
        self.own.clear()

    # ------------------------------------------------------------ what is asked

    def question(self, wish: Wish) -> Question:
        """Return the question of a wish, with the perspectives that it is to be judged by; or say why it has none."""
        if not wish.qid:
            question = typed_question(wish.typed, wish.perspectives)
        else:
            by_qid = {q.qid: q for q in self.collection.questions}
            question = by_qid[known("question", wish.qid, by_qid)]
            if wish.perspectives:
                question = question._replace(perspectives=wish.perspectives, stances=(), labels=(), weights=())
        if wish.asked >= len(question.perspectives):
            raise InputError(f"there is no perspective number {wish.asked + 1} to search with", field="asked")
        return question

    def is_recorded(self, wish: Wish) -> bool:
        """Return whether recorded verdicts mark the lists: those of a question that is as it is in the data."""
        as_it_is = bool(wish.qid) and not wish.perspectives
        return is_recorded(self._judge) and self.collection.gold is not None and as_it_is

    # ------------------------------------------------------------ what is shown

    def looks(self, wish: Wish, *, longest: int = LONGEST) -> Iterator[dict[str, Any]]:
        """Yield views of a wish (:func:`~.views.view_of`), each more complete than the one before.

        What a system cannot do is told in its list; a question that cannot be asked, or a judge that fails, is an
        error.
        """
        question, passages, name = self.question(wish), self._passages, self.collection.name
        asked = "" if wish.asked == QUESTION else question.perspectives[wish.asked]
        recorded = self.is_recorded(wish)
        verdicts = self.collection.gold if recorded else None
        lists = [Listing(system) for system in wish.systems]
        searched = f"{len(passages):,} passages of {name}" + " (invented)" * (name == "sample")
        show = partial(view_of, question, passages=passages, k=wish.k, asked=asked, searched=searched, longest=longest)
        for place, system in enumerate(wish.systems):
            if not self._is_known(wish, system):  # what is at hand is shown at once
                yield show(lists, verdicts)
            lists[place] = self._listing(wish, question, system)
        if recorded:
            yield show(lists, verdicts, judge="recorded verdicts", recorded=True)
            return
        docnos = list(dict.fromkeys(d for one in lists for d in (one.docnos or ())[: wish.k]))
        if not question.perspectives or not docnos:
            yield show(lists, make_verdicts([], "nobody"))
            return
        yield show(lists, None)
        pool = Collection("shown", [question], [passages[docno] for docno in docnos])
        run = ranked_run({question.qid: docnos})
        verdicts = judged([run], pool, self._reader, len(docnos), self._store)
        yield show(lists, verdicts, judge=self._reader_name)

    def _listing(self, wish: Wish, question: Question, system: str) -> Listing:
        try:
            finished, qid = isinstance(self.own.get(system), pd.DataFrame), _searched_as(wish, question)
            if finished and not wish.qid:
                raise InputError("a finished run answers its own questions only; choose one of those")
            run = self.run(wish, system)
            mine = run[run["qid"] == qid]
            if finished and mine.empty:
                asked = "this question" if wish.asked == QUESTION else f"this perspective (its id would be {qid!r})"
                raise InputError(f"the run holds no list for {asked}")
            docnos = mine.loc[mine["rank"] <= wish.k, "docno"].tolist()
            if unknown := [docno for docno in docnos if docno not in self._passages]:
                raise InputError(f"the run lists passage {unknown[0]!r}, which is not in the corpus")
        except BerdsError as error:
            return Listing(system, problem=str(error))
        alone = bool(wish.qid) and self._is_slow(system)
        weighed = alone and any(part.kind in DIVERSIFIERS for part in parse_system(system).parts)
        return Listing(system, docnos, note=BY_ITSELF if weighed else "")

    def opened(self, wish: Wish, docno: str) -> dict[str, Any]:
        """Return a passage in full, and for each perspective what the labels and the reading judge say of it."""
        if docno not in self._passages:
            raise InputError(f"there is no passage {docno!r} in the corpus")
        passage = self._passages[docno]
        full = {"docno": docno, "title": visible(passage.title), "text": visible(passage.text)}
        return {**full, **self.opinions(wish, [docno])[docno]}

    def opinions(self, wish: Wish, docnos: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return docno → what the reading judge says of each perspective, and the labels where there are any."""
        question, judge, labelled = self.question(wish), self._reader, self.is_recorded(wish)
        texts = question.perspectives
        places = [(docno, pid) for docno in docnos for pid in range(len(texts))]
        pairs = [Pair(question.qid, pid, self._passages[docno], texts[pid]) for docno, pid in places]
        p_yes = judge_pairs(judge, pairs, self._store)[0]
        labels: dict[tuple[str, int], bool] = {}
        if labelled and (gold := self.collection.gold) is not None:
            mine = gold[gold["qid"] == wish.qid]
            labels = {(docno, pid): yes for docno, pid, yes in mine[["docno", "pid", "supports"]].values.tolist()}
        about = {"judge": self._reader_name, "yes_from": round(float(judge.threshold), 4), "labelled": labelled}
        told: dict[str, dict[str, Any]] = {docno: {**about, "opinions": []} for docno in docnos}
        for place, p, sure in zip(places, p_yes, how_sure(p_yes, judge.threshold), strict=True):
            opinion = {"p": round(float(p), 4), "says": bool(p >= judge.threshold), "sure": str(sure)}
            told[place[0]]["opinions"].append({**opinion, "label": labels.get(place)})
        return told

    def ordered(self, wish: Wish) -> list[Change]:
        """Return how the two systems of a wish differ on each question, where they differ most first."""
        collection = self.collection
        questions = [q for q in collection.questions if q.perspectives]
        if not questions:
            raise InputError("no question has perspectives to order them by", field="perspectives")
        of_all = wish._replace(qid=questions[0].qid, typed="", perspectives=(), asked=QUESTION)
        runs = [self.run(of_all, system, everything=True) for system in wish.systems]
        verdicts = collection.gold
        if verdicts is None or not self.is_recorded(of_all):
            verdicts = judged(runs, collection.only(questions), self._reader, wish.k, self._store)
        supported = supported_in(verdicts)
        tops = [run[run["rank"] <= wish.k] for run in runs]
        listed = [{str(qid): part["docno"].tolist() for qid, part in top.groupby("qid", sort=False)} for top in tops]
        return by_change(
            change_of(
                q, [[(d, supported.get(q.qid, {}).get(d, ())) for d in one.get(q.qid, ())] for one in listed], wish.k
            )
            for q in questions
        )

    # ------------------------------------------------------------ searching

    def run(self, wish: Wish, system: str, *, everything: bool = False) -> pd.DataFrame:
        """Return the run that holds a wish's list by a system, with ``everything`` of all its questions."""
        own = self.own.get(system)
        if isinstance(own, pd.DataFrame):
            return run_of(system, own)
        key = self._key(wish, system, everything)
        if key not in self._runs:
            self._runs[key] = self._search(wish, system, everything)
        return self._runs[key]

    def _key(self, wish: Wish, system: str, everything: bool = False) -> tuple[Any, ...]:
        alone = self._is_own(wish) or (self._is_slow(system) and not everything)
        question = (wish.qid, wish.typed, wish.perspectives, wish.asked) if alone else ()
        return (system, wish.k, self._form(wish, system), *question)

    def _is_own(self, wish: Wish) -> bool:
        """Return whether what is searched with is not in the data: a typed question, or a perspective of one's own."""
        return not wish.qid or (wish.asked != QUESTION and bool(wish.perspectives))

    def _is_known(self, wish: Wish, system: str) -> bool:
        try:
            return isinstance(self.own.get(system), pd.DataFrame) or self._key(wish, system) in self._runs
        except BerdsError:
            return True  # its list says at once what is wrong with it

    def _is_slow(self, system: str) -> bool:
        """Return whether something reads every candidate of every question, or a model is asked for each question."""
        if system in self.own:
            return False
        parsed = parse_system(system)
        asks = any(":" in value for value in parsed.values(*EXPANDING))
        return asks or parsed.uses_aspects or bool(parsed.values(CROSS))

    def _form(self, wish: Wish, system: str) -> str:
        """Return what is searched with: questions, single statements as in ``berdslib.sides``, or full queries."""
        if wish.asked == QUESTION:
            return _QUESTIONS
        projects = system not in self.own and any(part.kind in PROJECTED for part in parse_system(system).parts)
        return _FULL if projects else _STATEMENTS

    def _search(self, wish: Wish, system: str, everything: bool) -> pd.DataFrame:
        form, collection = self._form(wish, system), self.collection
        if self._is_own(wish):
            collection = collection.only([self.question(wish)])
            recorded = _expansions(collection, form) if wish.qid else {}
            shop = self._workshop(_QUESTIONS).over(_asked(collection, form), recorded)
        else:
            shop = self._workshop(form)
        asked = _asked(collection, form)
        if not everything and self._is_slow(system):
            qid = _searched_as(wish, self.question(wish))
            asked = [q for q in asked if q.qid == qid]
        found = self.own.get(system) if system in self.own else shop.make([system])[system]
        assert found is not None and not isinstance(found, pd.DataFrame)  # finished runs are looked up elsewhere
        return found.search(asked, wish.k)

    def _workshop(self, form: str) -> Workshop:
        """Return where systems are built; indexes and models are shared between forms."""
        if form not in self._workshops:
            collection = self.collection
            if form == _QUESTIONS:
                aspects = partial(judge_of, self._aspect_judge, collection)
                options: dict[str, Any] = {"depth": self._depth, "recordings": self._recordings}
                made = workshop(collection.handout, aspect_judge=aspects, store=self._store, **options)
            else:
                made = self._workshop(_QUESTIONS).over(_asked(collection, form), _expansions(collection, form))
            self._workshops[form] = made
        return self._workshops[form]

    # ------------------------------------------------------------ judging

    @property
    def _reader(self) -> Judge:
        """The judge that reads what nobody has labelled."""
        if self._reading is None:
            self._reading = judge_of(self._named_reader, self.collection)
        return self._reading

    @property
    def _reader_name(self) -> str:
        return self._named_reader if isinstance(self._named_reader, str) else self._reader.id

    # ------------------------------------------------------------ what is kept

    def cell(self, wish: Wish) -> str:
        """Return a cell that opens the explorer at this wish, its parameters first; or say what no other could open."""
        if not wish.qid or wish.perspectives or any(system in self.own for system in wish.systems):
            raise InputError("only a question of the data, its own perspectives and named systems can be opened again")
        if any(judge is not None and not isinstance(judge, str) for judge in (self._judge, self._aspect_judge)):
            raise InputError("a judge of your own has no name that another session would know", field="judge")
        name = self.collection.name
        if name not in DATASETS and not Path(name).exists():
            raise InputError(f"{name!r} is no name or file that another session could load", field="data")
        parameters = {"dataset": name, "question_id": wish.qid, "systems": list(wish.systems), "k": wish.k}
        judge = "" if is_recorded(self._judge) else f", judge={self._judge!r}"
        opened = f'bd.explore(bd.load(dataset, split="all"), systems, question=question_id, k=k{judge})'
        side = [] if wish.asked == QUESTION else [f"# then choose perspective {letter_of(wish.asked)} in 'Search with'"]
        return "\n".join(["import berdslib as bd\n", *(f"{n} = {v!r}" for n, v in parameters.items()), opened, *side])

    def command(self, wish: Wish) -> str:
        """Return the shell command that writes these lists as a file, which opens at this question; as :meth:`cell`."""
        self.cell(wish)
        words = ["berds", "explore", "-q", self.collection.name, "--split", "all", "-r", ",".join(wish.systems)]
        words += ["-k", str(wish.k), "--question", wish.qid]
        words += [] if is_recorded(self._judge) else ["-j", str(self._judge)]
        words += ["--aspect-judge", str(self._aspect_judge)] if self._aspect_judge != READER else []
        words += ["--depth", str(self._depth)] if self._depth != DEPTH else []
        return shlex.join([*words, "-o", "lists.html"])


def session_for(
    data: Data,
    systems: Systems,
    *,
    question: str | None = None,
    k: int = 5,
    store: Store = None,
    **options: Any,
) -> tuple[Session, Wish]:
    """Return a session and the wish to begin with; arguments and errors as :func:`berdslib.explore`."""
    check_k(k)
    named = named_systems(systems)
    # A reader looks up any question, so a name stands for the questions of all splits.
    collection = load(data, split="all") if isinstance(data, str | Path) else collection_of(data)
    if len(named) != 2:
        raise InputError(f"two systems stand side by side, not {len(named)}", field="systems")
    made = {n: s if isinstance(s, pd.DataFrame) else over_passages(s, n, collection) for n, s in named.items()}
    own = {name: one for name, one in made.items() if not isinstance(one, str)}
    left, right = (one if isinstance(one, str) else name for name, one in named.items())
    qids = [q.qid for q in collection.questions]
    qid = qids[0] if question is None else known("question", question, qids)
    session = Session(collection, own=own, store=store_of(store), **options)
    return session, Wish(qid, systems=(left, right), k=k)


def typed_question(text: str, perspectives: Sequence[str] = ()) -> Question:
    """Return a question that somebody typed; without perspectives it has the two sides that a rule finds, if any."""
    text = " ".join(text.split())
    if not text:
        raise InputError("type a question first", field="question")
    sides = two_sides(text) or ()
    if perspectives and tuple(perspectives) != sides:
        return Question(TYPED, text, tuple(perspectives))
    return Question(TYPED, text, sides, (SUPPORT, OPPOSE) if sides else ())


def _searched_as(wish: Wish, question: Question) -> str:
    return question.qid if wish.asked == QUESTION else perspective_qid(question.qid, wish.asked)


def _asked(collection: Collection, form: str) -> list[Question]:
    if form == _STATEMENTS:
        return list(statements(collection).questions)
    return list(collection.questions if form == _QUESTIONS else collection.queries)


def _expansions(collection: Collection, form: str) -> Mapping[str, Sequence[tuple[str, str]]]:
    return statements(collection).expansions if form == _STATEMENTS else collection.expansions

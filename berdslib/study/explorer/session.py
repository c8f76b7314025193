"""What the explorer does for a wish: search, judge, and say what was found; no widget and no thread is here."""

from __future__ import annotations

import shlex
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from berdslib.data.catalogue import DATASETS
from berdslib.data.collection import Collection
from berdslib.data.corpus import by_docno
from berdslib.data.records import (
    OPPOSE,
    SUPPORT,
    Passage,
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
from berdslib.judging.baselines import Gold
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.retrieval.base import Retriever, checked_search, run_of
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
    collections_of,
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
_KEPT_RUNS = 32
_QUESTIONS, _STATEMENTS, _FULL = "questions", "statements", "full queries"


class Wish(NamedTuple):
    """What somebody wants to see.

    ``qid`` is "" for a question that was ``typed``, ``perspectives`` () for the recorded ones; ``asked`` is -1 to
    search with the question, else the number of the perspective to search with.
    """

    corpus: str
    qid: str = ""
    typed: str = ""
    perspectives: tuple[str, ...] = ()
    asked: int = QUESTION
    systems: tuple[str, str] = ("bm25", "minilm")
    k: int = 5


class Session:
    """Collections to search and what was found in them so far; arguments are those of :func:`berdslib.explore`.

    All questions of a collection are searched together, as in an experiment, or each by itself where that is slow.
    """

    def __init__(
        self,
        collections: Mapping[str, Collection],
        *,
        judge: AnyJudge = None,
        own: Mapping[str, pd.DataFrame | Retriever] | None = None,
        aspect_judge: AnyJudge = READER,
        depth: int = DEPTH,
        recordings: StrPath | None = None,
        store: VerdictStore | None = None,
    ) -> None:
        for name, one in collections.items():
            if isinstance(one, Handout):
                raise InputError(f"{name!r} is a scenario of PerspectiveArg, whose groups no list can be marked with")
            if not one.passages:
                raise InputError(f"{name!r} has questions only; name the corpus to search", field="passages")
        self.collections, self.own = dict(collections), dict(own or {})
        self._judge, self._aspect_judge = judge, aspect_judge
        self._depth, self._recordings = depth, None if recordings is None else Path(recordings).resolve()
        self._store = store or VerdictStore()
        self._runs: OrderedDict[tuple[Any, ...], pd.DataFrame] = OrderedDict()
        self._workshops: dict[tuple[str, str], Workshop] = {}
        self._passages: dict[str, Mapping[str, Passage]] = {}
        self._reading: Judge | None = None

    def clear(self) -> None:
        """Let go of everything that was found and indexed."""
        self._reading = None
        for kept in (self._runs, self._workshops, self._passages, self.collections, self.own):
            kept.clear()

    # ------------------------------------------------------------ what is asked

    def question(self, wish: Wish) -> Question:
        """Return the question of a wish, with the perspectives that it is to be judged by; or say why it has none."""
        if not wish.qid:
            question = typed_question(wish.typed, wish.perspectives)
        else:
            question = self._in_data(wish)
            if own := self.plain(wish).perspectives:
                question = question._replace(perspectives=own, stances=(), labels=(), weights=())
        if wish.asked >= len(question.perspectives):
            raise InputError(f"there is no perspective number {wish.asked + 1} to search with", field="asked")
        return question

    def _in_data(self, wish: Wish) -> Question:
        by_qid = {q.qid: q for q in self.collections[wish.corpus].questions}
        return by_qid[known("question", wish.qid, by_qid)]

    def plain(self, wish: Wish) -> Wish:
        """Return a wish whose perspectives are () where they are the recorded ones."""
        told = bool(wish.qid and wish.perspectives) and wish.perspectives == tuple(self._in_data(wish).perspectives)
        return wish._replace(perspectives=()) if told else wish

    def is_recorded(self, wish: Wish) -> bool:
        """Return whether recorded verdicts mark the lists: those of a question that is as it is in the data."""
        as_it_is = bool(wish.qid) and not self.plain(wish).perspectives
        return is_recorded(self._judge) and self.collections[wish.corpus].gold is not None and as_it_is

    # ------------------------------------------------------------ what is shown

    def looks(self, wish: Wish, *, longest: int = LONGEST) -> Iterator[dict[str, Any]]:
        """Yield views of a wish (:func:`~.views.view_of`), each more complete than the one before.

        What a system cannot do is told in its list; a question that cannot be asked, or a judge that fails, is an
        error.
        """
        question, passages = self.question(wish), self._passages_of(wish.corpus)
        asked = "" if wish.asked == QUESTION else question.perspectives[wish.asked]
        recorded = self.is_recorded(wish)
        verdicts = self._gold_of(wish) if recorded else None
        lists = [Listing(system) for system in wish.systems]
        searched = f"{len(passages):,} passages of {wish.corpus}" + " (invented)" * (wish.corpus == "sample")
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
            docnos, passages = mine.loc[mine["rank"] <= wish.k, "docno"].tolist(), self._passages_of(wish.corpus)
            if unknown := [docno for docno in docnos if docno not in passages]:
                raise InputError(f"the run lists passage {unknown[0]!r}, which is not in the corpus")
        except BerdsError as error:
            return Listing(system, problem=str(error))
        alone = bool(wish.qid) and self._is_slow(system)
        weighed = alone and any(part.kind in DIVERSIFIERS for part in parse_system(system).parts)
        return Listing(system, docnos, note=BY_ITSELF if weighed else "")

    def opened(self, wish: Wish, docno: str) -> dict[str, Any]:
        """Return a passage in full, and for each perspective what the labels and the reading judge say of it."""
        passages = self._passages_of(wish.corpus)
        if docno not in passages:
            raise InputError(f"there is no passage {docno!r} in the corpus")
        passage = passages[docno]
        full = {"docno": docno, "title": visible(passage.title), "text": visible(passage.text)}
        return {**full, **self.opinions(wish, [docno])[docno]}

    def opinions(self, wish: Wish, docnos: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return docno → what the reading judge says of each perspective, and the labels where there are any."""
        question, passages, judge = self.question(wish), self._passages_of(wish.corpus), self._reader
        places = [(docno, pid) for docno in docnos for pid in range(len(question.perspectives))]
        texts = question.perspectives
        pairs = [Pair(question.qid, pid, passages[docno], texts[pid]) for docno, pid in places]
        p_yes = judge_pairs(judge, pairs, self._store)[0]
        labelled = self.is_recorded(wish)
        labels = self._labels(wish) if labelled else {}
        about = {"judge": self._reader_name, "yes_from": round(float(judge.threshold), 4), "labelled": labelled}
        told: dict[str, dict[str, Any]] = {docno: {**about, "opinions": []} for docno in docnos}
        for place, p, sure in zip(places, p_yes, how_sure(p_yes, judge.threshold), strict=True):
            opinion = {"p": round(float(p), 4), "says": bool(p >= judge.threshold), "sure": str(sure)}
            told[place[0]]["opinions"].append({**opinion, "label": labels.get(place)})
        return told

    def _labels(self, wish: Wish) -> dict[tuple[str, int], bool]:
        """Return (docno, perspective) → its recorded verdict."""
        gold = self._gold_of(wish)
        mine = gold[gold["qid"] == wish.qid]
        return dict(zip(zip(mine["docno"], mine["pid"].tolist(), strict=True), mine["supports"].tolist(), strict=True))

    def ordered(self, wish: Wish) -> list[Change]:
        """Return how the two systems of a wish differ on each question, where they differ most first."""
        collection = self.collections[wish.corpus]
        questions = [q for q in collection.questions if q.perspectives]
        if not questions:
            raise InputError("no question has perspectives to order them by", field="perspectives")
        of_all = wish._replace(qid=questions[0].qid, typed="", perspectives=(), asked=QUESTION)
        runs = [self.run(of_all, system, everything=True) for system in wish.systems]
        if self.is_recorded(of_all):
            verdicts = self._gold_of(of_all)
        else:
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
            while len(self._runs) > _KEPT_RUNS:
                self._runs.popitem(last=False)
        self._runs.move_to_end(key)
        return self._runs[key]

    def _key(self, wish: Wish, system: str, everything: bool = False) -> tuple[Any, ...]:
        alone = self._is_own(wish) or (self._is_slow(system) and not everything)
        question = (wish.qid, wish.typed, wish.perspectives, wish.asked) if alone else ()
        return (wish.corpus, system, wish.k, self._form(wish, system), *question)

    def _is_own(self, wish: Wish) -> bool:
        """Return whether what is searched with is not in the data: a typed question, or a perspective of one's own."""
        return not wish.qid or (wish.asked != QUESTION and bool(self.plain(wish).perspectives))

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
        form, collection = self._form(wish, system), self.collections[wish.corpus]
        if self._is_own(wish):
            collection = collection.only([self.question(wish)])
            recorded = _expansions(collection, form) if wish.qid else {}
            shop = self._workshop(wish.corpus, _QUESTIONS).over(_asked(collection, form), recorded)
        else:
            shop = self._workshop(wish.corpus, form)
        asked = _asked(collection, form)
        if not everything and self._is_slow(system):
            qid = _searched_as(wish, self.question(wish))
            asked = [q for q in asked if q.qid == qid]
        found = self.own.get(system) if system in self.own else shop.make([system])[system]
        assert found is not None and not isinstance(found, pd.DataFrame)  # finished runs are looked up elsewhere
        return checked_search(found, asked, wish.k)

    def _workshop(self, corpus: str, form: str) -> Workshop:
        """Return where systems over a corpus are built; indexes and models are shared between forms."""
        if (corpus, form) not in self._workshops:
            collection = self.collections[corpus]
            if form == _QUESTIONS:
                aspects = partial(judge_of, self._aspect_judge, collection)
                options: dict[str, Any] = {"depth": self._depth, "recordings": self._recordings}
                made = workshop(collection.handout, aspect_judge=aspects, store=self._store, **options)
            else:
                shared = self._workshop(corpus, _QUESTIONS)
                made = shared.over(_asked(collection, form), _expansions(collection, form))
            self._workshops[corpus, form] = made
        return self._workshops[corpus, form]

    def _passages_of(self, corpus: str) -> Mapping[str, Passage]:
        if corpus not in self._passages:
            self._passages[corpus] = by_docno(self.collections[corpus].passages)
        return self._passages[corpus]

    # ------------------------------------------------------------ judging

    def _gold_of(self, wish: Wish) -> pd.DataFrame:
        gold = self.collections[wish.corpus].gold
        assert gold is not None  # is_recorded has looked
        return gold

    @property
    def _reader(self) -> Judge:
        """The judge that reads what nobody has labelled."""
        if self._reading is None:
            judge = READER if is_recorded(self._judge) else self._judge
            found = judge_of(judge, next(iter(self.collections.values())))
            assert not isinstance(found, Gold)
            self._reading = found
        return self._reading

    @property
    def _reader_name(self) -> str:
        named = READER if is_recorded(self._judge) else self._judge
        return named if isinstance(named, str) else self._reader.id

    # ------------------------------------------------------------ what is kept

    def cell(self, wish: Wish) -> str:
        """Return a cell that opens the explorer at this wish, its parameters first; or say what no other could open."""
        if not wish.qid or wish.perspectives or any(system in self.own for system in wish.systems):
            raise InputError("only a question of the data, its own perspectives and named systems can be opened again")
        if any(judge is not None and not isinstance(judge, str) for judge in (self._judge, self._aspect_judge)):
            raise InputError("a judge of your own has no name that another session would know", field="judge")
        if wish.corpus not in DATASETS and not Path(wish.corpus).exists():
            raise InputError(f"{wish.corpus!r} is no name or file that another session could load", field="data")
        parameters = {"dataset": wish.corpus, "question_id": wish.qid, "systems": list(wish.systems), "k": wish.k}
        judge = "" if is_recorded(self._judge) else f", judge={self._judge!r}"
        opened = f'bd.explore(bd.load(dataset, split="all"), systems, question=question_id, k=k{judge})'
        side = [] if wish.asked == QUESTION else [f"# then choose perspective {letter_of(wish.asked)} in 'Search with'"]
        return "\n".join(["import berdslib as bd\n", *(f"{n} = {v!r}" for n, v in parameters.items()), opened, *side])

    def command(self, wish: Wish) -> str:
        """Return the shell command that writes these lists as a file, which opens at this question; as :meth:`cell`."""
        self.cell(wish)
        words = ["berds", "explore", "-q", wish.corpus, "--split", "all", "-r", ",".join(wish.systems)]
        words += ["-k", str(wish.k), "--question", wish.qid]
        words += [] if is_recorded(self._judge) else ["-j", str(self._judge)]
        words += ["--aspect-judge", str(self._aspect_judge)] if self._aspect_judge != READER else []
        words += ["--depth", str(self._depth)] if self._depth != DEPTH else []
        return shlex.join([*words, "-o", "lists.html"])


def session_for(
    data: Data | Sequence[Data],
    systems: Systems,
    *,
    question: str | None = None,
    k: int = 5,
    store: Store = None,
    **options: Any,
) -> tuple[Session, Wish]:
    """Return a session and the wish to begin with; arguments and errors as :func:`berdslib.explore`."""
    check_k(k)
    named, given = named_systems(systems), collections_of(data)
    collections = {one.name: one for one in given}
    if len(collections) < len(given):
        raise InputError("two collections have one name; give one another", field="data")
    if len(named) != 2:
        raise InputError(f"two systems stand side by side, not {len(named)}", field="systems")
    made = {n: s if isinstance(s, pd.DataFrame) else over_passages(s, n, given[0]) for n, s in named.items()}
    own = {name: one for name, one in made.items() if not isinstance(one, str)}
    if own and len(collections) > 1:
        raise InputError("a run or a retriever of your own belongs to one corpus; give one collection", field="data")
    left, right = (one if isinstance(one, str) else name for name, one in named.items())
    qids = [q.qid for q in given[0].questions]
    qid = qids[0] if question is None else known("question", question, qids)
    session = Session(collections, own=own, store=store_of(store), **options)
    return session, Wish(given[0].name, qid, systems=(left, right), k=k)


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

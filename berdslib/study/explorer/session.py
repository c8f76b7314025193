"""What the explorer does for a wish: search, judge, and say what was found; no widget and no thread is here."""

from __future__ import annotations

import shlex
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from berdslib.data.catalogue import DATASETS
from berdslib.data.collection import Collection
from berdslib.data.corpus import by_docno
from berdslib.data.records import OPPOSE, SUPPORT, Passage, Question, perspective_qid, ranked_run
from berdslib.data.scenario import Handout
from berdslib.errors import BerdsError, InputError, known
from berdslib.files import StrPath
from berdslib.judging.base import Judge, Pair, how_sure
from berdslib.judging.baselines import Gold
from berdslib.judging.store import VerdictStore, judge_pairs
from berdslib.retrieval.base import Retriever, checked_search, run_of
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.parts import CROSS, EXPANDING, PROJECTED, System, parse_system
from berdslib.retrieval.systems import Workshop
from berdslib.statements.negation import two_sides
from berdslib.study.explorer.views import Listing, most_telling, view_of, visible
from berdslib.study.figures.lists import letter_of
from berdslib.study.scoring import AnyJudge, is_recorded, judge_of, judged, workshop
from berdslib.study.sides import statements

READER = "laptop"  # judges what nobody has labelled
TYPED = "typed"
DEPTH = 100  # candidates that a diversifier chooses from, unless told otherwise
QUESTION = -1
LONGEST = 600  # characters of a passage that a live view holds; all of it is sent when it is opened
AS_LISTED = "in the order of the data"
_KEPT_RUNS = 32
_QUESTIONS, _STATEMENTS, _FULL = "questions", "statements", "full queries"


class Wish(NamedTuple):
    """What somebody wants to see.

    Fields: ``corpus`` name of a collection; ``qid`` of one of its questions, "" for a typed one; ``typed`` its text;
    ``perspectives`` of one's own, () for the recorded ones; ``asked`` -1 to search with the question, else the number
    of the perspective to search with; ``systems`` left and right; ``k`` places of each list.
    """

    corpus: str
    qid: str = ""
    typed: str = ""
    perspectives: tuple[str, ...] = ()
    asked: int = QUESTION
    systems: tuple[str, str] = ("bm25", "minilm")
    k: int = 5


class Session:
    """Collections to search and what was found in them so far.

    Lists are those of :func:`berdslib.study.experiment.experiment`: all questions of a collection are searched
    together, because a diversifier weighs scores by the largest of all. Where that would take long (a cross-encoder, a
    judge or a chat model reads for each question) a question is searched by itself, and its list says so if it matters.

    Args:
        collections: name → collection.
        judge: as for ``experiment``; None for recorded verdicts where there are any, and "laptop" elsewhere.
        own: systems that no string names: name → finished run or retriever.
        aspect_judge: as for ``experiment``, as the next three.
        depth: how many candidates a diversifier chooses from.
        recordings: a file of a chat model's answers.
        store: where verdicts are kept.

    Raises:
        InputError: a collection without passages, or one that hides who wrote what.
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
        self._judges: dict[str, Judge] = {}

    # ------------------------------------------------------------ what is asked

    def question(self, wish: Wish) -> Question:
        """Return the question of a wish, with the perspectives that it is to be judged by.

        Raises:
            InputError: an unknown question, a typed one that is blank, or a perspective that it does not have.
        """
        if wish.qid:
            by_qid = {q.qid: q for q in self.collections[wish.corpus].questions}
            question = by_qid[known("question", wish.qid, by_qid)]
            if own := self.plain(wish).perspectives:
                question = question._replace(perspectives=own, stances=(), labels=())
        else:
            question = typed_question(wish.typed, wish.perspectives)
        if wish.asked >= len(question.perspectives):
            raise InputError(f"there is no perspective number {wish.asked + 1} to search with", field="asked")
        return question

    def plain(self, wish: Wish) -> Wish:
        """Return a wish whose perspectives are () where they are the recorded ones."""
        own = wish.perspectives and not (wish.qid and wish.perspectives == self._recorded_perspectives(wish))
        return wish if own else wish._replace(perspectives=())

    def is_recorded(self, wish: Wish) -> bool:
        """Return whether recorded verdicts mark the lists: those of a question that is as it is in the data."""
        collection = self.collections[wish.corpus]
        as_it_is = bool(wish.qid) and not self.plain(wish).perspectives
        return is_recorded(self._judge) and collection.gold is not None and as_it_is

    def _recorded_perspectives(self, wish: Wish) -> tuple[str, ...]:
        return next(tuple(q.perspectives) for q in self.collections[wish.corpus].questions if q.qid == wish.qid)

    # ------------------------------------------------------------ what is shown

    def looks(self, wish: Wish, *, longest: int = LONGEST) -> Iterator[dict[str, Any]]:
        """Yield views of a wish, each more complete than the one before; see :func:`~.views.view_of`.

        First comes what needs no search, then each list as it arrives, then what it argues. What a system cannot do is
        told in its list.

        Raises:
            InputError: the question cannot be asked, or the judge fails.
            MissingDataError: the judge is not on this machine.
        """
        question = self.question(wish)
        passages = self._passages_of(wish.corpus)
        asked = "" if wish.asked == QUESTION else question.perspectives[wish.asked]
        recorded = self.is_recorded(wish)
        verdicts = self._verdicts_of(wish) if recorded else None
        lists = [Listing(system) for system in wish.systems]
        searched = f"{len(passages):,} passages of {wish.corpus}" + " (invented)" * (wish.corpus == "sample")
        show = partial(view_of, question, passages=passages, k=wish.k, asked=asked, searched=searched, longest=longest)
        for place, system in enumerate(wish.systems):
            if not self._is_known(wish, system):  # what is at hand is shown at once
                yield show(lists, verdicts)
            lists[place] = self._listing(wish, question, system)
        if recorded or not question.perspectives:
            judge = "recorded verdicts" if recorded else ""
            yield show(lists, verdicts if recorded else _no_verdicts(), judge=judge, recorded=recorded)
            return
        yield show(lists, None)
        docnos = list(dict.fromkeys(d for one in lists for d in (one.docnos or ())[: wish.k]))
        verdicts, judge = self._judged(question, docnos, passages)
        yield show(lists, verdicts, judge=judge)

    def _listing(self, wish: Wish, question: Question, system: str) -> Listing:
        try:
            run, qid = self.run(wish, system), _searched_as(wish, question)
            docnos = run.loc[(run["qid"] == qid) & (run["rank"] <= wish.k), "docno"].tolist()
            passages = self._passages_of(wish.corpus)
            if unknown := [docno for docno in docnos if docno not in passages]:
                raise InputError(f"the run lists passage {unknown[0]!r}, which is not in the corpus")
        except BerdsError as error:
            return Listing(system, problem=str(error))
        return Listing(system, docnos, note=self._note(wish, system))

    def _note(self, wish: Wish, system: str) -> str:
        if system in self.own:
            return ""
        parsed = parse_system(system)
        if wish.qid and _is_slow(parsed) and any(part.kind in DIVERSIFIERS for part in parsed.parts):
            return "Searched by itself: scores were divided by the largest of this question, not of all of them."
        return ""

    def opened(self, wish: Wish, docno: str) -> dict[str, Any]:
        """Return a passage in full, and for each perspective what the labels and the reading judge say of it.

        Raises:
            InputError: an unknown passage, or a judge that fails.
            MissingDataError: the judge is not on this machine.
        """
        passages = self._passages_of(wish.corpus)
        if docno not in passages:
            raise InputError(f"there is no passage {docno!r} in the corpus")
        passage = passages[docno]
        full = {"docno": docno, "title": visible(passage.title), "text": visible(passage.text)}
        return {**full, **self.opinions(wish, [docno])[docno]}

    def opinions(self, wish: Wish, docnos: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return docno → what the reading judge says of each perspective, and what the labels say where there are any.

        Raises:
            InputError: a judge that fails.
            MissingDataError: the judge is not on this machine.
        """
        question, passages = self.question(wish), self._passages_of(wish.corpus)
        m, labels = len(question.perspectives), self._labels(wish, question)
        pairs = [
            Pair(question.qid, pid, passages[docno], text)
            for docno in docnos
            for pid, text in enumerate(question.perspectives)
        ]
        judge = self._reader()
        p_yes = judge_pairs(judge, pairs, self._store)[0]
        told = [
            {"p": round(float(p), 4), "says": bool(p >= judge.threshold), "sure": str(sure)}
            for p, sure in zip(p_yes, how_sure(p_yes, judge.threshold), strict=True)
        ]
        return {
            docno: {
                "judge": self._reader_name(),
                "yes_from": round(float(judge.threshold), 4),
                "labelled": labels is not None,
                "opinions": [
                    {**told[place * m + pid], "label": None if labels is None else labels.get((docno, pid))}
                    for pid in range(m)
                ],
            }
            for place, docno in enumerate(docnos)
        }

    def _labels(self, wish: Wish, question: Question) -> dict[tuple[str, int], bool] | None:
        """Return (docno, perspective) → its recorded verdict, or None where no verdicts are recorded."""
        if not self.is_recorded(wish):
            return None
        gold = self._verdicts_of(wish)
        mine = gold[gold["qid"] == question.qid]
        return dict(zip(zip(mine["docno"], mine["pid"].tolist(), strict=True), mine["supports"].tolist(), strict=True))

    def ordered(self, wish: Wish) -> pd.DataFrame:
        """Return where the two systems of a wish differ most, see :func:`~.views.most_telling`.

        Everything that either lists is judged where there are no recorded verdicts.

        Raises:
            BerdsError: a system cannot search, or the judge cannot judge.
        """
        collection = self.collections[wish.corpus]
        questions = [q for q in collection.questions if q.perspectives]
        if not questions:
            raise InputError("no question has perspectives to order them by", field="perspectives")
        of_all = wish._replace(qid=questions[0].qid, typed="", perspectives=(), asked=QUESTION)
        left, right = (self.run(of_all, system, everything=True) for system in wish.systems)
        if self.is_recorded(of_all):
            verdicts = self._verdicts_of(of_all)
        else:
            verdicts = judged([left, right], collection.only(questions), self._reader(), wish.k, self._store)
        runs = [run[run["qid"].isin({q.qid for q in questions})] for run in (left, right)]
        return most_telling(questions, (runs[0], runs[1]), verdicts, wish.k)

    # ------------------------------------------------------------ searching

    def run(self, wish: Wish, system: str, *, everything: bool = False) -> pd.DataFrame:
        """Return the run that holds a wish's list by a system; it is searched at most once.

        Args:
            wish: what is asked.
            system: a system string, or the name of one of ``own``.
            everything: search all questions, however slow the system is.

        Raises:
            BerdsError: the system cannot be built, or cannot search.
        """
        if isinstance(self.own.get(system), pd.DataFrame):
            return self._finished(wish, system, everything)
        key = self._key(wish, system, everything)
        if key not in self._runs:
            self._runs[key] = self._search(wish, system, everything)
            while len(self._runs) > _KEPT_RUNS:
                self._runs.popitem(last=False)
        self._runs.move_to_end(key)
        return self._runs[key]

    def _key(self, wish: Wish, system: str, everything: bool = False) -> tuple[Any, ...]:
        form = self._form(wish, system)
        alone = self._is_own(wish) or (self._is_slow(system) and not everything)
        question = (wish.qid, wish.typed, wish.perspectives, wish.asked) if alone else ()
        return (wish.corpus, system, wish.k, form, *question)

    def _is_own(self, wish: Wish) -> bool:
        """Return whether what is searched with is not in the data: a typed question, or a perspective of one's own."""
        return not wish.qid or (wish.asked != QUESTION and bool(self.plain(wish).perspectives))

    def _is_known(self, wish: Wish, system: str) -> bool:
        try:
            return isinstance(self.own.get(system), pd.DataFrame) or self._key(wish, system) in self._runs
        except BerdsError:
            return True  # its list says at once what is wrong with it

    def _is_slow(self, system: str) -> bool:
        return system not in self.own and _is_slow(parse_system(system))

    def _finished(self, wish: Wish, system: str, everything: bool) -> pd.DataFrame:
        run = self.own[system]
        assert isinstance(run, pd.DataFrame)
        if not wish.qid:
            raise InputError("a finished run answers its own questions only; choose one of those")
        run, qid = run_of(system, run), _searched_as(wish, self.question(wish))
        if not everything and not (run["qid"] == qid).any():
            asked = "this question" if wish.asked == QUESTION else f"this perspective (its id would be {qid!r})"
            raise InputError(f"the run holds no list for {asked}")
        return run

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

    def clear(self) -> None:
        """Let go of everything that was found and indexed."""
        for kept in (self._runs, self._workshops, self._passages, self._judges, self.collections, self.own):
            kept.clear()

    # ------------------------------------------------------------ judging

    def _verdicts_of(self, wish: Wish) -> pd.DataFrame:
        gold = self.collections[wish.corpus].gold
        assert gold is not None  # is_recorded has looked
        return gold

    def _reader_name(self) -> str:
        if is_recorded(self._judge):
            return READER
        return self._judge if isinstance(self._judge, str) else self._reader().id

    def _reader(self) -> Judge:
        """Return the judge that reads what nobody has labelled."""
        if READER not in self._judges:
            collection = next(iter(self.collections.values()))
            self._judges[READER] = judge_of(READER if is_recorded(self._judge) else self._judge, collection)
        found = self._judges[READER]
        assert not isinstance(found, Gold)
        return found

    def _judged(
        self, question: Question, docnos: Sequence[str], passages: Mapping[str, Passage]
    ) -> tuple[pd.DataFrame, str]:
        if not docnos:
            return _no_verdicts(), ""
        pool = Collection("shown", [question], [passages[docno] for docno in docnos])
        run = ranked_run({question.qid: docnos})
        return judged([run], pool, self._reader(), len(docnos), self._store), self._reader_name()

    # ------------------------------------------------------------ what is kept

    def cell(self, wish: Wish) -> str:
        """Return a cell that opens the explorer at this wish, its parameters first.

        Raises:
            InputError: what is shown is not in the data, or another session could not load it by name.
        """
        if not wish.qid or wish.perspectives or any(system in self.own for system in wish.systems):
            raise InputError("only a question of the data, its own perspectives and named systems can be opened again")
        if any(judge is not None and not isinstance(judge, str) for judge in (self._judge, self._aspect_judge)):
            raise InputError("a judge of your own has no name that another session would know", field="judge")
        if wish.corpus not in DATASETS and not Path(wish.corpus).exists():
            raise InputError(f"{wish.corpus!r} is no name or file that another session could load", field="data")
        parameters = {"dataset": wish.corpus, "question_id": wish.qid, "systems": list(wish.systems), "k": wish.k}
        judge = f", judge={self._judge!r}" if self._names_judge else ""
        opened = f'bd.explore(bd.load(dataset, split="all"), systems, question=question_id, k=k{judge})'
        side = [] if wish.asked == QUESTION else [f"# then choose perspective {letter_of(wish.asked)} in 'Search with'"]
        return "\n".join(["import berdslib as bd\n", *(f"{n} = {v!r}" for n, v in parameters.items()), opened, *side])

    @property
    def _names_judge(self) -> bool:
        return isinstance(self._judge, str) and not is_recorded(self._judge)

    def command(self, wish: Wish) -> str:
        """Return the shell command that writes these lists as a file, which opens at this question.

        Errors as :meth:`cell`.
        """
        self.cell(wish)
        words = ["berds", "explore", "-q", wish.corpus, "--split", "all", "-r", ",".join(wish.systems)]
        words += ["-k", str(wish.k), "--question", wish.qid]
        words += ["-j", str(self._judge)] if self._names_judge else []
        words += ["--aspect-judge", str(self._aspect_judge)] if self._aspect_judge != READER else []
        words += ["--depth", str(self._depth)] if self._depth != DEPTH else []
        return shlex.join([*words, "-o", "lists.html"])


def typed_question(text: str, perspectives: Sequence[str] = ()) -> Question:
    """Return a question that somebody typed; without perspectives it has the two sides that a rule finds, if any.

    Raises:
        InputError: the text is blank.
    """
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
    forms: dict[str, Callable[[], Sequence[Question]]] = {
        _QUESTIONS: lambda: collection.questions,
        _STATEMENTS: lambda: statements(collection).questions,
        _FULL: lambda: collection.queries,
    }
    return list(forms[form]())


def _expansions(collection: Collection, form: str) -> Mapping[str, Sequence[tuple[str, str]]]:
    return statements(collection).expansions if form == _STATEMENTS else collection.expansions


def _is_slow(system: System) -> bool:
    """Return whether something reads every candidate of every question, or a model is asked for each question."""
    asks = any(":" in value for value in system.values(*EXPANDING))
    return asks or system.uses_aspects or bool(system.values(CROSS))


def _no_verdicts() -> pd.DataFrame:
    return pd.DataFrame({"qid": [], "pid": [], "docno": [], "supports": pd.Series([], dtype=bool)})

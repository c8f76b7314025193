"""The searches and verdicts behind the explorer's requests; this module neither draws nor starts threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from berdslib.data.collection import Collection, check_corpus
from berdslib.data.corpus import by_docno
from berdslib.data.datasets import load
from berdslib.data.records import (
    OPPOSE,
    SUPPORT,
    Question,
    check_k,
    counted,
    make_verdicts,
    perspective_qid,
    ranked_run,
)
from berdslib.data.scenario import Handout
from berdslib.errors import BerdsError, InputError, known
from berdslib.evaluation.measures import parse_measures, score_questions
from berdslib.files import StrPath
from berdslib.judging.base import Judge, Pair, how_sure
from berdslib.judging.store import VerdictStore, judge_pairs, judge_run
from berdslib.retrieval.base import Retriever
from berdslib.retrieval.diversify import DIVERSIFIERS
from berdslib.retrieval.systems import CROSS, EXPANDING, PROJECTED, Workshop, parse_system
from berdslib.statements import two_sides
from berdslib.study.explorer.views import Listing, short_text, top_overlap, view_of, visible
from berdslib.study.scoring import (
    AnyJudge,
    Data,
    Store,
    Systems,
    check_readable,
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

READING_JUDGE = "laptop"  # the judge of unlabelled passages
TYPED = "typed"
DEPTH = 100  # default number of candidates that a diversifier chooses from
AS_ASKED = -1
_LONGEST = 600  # characters of a passage in a live list; an opened passage is sent in full
ALONE = "Searched alone: scores were divided by the largest score of this question, not of all questions."


class ViewRequest(NamedTuple):
    """A request for a view: a question, two systems and k.

    A question of the data has a ``qid``. A ``typed`` question has no qid; its ``perspectives`` are typed too, or () for
    the two sides that a rule derives. ``asked`` is -1 to search with the question, otherwise the index of the
    perspective to search with.
    """

    qid: str = ""
    typed: str = ""
    perspectives: tuple[str, ...] = ()
    asked: int = AS_ASKED
    systems: tuple[str, str] = ("bm25", "minilm")
    k: int = 5


class Session:
    """A collection to search and the runs made so far; the arguments are those of :func:`berdslib.explore`.

    All questions of the data are searched together, as in an experiment; a slow system searches each question alone.
    """

    def __init__(
        self,
        collection: Collection,
        *,
        judge: AnyJudge = None,
        own: Mapping[str, pd.DataFrame | Retriever] | None = None,
        aspect_judge: AnyJudge = READING_JUDGE,
        depth: int = DEPTH,
        recordings: StrPath | None = None,
        store: VerdictStore | None = None,
    ) -> None:
        name = collection.name
        if isinstance(collection, Handout):
            raise InputError(f"{name!r} is a scenario of PerspectiveArg; its groups cannot mark the explorer's lists")
        check_corpus(collection)
        self.collection = collection
        self.own = dict(own or {})
        self._passages = by_docno(collection.passages)
        self._judge = judge
        self._reader: Judge | None = None
        self._store = store or VerdictStore()
        self._workshop = workshop(
            collection,
            aspect_judge=partial(judge_of, aspect_judge, collection),
            store=self._store,
            depth=depth,
            recordings=None if recordings is None else Path(recordings).resolve(),
        )
        self._workshops: dict[tuple[ViewRequest, bool], Workshop] = {}
        self._runs: dict[ViewRequest, pd.DataFrame] = {}

    # ------------------------------------------------------------ requests

    def question(self, request: ViewRequest) -> Question:
        """Return the question of a request, with the perspectives against which its lists are judged."""
        if request.qid:
            by_qid = {question.qid: question for question in self.collection.questions}
            question = by_qid[known("question", request.qid, by_qid)]
        else:
            question = typed_question(request.typed, request.perspectives)
        if request.asked >= len(question.perspectives):
            raise InputError(f"the question has no perspective number {request.asked + 1}", field="asked")
        return question

    def is_recorded(self, request: ViewRequest) -> bool:
        """Return whether recorded verdicts mark the lists, which only questions of the data can have."""
        return bool(request.qid) and is_recorded(self._judge) and self.collection.gold is not None

    def problem_of(self, system: str) -> str:
        """Return the problem of a system string; "" if the string is valid."""
        try:
            self._is_slow(system)
        except InputError as error:
            return visible(str(error))
        return ""

    # ------------------------------------------------------------ views

    def render_steps(self, request: ViewRequest, *, longest: int = _LONGEST) -> Iterator[dict[str, Any]]:
        """Yield views of a request (:func:`~.views.view_of`), each more complete than the previous one.

        If a system cannot search, its list holds the problem.

        Raises:
            BerdsError: an invalid question, or a judge that fails.
        """
        question = self.question(request)
        name = self.collection.name
        invented = " (invented)" if name == "sample" else ""
        show = partial(
            view_of,
            question,
            passages=self._passages,
            k=request.k,
            asked="" if request.asked == AS_ASKED else question.perspectives[request.asked],
            searched=f"{counted(len(self._passages), 'passage')} loaded with the questions of {name}{invented}",
            longest=longest,
        )
        lists = [Listing(system) for system in request.systems]
        for place, system in enumerate(request.systems):
            if not self._is_ready(request, system):
                yield show(lists)
            lists[place] = self._listing(request, question, system)
        if self.is_recorded(request):
            yield show(lists, verdicts=self.collection.gold, judge="recorded verdicts", recorded=True)
            return
        docnos = list(dict.fromkeys(docno for listing in lists for docno in listing.docnos or ()))
        if not question.perspectives or not docnos:
            yield show(lists, verdicts=make_verdicts([], "nobody"))
            return
        yield show(lists)
        check_readable(Collection("shown", [question]))
        run = ranked_run({question.qid: docnos})
        verdicts = judge_run(run, [question], self._passages, self.reader, k=len(docnos), store=self._store)
        yield show(lists, verdicts=verdicts, judge=self._reader_name)

    def _is_ready(self, request: ViewRequest, system: str) -> bool:
        """Return whether a system's list, or its problem, is known without a search."""
        if isinstance(self.own.get(system), pd.DataFrame) or self.problem_of(system):
            return True
        return self._search_for(request, system) in self._runs

    def _listing(self, request: ViewRequest, question: Question, system: str) -> Listing:
        try:
            docnos = self._docnos(request, question, system)
        except BerdsError as error:
            return Listing(system, problem=str(error))
        alone = bool(request.qid and self._search_for(request, system).qid)
        weighed = alone and any(part.kind in DIVERSIFIERS for part in parse_system(system).parts)
        return Listing(system, docnos, note=ALONE if weighed else "")

    def _docnos(self, request: ViewRequest, question: Question, system: str) -> list[str]:
        finished = isinstance(self.own.get(system), pd.DataFrame)
        if finished and not request.qid:
            raise InputError("a finished run has lists for its own questions only; choose one of these")
        run = self.run(request, system)
        qid = question.qid if request.asked == AS_ASKED else perspective_qid(question.qid, request.asked)
        listed = run[(run["qid"] == qid) & (run["rank"] <= request.k)]
        if finished and listed.empty:
            raise InputError(f"the run has no list for {qid!r}")
        docnos: list[str] = listed["docno"].tolist()
        if unknown := [docno for docno in docnos if docno not in self._passages]:
            raise InputError(f"the run lists passage {unknown[0]!r}, which is not in the corpus")
        return docnos

    def passage_details(self, request: ViewRequest, docno: str) -> dict[str, Any]:
        """Return a passage in full, and for each perspective its label and the judge's opinion."""
        if docno not in self._passages:
            raise InputError(f"there is no passage {docno!r} in the corpus")
        passage = self._passages[docno]
        texts = {"docno": docno, "title": visible(passage.title), "text": visible(passage.text)}
        return texts | self.judge_passages(request, [docno])[docno]

    def judge_passages(self, request: ViewRequest, docnos: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return docno → the judge's opinion on each perspective, with the recorded label if there is one."""
        question = self.question(request)
        judge = self.reader
        places = [(docno, pid) for docno in docnos for pid in range(len(question.perspectives))]
        pairs = [Pair(question.qid, pid, self._passages[docno], question.perspectives[pid]) for docno, pid in places]
        p_yes = judge_pairs(judge, pairs, self._store)[0]
        labels: dict[tuple[str, int], bool] = {}
        labelled = self.is_recorded(request)
        if labelled and self.collection.gold is not None:
            gold = self.collection.gold
            rows = gold.loc[gold["qid"] == question.qid, ["docno", "pid", "supports"]]
            labels = {(docno, pid): supports for docno, pid, supports in rows.values.tolist()}
        about = {"judge": self._reader_name, "yes_from": round(float(judge.threshold), 4), "labelled": labelled}
        details: dict[str, dict[str, Any]] = {docno: about | {"opinions": []} for docno in docnos}
        for place, p, sure in zip(places, p_yes, how_sure(p_yes, judge.threshold), strict=True):
            opinion = {
                "p": round(float(p), 4),
                "says": bool(p >= judge.threshold),
                "sure": str(sure),
                "label": labels.get(place),
            }
            details[place[0]]["opinions"].append(opinion)
        return details

    def differences(self, request: ViewRequest) -> pd.DataFrame:
        """Return how the lists of the two systems differ for each question, the largest differences first.

        Frame with the index qid: text, MRecall and Coverage (right minus left), and overlap (:func:`top_overlap`).
        """
        questions = [question for question in self.collection.questions if question.perspectives]
        if not questions:
            raise InputError("no question has perspectives, so lists cannot be compared", field="perspectives")
        k = request.k
        whole = ViewRequest(questions[0].qid, systems=request.systems, k=k)
        runs = [self.run(whole, system, together=True) for system in request.systems]
        verdicts = self.collection.gold
        if verdicts is None or not self.is_recorded(whole):
            verdicts = judged(runs, self.collection.only(questions), self.reader, k, self._store)
        measures = parse_measures([f"MRecall@{k}", f"Coverage@{k}"])
        left, right = (score_questions(run, verdicts, questions, measures) for run in runs)
        table = (right - left).set_axis(["MRecall", "Coverage"], axis=1)
        lists, others = (run[run["rank"] <= k].groupby("qid")["docno"].agg(list).to_dict() for run in runs)
        table["overlap"] = [top_overlap(lists.get(qid, []), others.get(qid, []), k) for qid in table.index]
        table.insert(0, "text", [question.text for question in questions])
        size = table[["MRecall", "Coverage"]].abs()
        by_size = size.assign(unlike=1 - table["overlap"]).sort_values([*size, "unlike"], ascending=False)
        return table.loc[by_size.index]

    def labelled_questions(self, request: ViewRequest) -> list[list[str]]:
        """Return the qid of each question, and its text followed by the :meth:`differences` of its lists."""
        rows = []
        for qid, row in self.differences(request).iterrows():
            changes = [f"{name} {100 * row[name]:+.1f}" for name in ("MRecall", "Coverage") if row[name]]
            told = ", ".join([*changes, f"{row['overlap']:.1%} alike"])
            rows.append([str(qid), f"{short_text(row['text'])} [{told}]"])
        return rows

    # ------------------------------------------------------------ searching

    def run(self, request: ViewRequest, system: str, *, together: bool = False) -> pd.DataFrame:
        """Return the run with a system's list for a request; `together` searches all questions of the data at once."""
        own = self.own.get(system)
        if isinstance(own, pd.DataFrame):
            return own
        search = self._search_for(request, system, together)
        if search not in self._runs:
            self._runs[search] = self._search(search)
        return self._runs[search]

    def _search_for(self, request: ViewRequest, system: str, together: bool = False) -> ViewRequest:
        """Return the request with only the fields that change the run; qid "" stands for all questions of the data."""
        search = request._replace(systems=(system, ""), asked=min(request.asked, 0))
        whole = search._replace(qid="")
        if request.qid and (together or whole in self._runs or not self._is_slow(system)):
            return whole
        return search

    def _is_slow(self, system: str) -> bool:
        """Return whether a system judges or re-ranks every candidate, or calls a chat model for every question."""
        if system in self.own:
            return False
        parsed = parse_system(system)
        asks_model = any(":" in value for value in parsed.values(*EXPANDING))
        return asks_model or parsed.uses_aspects or bool(parsed.values(CROSS))

    def _search(self, search: ViewRequest) -> pd.DataFrame:
        system = search.systems[0]
        own = self.own.get(system)
        projects = own is None and any(part.kind in PROJECTED for part in parse_system(system).parts)
        place = search._replace(systems=("", ""), k=0), projects
        if place not in self._workshops:
            self._workshops[place] = self._workshop.beside(self._searched(search, projects))
        shop = self._workshops[place]
        retriever = shop.make([system])[system] if own is None else own
        assert not isinstance(retriever, pd.DataFrame)  # a finished run needs no search
        # A projection removes the perspective from a full query, which contains it.
        full = projects and search.asked != AS_ASKED
        return retriever.search(shop.collection.queries if full else shop.collection.questions, search.k)

    def _searched(self, search: ViewRequest, projects: bool) -> Collection:
        """Return the collection to search with; its questions may be statements, as in :func:`bd.sides`."""
        collection = self.collection
        if search.typed:
            collection = replace(collection, questions=[self.question(search)], gold=None, expansions={})
        elif search.qid:
            collection = collection.only([self.question(search)])
        return collection if projects or search.asked == AS_ASKED else statements(collection)

    # ------------------------------------------------------------ judging

    @property
    def reader(self) -> Judge:
        """The judge of unlabelled passages."""
        if self._reader is None:
            self._reader = judge_of(READING_JUDGE if is_recorded(self._judge) else self._judge, self.collection)
        return self._reader

    @property
    def _reader_name(self) -> str:
        if is_recorded(self._judge):
            return READING_JUDGE
        return self._judge if isinstance(self._judge, str) else self.reader.id


def session_for(
    data: Data,
    systems: Systems,
    *,
    question: str | None = None,
    k: int = 5,
    store: Store = None,
    **options: Any,
) -> tuple[Session, ViewRequest]:
    """Return a session and its first request; arguments and errors are those of :func:`berdslib.explore`."""
    check_k(k)
    named = named_systems(systems)
    if len(named) != 2:
        raise InputError(f"expected two systems, got {len(named)}", field="systems")
    # A reader may look up any question, so a name loads the questions of all splits.
    collection = load(data, split="all") if isinstance(data, str | Path) else collection_of(data)
    own: dict[str, pd.DataFrame | Retriever] = {}
    texts = []
    for name, given in named.items():
        system: str | pd.DataFrame | Retriever
        system = given if isinstance(given, pd.DataFrame) else over_passages(given, name, collection)
        if isinstance(system, str):
            texts.append(system)
        else:
            texts.append(name)
            own[name] = system
    left, right = texts
    qids = [question.qid for question in collection.questions]
    qid = qids[0] if question is None else known("question", question, qids)
    session = Session(collection, own=own, store=store_of(store), **options)
    return session, ViewRequest(qid, systems=(left, right), k=k)


def typed_question(text: str, perspectives: Sequence[str] = ()) -> Question:
    """Return a typed question; without perspectives it gets the two sides that :func:`two_sides` derives, if any."""
    text = " ".join(text.split())
    if not text:
        raise InputError("type a question first", field="question")
    if perspectives:
        return Question(TYPED, text, tuple(perspectives))
    sides = two_sides(text)
    return Question(TYPED, text, sides, (SUPPORT, OPPOSE)) if sides else Question(TYPED, text)

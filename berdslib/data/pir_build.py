"""Building the six PIR tasks from the data sets they come from (PIR section 2.2 and appendix A.2).

Each builder reads its source's own format and returns a task in which every root query has at least two perspectives
and no text is gold from two perspectives of one root; where the source breaks this, an error says so. The wordings of
the queries are our own. Where the release repeats a query, each time with another gold text, ours asks once and accepts
any of them. Every text of the source that a query could be about stays in the corpus.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from berdslib.data.pir import PirQuery, PirTask, check_pir, passages_of, places, read_json
from berdslib.data.tables import number, read_table, text_field, text_list
from berdslib.errors import InputError, known
from berdslib.files import StrPath
from berdslib.llm.chat import ChatModel

logger = logging.getLogger(__name__)


class Wording(NamedTuple):
    """How a perspective is put: ``perspective`` alone, and ``query`` with {root} (and {value}, where it has one)."""

    perspective: str
    query: str


class Asked(NamedTuple):
    """One query to be: its root, how and under which label it is asked, and the texts that answer it."""

    root: str
    perspective: str
    query: str
    label: str
    gold: tuple[str, ...]


STANCES = {
    "support": Wording("claims that speak for it", "Which claims speak for this position: {root}"),
    "undermine": Wording("claims that speak against it", "Which claims speak against this position: {root}"),
    "general": Wording("claims that bear on it", "Which claims bear on this position: {root}"),
}
LEANINGS = {
    "left": Wording("reported by the left-leaning press", "What does the left-leaning press report on {root}?"),
    "center": Wording("reported by the press of the centre", "What does the press of the centre report on {root}?"),
    "right": Wording("reported by the right-leaning press", "What does the right-leaning press report on {root}?"),
}
EVIDENCE = {
    "support": Wording("a statement that follows from it", "Which statement is borne out by this: {root}"),
    "refute": Wording("a statement that it contradicts", "Which statement is contradicted by this: {root}"),
    "not enough info": Wording(
        "a statement that it leaves open", "Which statement on the same matter is left open by this: {root}"
    ),
}
SIMILARITIES = {
    "analogy": Wording(
        "a story that runs alike elsewhere", "Which story runs along the same lines as this one: {root}"
    ),
    "entities": Wording("a story of the same things", "Which story is about the same things as this one: {root}"),
}
NEWS = {
    "topic": Wording("from the same place, on {value}", "Which news on {value} comes from the place of this: {root}"),
    "location": Wording("on the same topic, from {value}", "Which news from {value} is on the topic of this: {root}"),
}


# ---------------------------------------------------------------- what all tasks share


def assemble(name: str, asked: Iterable[Asked], others: Iterable[str] = (), *, check: bool = True) -> PirTask:
    """Make a task of what is to be asked; ids are places, and a text that occurs twice is kept once.

    Args:
        name: the task's name.
        asked: the queries to be; those with the same root are perspectives of each other.
        others: further texts to search, gold of nothing.
        check: apply :func:`check_perspectives`.

    Raises:
        InputError: nothing is asked, or what :func:`check_perspectives` finds.
    """
    asked = list(asked)
    texts = list(dict.fromkeys([text for a in asked for text in a.gold] + list(others)))
    docno = dict(zip(texts, places(len(texts)), strict=True))
    queries = tuple(
        PirQuery(str(i), a.query, a.root, a.perspective, tuple(dict.fromkeys(docno[t] for t in a.gold)), a.label)
        for i, a in enumerate(asked)
    )
    task = check_pir(PirTask(name, queries, passages_of(texts)))
    return check_perspectives(task) if check else task


def check_perspectives(task: PirTask) -> PirTask:
    """Return a task unchanged if every root has two perspectives or more, and no text is gold from two of them.

    Raises:
        InputError: a root with a single perspective, or a text that is gold for two queries of one root.
    """
    by_root: dict[str, list[PirQuery]] = defaultdict(list)
    for q in task.queries:
        by_root[q.root].append(q)
    for root, queries in by_root.items():
        if len({q.perspective for q in queries}) < 2:
            raise InputError(f"the root {_short(root)!r} has a single perspective; two are needed", field="perspective")
        owner: dict[str, PirQuery] = {}
        for q in queries:
            for docno in q.gold:
                other = owner.setdefault(docno, q)
                if other is not q:
                    problem = f"text {docno!r} is gold for {_short(other.text)!r} and for {_short(q.text)!r}"
                    raise InputError(f"{problem}; perspectives of one root must exclude each other", field="gold")
    return task


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _ask(wordings: Mapping[str, Wording], label: str, root: str, gold: Sequence[str], value: str = "") -> Asked:
    wording = wordings[label]
    perspective, query = (_fill(part, root, value) for part in wording)
    return Asked(root, perspective, query, value or label, tuple(gold))


def _fill(wording: str, root: str, value: str) -> str:
    """Replace both placeholders at once, so that a brace in a text is never read as one."""
    return re.sub(r"\{(root|value)\}", lambda match: root if match[1] == "root" else value, wording)


def _ask_sides(
    wordings: Mapping[str, Wording], sides: Mapping[str, Mapping[str, Sequence[str]]], balance: bool
) -> Iterator[Asked]:
    """Yield a query for each perspective of each root (root → label → texts) that has two or more."""
    for root, by_label in sides.items():
        if len(by_label) < 2:
            continue
        n = min(len(texts) for texts in by_label.values()) if balance else None
        for label in sorted(by_label, key=list(wordings).index):
            yield _ask(wordings, label, root, by_label[label][:n])
    alone = sum(len(by_label) < 2 for by_label in sides.values())
    if alone:
        logger.info("%d of %d roots were left out: they have a single perspective", alone, len(sides))


def _rows(path: StrPath) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line, row) of a table, or of a .json file that holds a list of objects (line = place from 1)."""
    if not str(path).endswith(".json"):
        yield from read_table(path)
        return
    found = read_json(path)
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise InputError("a list of objects was expected", path=path)
    yield from enumerate(found, start=1)


# ---------------------------------------------------------------- Perspectrum


def build_perspectrum(
    folder: StrPath, *, split: str | None = None, balance: bool = True, clusters: bool = False
) -> PirTask:
    """Build the Perspectrum task: claims that support or undermine a claim (Chen et al., 2019).

    Args:
        folder: holds perspectrum_with_answers_v1.0.json, perspective_pool_v1.0.json, and dataset_split_v1.0.json where
            a split is asked for.
        split: "train", "dev" or "test"; None for all.
        balance: as many texts for as against, the first of each claim; the others are left out of the corpus, unless
            another claim needs them.
        clusters: the release's own layout instead (of its 2,773 texts the 2,574 different ones are kept): one query for
            each cluster of texts, and one "general" query a claim for all of them, so that one query text has many
            gold lists, which overlap. On the test split that gives the 1,431 queries of PIR table 1.

    Raises:
        InputError: a file or field that is missing or of another form, an unknown split, or a text both for and
            against one claim.
    """
    folder = Path(folder)
    claims_path, pool_path = folder / "perspectrum_with_answers_v1.0.json", folder / "perspective_pool_v1.0.json"
    pool = {
        text_field(row, ("pId",), pool_path, line): text_field(row, ("text",), pool_path, line, default="").strip()
        for line, row in _rows(pool_path)
    }
    chosen = _claims_of(folder / "dataset_split_v1.0.json", split)
    stances: dict[str, dict[str, list[str]]] = {}
    asked: list[Asked] = []
    for line, claim in _rows(claims_path):
        if chosen is not None and text_field(claim, ("cId",), claims_path, line) not in chosen:
            continue
        root = text_field(claim, ("text",), claims_path, line).strip()
        found = list(_clusters(claim, pool, claims_path, line))
        for label, texts in found:
            stances.setdefault(root, {}).setdefault(label, []).extend(texts)
        if clusters and found:
            asked += [_ask(STANCES, label, root, texts) for label, texts in found]
            asked.append(_ask(STANCES, "general", root, [text for _, texts in found for text in texts]))
    if clusters:
        return assemble("perspectrum", asked, check=False)
    distinct = {r: {label: list(dict.fromkeys(t)) for label, t in sides.items()} for r, sides in stances.items()}
    return assemble("perspectrum", _ask_sides(STANCES, distinct, balance))


def _clusters(
    claim: Mapping[str, Any], pool: Mapping[str, str], path: Path, line: int
) -> Iterator[tuple[str, list[str]]]:
    """Yield (stance, texts) of each cluster of a claim's perspectives."""
    clusters = claim.get("perspectives")
    if not isinstance(clusters, list) or not all(isinstance(c, dict) for c in clusters):
        raise InputError("a list of clusters was expected", path=path, line=line, field="perspectives")
    for cluster in clusters:
        label = text_field(cluster, ("stance_label_3",), path, line).lower()
        if label not in ("support", "undermine"):
            problem = f"{label!r} is no stance; accepted: SUPPORT, UNDERMINE"
            raise InputError(problem, path=path, line=line, field="stance_label_3")
        pids = cluster.get("pids")
        stray = [pid for pid in pids if str(pid) not in pool] if isinstance(pids, list) else [pids]
        if stray:
            raise InputError(f"{stray[0]!r} is not in the pool", path=path, line=line, field="pids")
        texts = [pool[str(pid)] for pid in pids or () if pool[str(pid)]]  # a few texts of the pool are blank
        if texts:
            yield label, texts


def _claims_of(path: Path, split: str | None) -> set[str] | None:
    if split is None:
        return None
    splits = read_json(path)
    if not isinstance(splits, dict):
        raise InputError("an object claim → split was expected", path=path)
    known("split", split, {str(s) for s in splits.values()})
    return {str(claim) for claim, of in splits.items() if of == split}


# ---------------------------------------------------------------- AmbigQA


def build_ambigqa(path: StrPath, evidence: Mapping[str, str] | None = None) -> PirTask:
    """Build the AmbigQA task: for each reading of an ambiguous question, the text that answers it (Min et al., 2020).

    The perspective of a reading is the reading itself, as in the release: the words that tell it from its root are
    often spread over the sentence.

    Args:
        path: JSON (a list) or JSONL: rows with `question` and `annotations`, of which those of type "multipleQAs" have
            `qaPairs`: [{"question", "answer": [...]}].
        evidence: reading → the text that answers it. None takes the first search result that holds one of the answers
            from the `used_queries` of the full release; the light one has none.

    Raises:
        InputError: a field that is missing or of another form, no evidence anywhere, or one text for two readings.
    """
    asked: list[Asked] = []
    others: list[str] = []
    without = 0
    for line, row in _rows(path):
        root = text_field(row, ("question",), path, line)
        snippets = _snippets(row, path, line) if evidence is None else []
        others += snippets
        readings: dict[str, str] = {}
        for reading, answers in _readings(row, path, line):
            text = evidence.get(reading) if evidence is not None else _holding(answers, snippets, readings)
            if text and reading not in readings:
                readings[reading] = text
            else:
                without += not text
        if len(readings) > 1:
            asked += [Asked(root, reading, reading, "reading", (text,)) for reading, text in readings.items()]
    if without:
        logger.info("%d readings were left out: no text was found that answers them", without)
    if not asked:
        problem = "no question has two readings with evidence; the light release needs it as an argument"
        raise InputError(problem, path=path, field="used_queries" if evidence is None else "annotations")
    return assemble("ambigqa", asked, others)


def _readings(row: Mapping[str, Any], path: StrPath, line: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    annotations = row.get("annotations")
    if not isinstance(annotations, list) or not all(isinstance(a, dict) for a in annotations):
        raise InputError("a list of annotations was expected", path=path, line=line, field="annotations")
    several = [a for a in annotations if a.get("type") == "multipleQAs"]
    if not several:
        return
    pairs = several[0].get("qaPairs")  # annotators differ; the first one is taken
    if not isinstance(pairs, list) or not all(isinstance(p, dict) for p in pairs):
        raise InputError("a list of questions with answers was expected", path=path, line=line, field="qaPairs")
    for pair in pairs:
        yield text_field(pair, ("question",), path, line), text_list(pair, "answer", path, line)


def _snippets(row: Mapping[str, Any], path: StrPath, line: int) -> list[str]:
    used = row.get("used_queries", [])
    searches = used if isinstance(used, list) else [used]
    results = [result for search in searches for result in _results(search)]
    if not all(isinstance(result, dict) for result in results):
        raise InputError("a list of {query, results} was expected", path=path, line=line, field="used_queries")
    return list(dict.fromkeys(text_field(result, ("snippet",), path, line) for result in results))


def _results(search: object) -> list[Any]:
    """Return the results of one search; [None], which no caller takes, if it has no list of them."""
    found = search.get("results") if isinstance(search, dict) else None
    return found if isinstance(found, list) else [None]


def _holding(answers: Sequence[str], snippets: Sequence[str], taken: Mapping[str, str]) -> str | None:
    """Return the first snippet that holds an answer, as whole words, and is not another reading's evidence."""
    patterns = [re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)", re.IGNORECASE) for answer in answers]
    free = (s for s in snippets if s not in taken.values())
    return next((s for s in free if any(p.search(s) for p in patterns)), None)


# ---------------------------------------------------------------- AllSides


def build_allsides(path: StrPath, *, balance: bool = True) -> PirTask:
    """Build the AllSides task: news on a topic from the left, the centre or the right (Baly et al., 2020).

    Args:
        path: JSON (a list), JSONL, CSV or TSV, or a folder of JSON files with an article each, as published. Fields
            `topic`, `content`, and `bias_text` ("left", "center", "right") or `bias` (0, 1, 2, or those words).
        balance: as many articles from each side, the first of each topic; the others are left out of the corpus.

    Raises:
        InputError: a field that is missing or of another form, or an article that is listed under two leanings.
    """
    sides: dict[str, dict[str, dict[str, None]]] = {}
    for file, line, row in _articles(Path(path)):
        topic, content = (text_field(row, (field,), file, line) for field in ("topic", "content"))
        given = text_field(row, ("bias_text", "bias"), file, line).lower()
        label = {"0": "left", "1": "center", "2": "right"}.get(given, given)
        if label not in LEANINGS:
            problem = f"{given!r} is no leaning; accepted: {', '.join(LEANINGS)}, or 0, 1, 2"
            raise InputError(problem, path=file, line=line, field="bias_text")
        sides.setdefault(topic.strip(), {}).setdefault(label, {})[content] = None
    texts = {topic: {label: list(found) for label, found in by_label.items()} for topic, by_label in sides.items()}
    return assemble("allsides", _ask_sides(LEANINGS, texts, balance))


def _articles(path: Path) -> Iterator[tuple[Path, int, dict[str, Any]]]:
    if not path.is_dir():
        yield from ((path, line, row) for line, row in _rows(path))
        return
    files = sorted(path.glob("*.json"))
    if not files:
        raise InputError("holds no JSON files", path=path)
    for file in files:
        row = read_json(file)
        if not isinstance(row, dict):
            raise InputError("an object with one article was expected", path=file)
        yield file, 1, row


# ---------------------------------------------------------------- Ex-FEVER


def build_exfever(path: StrPath, *, least_overlap: float = 0.5) -> PirTask:
    """Build the Ex-FEVER task: claims that an explanation bears out, contradicts or leaves open (Ma et al., 2023).

    The source does not say which claims are versions of one another. Here each supported claim, in the order of the
    file, takes the most similar claim of either other label that is still free, similarity being the share of words in
    common (of the words in either). The root is the explanation of the supported claim.

    Args:
        path: CSV, TSV or JSONL with the columns claim, explanation, label (SUPPORT, REFUTE, NOT ENOUGH INFO).
        least_overlap: 0 to 1, how similar two versions must at least be. Low values put claims on other matters under
            a root, which any retriever tells apart.

    Raises:
        InputError: a missing column, another label, or no two claims that are versions of one another.
    """
    claims: dict[str, list[str]] = {label: [] for label in EVIDENCE}
    explanation: dict[str, str] = {}
    for line, row in read_table(path):
        claim, why = (text_field(row, (field,), path, line) for field in ("claim", "explanation"))
        label = text_field(row, ("label",), path, line).lower()
        if label not in EVIDENCE:
            problem = f"{label!r} is no label; accepted: {', '.join(EVIDENCE)}"
            raise InputError(problem, path=path, line=line, field="label")
        if claim not in explanation:
            explanation[claim] = why
            claims[label].append(claim)
    supported = claims["support"]
    versions = {label: _versions(supported, claims[label], least_overlap) for label in ("refute", "not enough info")}
    sides: dict[str, dict[str, list[str]]] = {}
    for i, claim in enumerate(supported):
        by_label = {"support": [claim]} | {label: [at[i]] for label, at in versions.items() if i in at}
        if len(by_label) > 1 and explanation[claim] not in sides:
            sides[explanation[claim]] = by_label
    if not sides:
        raise InputError("no supported claim has a version with another label", path=path, field="claim")
    return assemble("exfever", _ask_sides(EVIDENCE, sides, balance=False), explanation)


def _versions(claims: Sequence[str], others: Sequence[str], least: float) -> dict[int, str]:
    """Return for claims, by place, the most similar of the others, each of which is given away once."""
    if not claims or not others:
        return {}
    free = np.ones(len(others), dtype=bool)
    found = {}
    for i, row in enumerate(_word_overlap(claims, others)):
        best = int(np.argmax(np.where(free, row, -1.0)))
        if free[best] and row[best] >= least:
            found[i], free[best] = others[best], False
    return found


def _word_overlap(left: Sequence[str], right: Sequence[str]) -> Iterator[np.ndarray]:
    """Yield for each text on the left the Jaccard similarity of its set of words to all on the right, 0 to 1."""
    from scipy.sparse import csr_matrix

    words = [set(re.findall(r"\w+", text.lower())) for text in (*left, *right)]
    vocabulary = {word: i for i, word in enumerate(sorted(set().union(*words)))}
    columns = [vocabulary[word] for found in words for word in found]
    starts = np.cumsum([0, *(len(found) for found in words)])
    holds = csr_matrix((np.ones(len(columns)), columns, starts), shape=(len(words), len(vocabulary)))
    sizes, n = np.diff(starts), len(left)
    transposed = holds[n:].T.tocsr()
    for start in range(0, n, 500):  # in blocks: all pairs of 20,000 claims would not fit into memory
        block = slice(start, min(start + 500, n))
        common = (holds[block] @ transposed).toarray()
        yield from common / np.maximum(sizes[block, None] + sizes[None, n:] - common, 1)


# ---------------------------------------------------------------- StoryAnalogy


def build_story(path: StrPath, similar: Callable[[str], str], *, n: int = 1000) -> PirTask:
    """Build the StoryAnalogy task: stories that run alike, or are about the same things (Jiayang et al., 2023).

    Args:
        path: CSV, TSV or JSONL with the columns s1, s2 (or story1, story2) and the mean ratings EntSim and RelSim, how
            alike the entities and the relations of the two stories are.
        similar: story → another story about its entities; the authors had a language model write them, as
            :func:`similar_by` does.
        n: how many pairs, those with the largest RelSim - EntSim.

    Raises:
        InputError: a missing column, a rating that is no number, no pairs, or a story similar to itself.
    """
    rated = []
    for line, row in read_table(path):
        story, analogue = (text_field(row, fields, path, line) for fields in (("s1", "story1"), ("s2", "story2")))
        entities, relations = (number(row.get(field), path, line, field) for field in ("EntSim", "RelSim"))
        rated.append((relations - entities, story, analogue))
    rated.sort(key=lambda pair: -pair[0])  # stable: of equally good pairs the first in the file comes first
    pairs: dict[str, str] = {}
    for _, story, analogue in rated:
        if len(pairs) < n:
            pairs.setdefault(story, analogue)
    asked = []
    for story, analogue in pairs.items():
        alike = similar(story).strip()
        if alike in ("", story):
            raise InputError(f"the story similar to {_short(story)!r} is {_short(alike)!r}", field="similar")
        asked += [_ask(SIMILARITIES, "analogy", story, [analogue]), _ask(SIMILARITIES, "entities", story, [alike])]
    return assemble("story", asked)


def similar_by(model: ChatModel) -> Callable[[str], str]:
    """Return a function that has a chat model write a story about the entities of another."""
    task = (
        "Write a new story of about the same length that has the same subject and the same people and things in it, "
        "but in which something else happens. Reply with the story alone.\n\nStory: "
    )
    return lambda story: model.complete([{"role": "user", "content": task + story}]).text


# ---------------------------------------------------------------- AGNews


def build_agnews(path: StrPath, *, kinds: Sequence[str] = ("topic", "location"), per_kind: int = 1) -> PirTask:
    """Build the AGNews task: news like a given one, but on another topic or from another place.

    The articles are synthetic, each written to a topic, a place and a style (Yu et al., 2023b). For a topic query the
    gold text is the one article with the same place and style and that topic; for a location query, the one with the
    same topic and style from there. Combinations with several articles are never asked for. All articles are searched,
    the given one too.

    Args:
        path: JSON (a list), JSONL, CSV or TSV with `text`, and `topic` (or `subtopics`, `subtopic`), `location` and
            `style`, each in the row itself or in its `attributes`.
        kinds: which of "topic" and "location" are asked; with one of them alone, `per_kind` must not be 1.
        per_kind: how many queries of a kind an article gets at most, in the order of the file; 0 = all. An article that
            is left with fewer than two perspectives is no root.

    Returns:
        The task; a query's label is the topic or place that it asks for.

    Raises:
        InputError: a missing field, an unknown kind, or no article with two perspectives.
    """
    for kind in kinds:
        known("kind of perspective", kind, NEWS)
    articles = list(dict.fromkeys(_news(path)))
    asked = []
    for article, found in zip(articles, _neighbours(articles, kinds), strict=True):
        taken = [(kind, to) for kind in kinds for to in found[kind][: per_kind or None]]
        if len(taken) > 1:
            asked += [_ask(NEWS, kind, article.text, [to.text], getattr(to, kind)) for kind, to in taken]
    if not asked:
        raise InputError("no article has two perspectives", path=path, field=", ".join(kinds))
    return assemble("agnews", asked, (article.text for article in articles))


def agnews_groups(path: StrPath, task: PirTask, kind: str = "location") -> dict[str, str]:
    """Return docno → place (or topic) of every article in a task built from the same file; see evaluation.bias.

    Raises:
        InputError: an unknown kind, a missing field, or an article of the task that is not in the file.
    """
    known("kind of perspective", kind, NEWS)
    of_text = {article.text: getattr(article, kind) for article in _news(path)}
    stray = [p.docno for p in task.passages if p.text not in of_text]
    if stray:
        raise InputError(f"holds no article for passage {stray[0]!r}; was the task built from it?", path=path)
    return {p.docno: of_text[p.text] for p in task.passages}


class _Article(NamedTuple):
    text: str
    topic: str
    location: str
    style: str


def _news(path: StrPath) -> Iterator[_Article]:
    for line, row in _rows(path):
        inner = row.get("attributes", {})
        if not isinstance(inner, dict):
            raise InputError("an object of attributes was expected", path=path, line=line, field="attributes")
        given = row | inner
        names = (("text",), ("topic", "subtopics", "subtopic"), ("location",), ("style",))
        yield _Article(*(text_field(given, fields, path, line).strip() for fields in names))


def _neighbours(articles: Sequence[_Article], kinds: Sequence[str]) -> Iterator[dict[str, list[_Article]]]:
    """Yield for each article, by kind, those that differ from it in that attribute alone and in it from each other."""
    held: dict[str, dict[tuple[str, ...], dict[str, list[_Article]]]] = {}
    for kind in kinds:
        held[kind] = defaultdict(lambda: defaultdict(list))
        for article in articles:
            held[kind][_rest(article, kind)][getattr(article, kind)].append(article)
    for article in articles:
        yield {
            kind: [
                same[0]
                for value, same in held[kind][_rest(article, kind)].items()
                if value != getattr(article, kind) and len(same) == 1
            ]
            for kind in kinds
        }


def _rest(article: _Article, kind: str) -> tuple[str, ...]:
    return tuple(value for name, value in article._asdict().items() if name not in ("text", kind))

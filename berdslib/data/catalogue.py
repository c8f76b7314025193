"""The cards of the data sets: what each is, where it comes from, under which licence, where its files may lie."""

from __future__ import annotations

from dataclasses import dataclass

from berdslib.errors import known


@dataclass(frozen=True)
class RemoteFile:
    """A file on the web.

    Args:
        url: its http or https address.
        sha256: its checksum, None where none is on record.
        bytes: its size, None where none is on record.
    """

    url: str
    sha256: str | None = None
    bytes: int | None = None

    @property
    def name(self) -> str:
        """The last part of the address: the name of the file in the cache."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Dataset:
    """One data set.

    Args:
        name: what it is called everywhere.
        title: what it is, in one line.
        paper: "berds", "pir" or "perspectivearg"; "support" if it stands beside them.
        kind: "questions", "passages", "both" or "pairs" (of texts, with labels).
        source: web page or repository of its makers.
        licence: as its makers state it.
        size: in words.
        files: what `fetch` downloads.
        hf_repo: data set repository on Hugging Face.
        splits: those it has; () = it is not split.
        local: paths of its files, relative to BERDS_DATA; the first that is there is taken.
        passages: those among `local` that hold passages.
        loaders: names of the functions in berdslib.data.datasets that read it.
        how: how to get it where no command can.
        note: what a user should know before using it.
    """

    name: str
    title: str
    paper: str
    kind: str
    source: str
    licence: str
    size: str
    files: tuple[RemoteFile, ...] = ()
    hf_repo: str | None = None
    splits: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    loaders: tuple[str, ...] = ()
    how: str = ""
    note: str = ""

    @property
    def fetchable(self) -> bool:
        """Whether `fetch` has something to download."""
        return bool(self.files or self.hf_repo)


# ---------------------------------------------------------------- BeRDS

_BERDS_FILES = "https://raw.githubusercontent.com/timchen0618/berds/HEAD/query_exp/data/"  # HEAD: the default branch

# Questions are numbered through, the test split first: the recorded dev rows say so (BeRDS Table 1 has the sizes).
DEV_STARTS_AT = {"arguana": 750, "kialo": 774, "opinionqa": 882}

EXPANSIONS = {
    "arguana": "arguana_generated_query_exp.dev.jsonl",
    "kialo": "kialo_query_exp.dev.jsonl",
    "opinionqa": "opinionqa_query_exp.dev.jsonl",
}


def _berds(name: str, repo: str, title: str, size: str) -> Dataset:
    return Dataset(
        name=name,
        title=title,
        paper="berds",
        kind="questions",
        source="https://timchen0618.github.io/berds/ and github timchen0618/berds",
        licence="none stated; research use",
        size=size,
        files=(RemoteFile(_BERDS_FILES + EXPANSIONS[name]),),
        hf_repo=f"timchen0618/{repo}",
        splits=("dev", "test"),
        local=(f"berds/{name}.dev.jsonl", f"berds/{name}.test.jsonl", f"berds/{EXPANSIONS[name]}"),
        loaders=("load_questions", "load_expansions"),
        note=(
            "The file of recorded query expansions (GPT-4, dev split only) repeats the dev questions and stands in for "
            "them where the official file is absent; it may hold fewer of them than the paper counts. Which "
            "perspective supports and which opposes is not recorded."
        ),
    )


_BERDS = (
    Dataset(
        name="sample",
        title="Two dozen questions with passages, gold verdicts and expansions, written for this project",
        paper="support",
        kind="both",
        source="shipped with berdslib (data/sample)",
        licence="Apache-2.0",
        size="24 questions, 373 passages, 907 verdicts (data/README.md)",
        splits=("dev", "test"),
        loaders=("load_questions", "load_passages", "load_gold", "load_expansions"),
        note="For learning and testing. Not a benchmark: no number measured on it says anything about a published one.",
    ),
    _berds(
        "arguana",
        "Arguana",
        "BeRDS questions made from pairs of counter-arguments (ArguAna), two perspectives each",
        "1,000 questions (250 dev, 750 test), 2.0 perspectives of 12.71 words (BeRDS Table 1)",
    ),
    _berds(
        "kialo",
        "Kialo",
        "BeRDS questions from the debate platform kialo.com, 9% of them with more than two perspectives",
        "1,032 questions (258 dev, 774 test), 2.9 perspectives of 12.49 words (BeRDS Table 1)",
    ),
    _berds(
        "opinionqa",
        "OpinionQA",
        "BeRDS questions made from survey questions of the Pew American Trends Panel, two perspectives each",
        "1,176 questions (294 dev, 882 test), 2.0 perspectives of 16.51 words (BeRDS Table 1)",
    ),
    Dataset(
        name="wikipedia",
        title="Wikipedia, December 2018, cut into 100-word passages (psgs_w100, the DPR dump)",
        paper="berds",
        kind="passages",
        source="github facebookresearch/DPR",
        licence="text CC-BY-SA 3.0 (Wikipedia)",
        size="21,015,324 passages; 4.7 GB compressed, about 14 GB unpacked",
        files=(RemoteFile("https://dl.fbaipublicfiles.com/dpr/wikipedia_split/psgs_w100.tsv.gz", bytes=4_694_541_059),),
        local=("wikipedia/psgs_w100.tsv.gz", "wikipedia/psgs_w100.tsv"),
        passages=("wikipedia/psgs_w100.tsv.gz", "wikipedia/psgs_w100.tsv"),
        loaders=("load_passages", "passage_file"),
        note=(
            "Too large for a list in memory: give a limit, or stream it with iter_passages(passage_file(name)). "
            "Its passages do not name their article but by the title: berds corpus stats wikipedia --documents title."
        ),
    ),
    Dataset(
        name="sphere",
        title="Sphere, a snapshot of the web (a part of CCNet) cut into 100-word passages",
        paper="berds",
        kind="passages",
        source="https://github.com/facebookresearch/Sphere",
        licence="see its source page",
        size="906 M passages of 134 M documents (BeRDS Table 2)",
        local=("sphere/sphere.jsonl.gz", "sphere/sphere.jsonl"),
        passages=("sphere/sphere.jsonl.gz", "sphere/sphere.jsonl"),
        loaders=("load_passages", "passage_file"),
        how="Follow its source page (hundreds of gigabytes); put its passages at one of the paths looked for.",
        note="Columns id, text (or raw), title. Too large for a list in memory: give a limit, or stream it.",
    ),
    Dataset(
        name="google-search",
        title="The first hundred web pages that a search engine returns for a question, cut into 100-word passages",
        paper="berds",
        kind="passages",
        source="a search engine, through an API such as https://serper.dev/",
        licence="that of each page; not to be passed on",
        size="4,461.7 passages of 74.2 pages for a question, on average (BeRDS Table 2)",
        how="There is nothing to download: it is built anew for each question, and differs from day to day.",
    ),
    Dataset(
        name="pers-det",
        title="(document, perspective) pairs labelled by people: does the document support the perspective?",
        paper="berds",
        kind="pairs",
        source="github timchen0618/berds, perspective_detection/data",
        licence="none stated; research use",
        size="542 pairs, 16.8% positive (BeRDS section 5); the half in BERDS_DATA: 274 pairs, 45 positive",
        local=("berds/pers_det.half.tsv",),
        how="Take it from its source page.",
        note="FOR MEASURING ONLY: never train on it, tune a threshold on it or choose a prompt by it.",
    ),
)

# ---------------------------------------------------------------- PIR


def _pir(task: str, title: str, size: str, note: str = "") -> Dataset:
    return Dataset(
        name=f"pir-{task}",
        title=title,
        paper="pir",
        kind="both",
        source="github colinzhaoust/pir",
        licence="Apache-2.0 (repository); the data that it was made from has its own",
        size=size,
        hf_repo=f"trumancai/perspective-information-retrieval-{task}",
        local=(f"pir/{task}",),
        note=f"Read by berdslib.data.pir.load_pir. {note}".strip(),
    )


_PIR = (
    _pir("perspectrum", "PIR: claims that support or oppose an argument", "1,431 queries, 2,773 candidates (Table 1)"),
    _pir("ambigqa", "PIR: evidence for one reading of an ambiguous question", "864 queries, 864 candidates (Table 1)"),
    _pir("allsides", "PIR: news on a topic from left, centre or right", "645 queries, 645 candidates (Table 1)"),
    _pir("exfever", "PIR: claims that a text supports or refutes", "1,104 queries, 1,104 candidates (Table 1)"),
    _pir(
        "agnews",
        "PIR: news like a given one, elsewhere or on another topic",
        "1,450 queries, 2,900 candidates (Table 1)",
        "The name of the repository follows the pattern of the others; it has not been tried.",
    ),
    _pir(
        "story",
        "PIR: stories that are analogous or share their entities (StoryAnalogy)",
        "2,000 queries, 2,000 candidates (Table 1)",
        "The name of the repository follows the pattern of the others; it has not been tried.",
    ),
    Dataset(
        name="pir-demo",
        title="PIR: the demo release, a part of four of its six tasks",
        paper="pir",
        kind="both",
        source="github colinzhaoust/pir",
        licence="Apache-2.0",
        size="4 tasks (perspectrum, ambigqa, allsides, exfever) of 100 queries and 500 candidates",
        local=("pir/demo_pir_dataset.json",),
        how="Take demo_pir_dataset.json from its repository.",
        note="Read by berdslib.data.pir.load_pir, a task at a time.",
    ),
)

# ---------------------------------------------------------------- PerspectiveArg and the rest

_PERSPECTRUM_FILES = "https://raw.githubusercontent.com/CogComp/perspectrum/HEAD/data/dataset/"
_PERSPECTRUM_NAMES = (
    "perspectrum_with_answers_v1.0.json",
    "perspective_pool_v1.0.json",
    "dataset_split_v1.0.json",
)

_OTHERS = (
    Dataset(
        name="perspectivearg",
        title="PerspectiveArg 2024: political arguments with profiles of their authors, three scenarios",
        paper="perspectivearg",
        kind="both",
        source="github Blubberli/perspective-argument-retrieval",
        licence="CC BY-NC 4.0; copyright SmartVote; not to be used to find out who the authors are",
        size="Swiss elections of 2019 (train, dev, first test) and 2023 (second and third test)",
        splits=("train", "dev", "test"),
        local=("perspectivearg",),
        how=(
            "Its owners share it on request: write to them (addresses on the source page) with a statement of the "
            "intended use, and put the folder that they send at one of the paths looked for."
        ),
    ),
    Dataset(
        name="theperspective",
        title="Debate questions, two opposing perspectives each, and the passages that argue for either",
        paper="support",
        kind="both",
        source="Theperspective, a part of PerSphere; github Stevenlol2003/cs695_test",
        licence="none stated; research use",
        size="134 questions, 4,107 passages of about 117 words",
        local=("theperspective/queries.jsonl", "theperspective/corpus.jsonl"),
        passages=("theperspective/corpus.jsonl",),
        loaders=("load_questions", "load_passages", "load_gold"),
        how="Take queries.jsonl and corpus.jsonl from its repository.",
        note="Gold verdicts list supporting passages only: a pair that is not listed was not judged by anyone.",
    ),
    Dataset(
        name="arguana-corpus",
        title="Arguments and counter-arguments from idebate.org (the ArguAna counterargs corpus), BEIR layout",
        paper="support",
        kind="passages",
        source="idebate.org through the ArguAna counterargs corpus",
        licence="treat as non-commercial",
        size="8,561 arguments on 688 theses, median 148 words",
        local=("arguana/corpus.jsonl",),
        passages=("arguana/corpus.jsonl",),
        loaders=("load_passages", "passage_file"),
        how="Convert the ArguAna counterargs corpus to BEIR's corpus.jsonl; BEIR's own copy differs in its ids.",
    ),
    Dataset(
        name="wikipedia-articles",
        title="Whole Wikipedia articles (April 2012) on 55 debate topics",
        paper="support",
        kind="passages",
        source="IBM Project Debater, claim stance data set",
        licence="CC-BY-SA 3.0",
        size="1,019 articles, 20 MB; 32,828 passages of 100 words",
        local=("wikipedia/articles.jsonl",),
        passages=("wikipedia/articles.jsonl",),
        loaders=("load_passages", "passage_file"),
        how="Take the claim stance data set from its source page; its articles belong in one JSONL (_id, title, text).",
        note="A small stand-in for the Wikipedia dump. Each row is an article; wikipedia-articles:words cuts them.",
    ),
    Dataset(
        name="claim-stance",
        title="Claims found in the articles of wikipedia-articles, for or against a topic",
        paper="support",
        kind="pairs",
        source="IBM Project Debater, claim stance data set",
        licence="CC-BY-SA 3.0",
        size="1,737 claims on 40 topics in BERDS_DATA",
        local=("wikipedia/claim_stance.csv",),
        how="Take it from its source page.",
    ),
    Dataset(
        name="perspectrum",
        title="Perspectrum: claims and clusters of perspectives that support or undermine them",
        paper="support",
        kind="pairs",
        source="github CogComp/perspectrum, data/dataset",
        licence="CC-BY-SA 4.0",
        size="907 claims, about 11,100 texts of perspectives",
        files=tuple(RemoteFile(_PERSPECTRUM_FILES + name) for name in _PERSPECTRUM_NAMES),
        local=tuple(f"perspectrum/{name}" for name in _PERSPECTRUM_NAMES),
    ),
    Dataset(
        name="perspectrum-debates",
        title="Debate arguments (debatewise, procon), each under the perspective that it argues",
        paper="support",
        kind="passages",
        source="debatewise and procon through github CogComp/perspectrum",
        licence="CC-BY-SA 4.0",
        size="3,939 arguments of about 115 words",
        local=("perspectrum/debates.jsonl",),
        passages=("perspectrum/debates.jsonl",),
        loaders=("load_passages", "passage_file"),
        how="Build it from the debates in its repository: one JSONL row an argument (_id, title, text).",
    ),
    Dataset(
        name="argkp",
        title="ArgKP-2021: does an argument express a key point? Labelled by people",
        paper="support",
        kind="pairs",
        source="IBM Project Debater, ArgKP-2021",
        licence="CDLA-Sharing 1.0",
        size="23,015 pairs, 26 topics in BERDS_DATA",
        local=("argkp/argkp2021.csv",),
        how="Take it from its source page.",
    ),
    Dataset(
        name="ex-fever",
        title="EX-FEVER: does an explanation of several hops support, refute or leave open a claim?",
        paper="support",
        kind="pairs",
        source="the test file of EX-FEVER (Ma et al., 2023)",
        licence="MIT",
        size="4,568 pairs in BERDS_DATA",
        local=("support/ex_fever.csv",),
        how="Take it from the repository of EX-FEVER.",
    ),
    Dataset(
        name="explagraphs",
        title="ExplaGraphs: does an argument support or counter a belief?",
        paper="support",
        kind="pairs",
        source="ExplaGraphs (Saha et al., 2021)",
        licence="MIT",
        size="2,766 pairs in BERDS_DATA",
        local=("support/explagraphs.tsv",),
        how="Take it from the repository of ExplaGraphs.",
    ),
)

DATASETS: dict[str, Dataset] = {one.name: one for one in (*_BERDS, *_PIR, *_OTHERS)}


def dataset(name: str) -> Dataset:
    """Return the entry of a data set.

    Raises:
        InputError: the name is not known.

    >>> dataset("kialo").hf_repo
    'timchen0618/Kialo'
    """
    return DATASETS[known("data set", name, DATASETS)]

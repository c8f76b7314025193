"""The cards of the data sets: what each is, where it comes from, under which licence, how it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from berdslib.data import berds, nuggets, own, sample, theperspective
from berdslib.data.dataset import Dataset, HubTable, RemoteFile
from berdslib.data.fetch import first_passages
from berdslib.data.pairs import pairs_file
from berdslib.data.synthetic_arguments import CARD
from berdslib.data.validation import require_valid
from berdslib.errors import errors_in
from berdslib.registry import Registry

_PASSAGES = {"load_passages": first_passages, "passage_file": first_passages}

# ---------------------------------------------------------------- BeRDS

# The authors' files at one commit each, so that sizes and checksums hold.
_BERDS = "https://raw.githubusercontent.com/timchen0618/berds/f396446b96d5378557a224be6419d61138e732d8/"
_PIR_DEMO = "https://raw.githubusercontent.com/colinzhaoust/pir/cad87350f445eb535712efbd1373fd3f72152ec1/"

_EXPANDED = f"{_BERDS}query_exp/data/"
EXPANSIONS = {
    "arguana": RemoteFile(
        _EXPANDED + "arguana_generated_query_exp.dev.jsonl",
        "b07ab94dc56d9602fb100e91c25e6eb73b3bbff7a46eb35518cf913edf413431",
        2_004_575,
    ),
    "kialo": RemoteFile(
        _EXPANDED + "kialo_query_exp.dev.jsonl",
        "ea86c20023739cd9b99af2b0d8f46045661ad215d1e6aca083bc3a90df1ae58e",
        2_049_053,
    ),
    "opinionqa": RemoteFile(
        _EXPANDED + "opinionqa_query_exp.dev.jsonl",
        "c82dfda7ebe3d79fb773f74043c111256c0283c565d3946e6919e595504ebd73",
        2_468_350,
    ),
}


def _berds(name: str, repo: str, title: str, size: str, dev_starts_at: int) -> Dataset:
    """`dev_starts_at`: the test split is numbered first, as the recorded dev rows say (BeRDS Table 1 has the sizes)."""
    expansions = EXPANSIONS[name]
    return Dataset(
        name=name,
        title=title,
        paper="berds",
        kind="questions",
        source="https://timchen0618.github.io/berds/ and github timchen0618/berds",
        licence="none stated; research use",
        size=size,
        files=(expansions,),
        hf_repo=f"timchen0618/{repo}",
        splits=("dev", "test"),
        local=(f"berds/{name}.dev.jsonl", f"berds/{name}.test.jsonl", f"berds/{expansions.name}"),
        cached=("dev.jsonl", "test.jsonl", expansions.name),
        loaders={"load_questions": berds.questions, "load_expansions": berds.expansions},
        dev_starts_at=dev_starts_at,
        note=(
            "The file of recorded query expansions (GPT-4, dev split only) repeats dev questions, fewer than the paper "
            "counts, and stands in for them only where the official file is neither in BERDS_DATA nor fetched; a "
            "warning says so. Which perspective supports and which opposes is not recorded."
        ),
    )


_BERDS_SETS = (
    Dataset(
        name="sample",
        title="Two dozen questions with passages, gold verdicts and expansions, written for this project",
        paper="support",
        kind="both",
        source="shipped with berdslib (data/sample)",
        licence="Apache-2.0",
        size="24 questions, 373 passages, 907 verdicts (data/README.md)",
        splits=("dev", "test"),
        shipped="sample",
        loaders={
            "load_questions": sample.questions,
            "load_passages": sample.passages,
            "load_gold": sample.gold,
            "load_expansions": sample.expansions,
        },
        note="For learning and testing. Not a benchmark: no number measured on it says anything about a published one.",
    ),
    _berds(
        "arguana",
        "Arguana",
        "BeRDS questions made from pairs of counter-arguments (ArguAna), two perspectives each",
        "1,000 questions (250 dev, 750 test), 2.0 perspectives of 12.71 words (BeRDS Table 1)",
        750,
    ),
    _berds(
        "kialo",
        "Kialo",
        "BeRDS questions from the debate platform kialo.com, 9% of them with more than two perspectives",
        "1,032 questions (258 dev, 774 test), 2.9 perspectives of 12.49 words (BeRDS Table 1)",
        774,
    ),
    _berds(
        "opinionqa",
        "OpinionQA",
        "BeRDS questions made from survey questions of the Pew American Trends Panel, two perspectives each",
        "1,176 questions (294 dev, 882 test), 2.0 perspectives of 16.51 words (BeRDS Table 1)",
        882,
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
        loaders=_PASSAGES,
        note=(
            "Too large for a list in memory: give a limit, or stream it with iter_passages(passage_file(name)). "
            "Its passages do not name their article but by the title: berds data stats -c wikipedia --documents title."
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
        loaders=_PASSAGES,
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
        files=(
            RemoteFile(
                f"{_BERDS}perspective_detection/data/pers_det.test.tsv",
                "10ad76a5958f9bdbf8a1fe2ee7c76ae7368487b545734dc1fd6882f677f39159",
                447_107,
            ),
        ),
        local=("berds/pers_det.test.tsv", "berds/pers_det.half.tsv"),
        loaders={"load_pairs": pairs_file},
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
        cached=(".",),
        note=note,
    )


_PIR = (
    Dataset(
        name="pir-sample",
        title="Two small tasks in PIR's form, written for this project: news by place, stories by kind of likeness",
        paper="support",
        kind="both",
        source="made by berdslib.data.pir_sample",
        licence="Apache-2.0",
        size="2 tasks (location, stories) of 20 roots each, with 400 and 40 texts",
        note="For learning and testing: made from templates and by hand. Loaded a task at a time, as pir-demo is.",
    ),
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
        files=(
            RemoteFile(
                f"{_PIR_DEMO}demo_pir_dataset.json",
                "6f1a07a86499072f164a7fc37860dc5559ede8a0f2848ae0edd1ae879c3bd2c5",
                4_061_371,
            ),
        ),
        local=("pir/demo_pir_dataset.json",),
        note="Loaded a task at a time: berdslib.load('pir-demo:allsides'), or -q pir-demo:allsides.",
    ),
)

# ---------------------------------------------------------------- PerspectiveArg and the rest

_PERSPECTRUM_FILES = "https://raw.githubusercontent.com/CogComp/perspectrum/HEAD/data/dataset/"
_PERSPECTRUM_NAMES = (
    "perspectrum_with_answers_v1.0.json",
    "perspective_pool_v1.0.json",
    "dataset_split_v1.0.json",
)

_ALL_THREE = ("train", "dev", "test")


def _perspectivearg(part: str, title: str, size: str, splits: tuple[str, ...]) -> Dataset:
    return Dataset(
        name=f"perspectivearg-{part}",
        title=f"PerspectiveArg 2024: political arguments with profiles of their authors; {title}",
        paper="perspectivearg",
        kind="both",
        source="github Blubberli/perspective-argument-retrieval",
        licence="CC BY-NC 4.0; copyright SmartVote; research only",
        size=size,
        splits=splits,
        local=(f"perspectivearg/{part}/corpus.jsonl",),
        how=(
            "Its owners share it on request only, and nothing here tries to fetch it: write to them (addresses on the "
            "source page) with a statement of the intended use and of what is done against harm, and put the folder "
            "that they send (corpus.jsonl, baseline-queries/, perspective-queries/) at one of the paths looked for."
        ),
        note=(
            "Profiles are special-category personal data. Not to be used to find out who an author is, to infer "
            "anybody's properties, or to influence a vote. Loaded a scenario at a time: "
            f"berdslib.load('perspectivearg-{part}:explicit')."
        ),
    )


_OTHERS = (
    Dataset(
        name="perspectivearg-sample",
        title="SYNTHETIC arguments and queries in the form of PerspectiveArg, made by a program for this project",
        paper="support",
        kind="both",
        source="made by berdslib.data.synthetic_arguments",
        licence="Apache-2.0",
        size="1,800 arguments on 60 issues; python scripts/synthetic_release.py writes releases of any size",
        splits=("train", "dev", "test"),
        note=CARD,
    ),
    _perspectivearg("2019", "the first test set, with the train and dev splits", "Swiss elections of 2019", _ALL_THREE),
    _perspectivearg("2023", "the second test set", "Swiss elections of 2023", ("test",)),
    _perspectivearg(
        "reader",
        "the third test set, which ranks for the reader's properties and not for the author's",
        "a sample of the second test set, judged by annotators for themselves",
        ("test",),
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
        loaders={
            "load_questions": theperspective.questions,
            "load_passages": first_passages,
            "load_gold": theperspective.gold,
        },
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
        loaders=_PASSAGES,
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
        loaders=_PASSAGES,
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
        loaders=_PASSAGES,
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

# ---------------------------------------------------------------- nuggets and aspects


def _with_nuggets(of: str, topic: str, title: str, source: str, licence: str, size: str, **more: Any) -> Dataset:
    corpus = f"{of}/{topic}/corpus.jsonl"
    return Dataset(
        name=f"{of}-{topic}",
        title=title,
        paper="support",
        kind="both",
        source=source,
        licence=licence,
        size=size,
        local=(f"{of}/{topic}/queries.jsonl", corpus),
        passages=(corpus,),
        loaders={"load_questions": nuggets.questions, "load_passages": first_passages, "load_gold": nuggets.gold},
        **more,
    )


def _freshstack(topic: str, about: str) -> Dataset:
    return _with_nuggets(
        "freshstack",
        topic,
        f"FreshStack: questions of programmers on {about}, and passages for each nugget of the answer",
        "Hugging Face freshstack/queries-oct-2024 and freshstack/corpus-oct-2024 (Thakur et al., 2025)",
        "CC-BY-SA 4.0",
        "one of five topics with 672 questions in all, each with a corpus of its own",
        tables=(
            HubTable("freshstack/queries-oct-2024", topic, "test", "queries.jsonl"),
            HubTable("freshstack/corpus-oct-2024", topic, "train", "corpus.jsonl"),
        ),
        note=(
            "THE READER WAS NOT RUN ON THE PUBLISHED FILES. The names of repositories, subsets, splits and fields are "
            "those that its own loader uses (package freshstack 0.0.6). A nugget is read as a perspective. A passage "
            "that stands in neither list of a nugget was not judged."
        ),
    )


def _bright_pro(topic: str, about: str, questions: int, passages: int) -> Dataset:
    place = f"bright-pro/{topic}"
    return _with_nuggets(
        "bright-pro",
        topic,
        f"BRIGHT-Pro: posts on {about} that take reasoning to answer, and passages for each aspect of the answer",
        "Hugging Face yale-nlp/Bright-Pro (Zhao et al., 2026, arXiv 2605.04018)",
        "MIT",
        f"{questions} questions, {passages:,} passages (as MTEB 2.26.24 counts them)",
        how=(
            f"Take it from its source page and bring it into this form: {place}/queries.jsonl, a row a question with "
            "id, query and a list of aspects, each with a text and its gold_ids; "
            f"{place}/corpus.jsonl, a row a passage with id and text."
        ),
        note=(
            "THE READER WAS NOT RUN ON THE PUBLISHED FILES, and how they store aspects is not known here: they have to "
            "be converted. An aspect is read as a perspective; should aspects have weights, those are left aside."
        ),
    )


_WITH_NUGGETS = (
    _freshstack("langchain", "LangChain"),
    _freshstack("yolo", "YOLO"),
    _freshstack("laravel", "Laravel"),
    _freshstack("angular", "Angular"),
    _freshstack("godot", "Godot"),
    _bright_pro("biology", "biology", 103, 59_513),
    _bright_pro("earth-science", "earth science", 115, 123_575),
    _bright_pro("economics", "economics", 99, 52_240),
    _bright_pro("psychology", "psychology", 100, 54_741),
    _bright_pro("robotics", "robotics", 101, 63_920),
    _bright_pro("stackoverflow", "programming", 115, 109_188),
    _bright_pro("sustainable-living", "sustainable living", 106, 63_142),
)

DATASETS: Registry[Dataset] = Registry(
    "data set", {one.name: one for one in (*_BERDS_SETS, *_PIR, *_OTHERS, *_WITH_NUGGETS)}
)


def dataset(name: str) -> Dataset:
    """Return the entry of a data set: one that is known by name, or a folder with the card of one.

    Raises:
        InputError: the name is not known.

    >>> dataset("kialo").hf_repo
    'timchen0618/Kialo'
    """
    if name not in DATASETS and own.is_own(name):
        return own.as_dataset(Path(name))
    if name not in DATASETS and nuggets.is_nuggets(name):
        return nuggets.as_dataset(Path(name))
    return DATASETS.find(name)[0]


def add(folder: Path) -> Dataset:
    """Have a data set of one's own load by the name on its card, here and in every later process.

    Raises:
        InputError: no data set's folder, the name is built in, or :func:`berdslib.data.validation.require_valid`.
    """
    require_valid(folder)
    with errors_in(folder / own.CARD):
        DATASETS.add(own.read_card(folder).name, own.as_dataset(folder))
    return own.remember(folder)


for _one in own.remembered():
    if not DATASETS.is_built_in(_one.name):
        DATASETS.add(_one.name, _one)

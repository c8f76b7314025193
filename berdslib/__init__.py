"""berdslib: which perspectives does a retriever show, and which does it hide?

>>> import berdslib as bd
>>> sample = bd.load("sample", split="dev")
>>> sample
Collection 'sample': 8 questions, 373 passages, 326 gold verdicts, expansions of 8 questions
>>> bd.experiment("bm25", sample, "MRecall@5").table["n"].tolist()
[3, 3, 2, 8]

The names below load when they are first used, so that importing the package takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from berdslib.version import __version__

if TYPE_CHECKING:
    from berdslib import stats as stats
    from berdslib.construction.build import build as build
    from berdslib.data.collection import Collection as Collection
    from berdslib.data.datasets import load as load
    from berdslib.data.records import Passage as Passage
    from berdslib.data.records import Query as Query
    from berdslib.data.records import Question as Question
    from berdslib.data.saved import save as save
    from berdslib.errors import InputError as InputError
    from berdslib.errors import MissingDataError as MissingDataError
    from berdslib.evaluation.measures import ERR_IA as ERR_IA
    from berdslib.evaluation.measures import Coverage as Coverage
    from berdslib.evaluation.measures import MRecall as MRecall
    from berdslib.evaluation.measures import P as P
    from berdslib.evaluation.measures import Precision as Precision
    from berdslib.evaluation.measures import StRecall as StRecall
    from berdslib.evaluation.measures import alpha_nDCG as alpha_nDCG
    from berdslib.evaluation.measures import nDCG as nDCG
    from berdslib.evaluation.measures import pRecall as pRecall
    from berdslib.evaluation.measures import rKL as rKL
    from berdslib.judging.finetune import fine_tune as fine_tune
    from berdslib.retrieval.diversify import mmr as mmr
    from berdslib.retrieval.expansion import fuse as fuse
    from berdslib.retrieval.retrievers import dense as dense
    from berdslib.study import figures as figures
    from berdslib.study import published as published
    from berdslib.study import rounds as rounds
    from berdslib.study.exercises import check_answer as check_answer
    from berdslib.study.experiment import Experiment as Experiment
    from berdslib.study.experiment import choose as choose
    from berdslib.study.experiment import experiment as experiment
    from berdslib.study.experiment import open as open
    from berdslib.study.explorer.widget import explore as explore
    from berdslib.study.front import evaluate as evaluate
    from berdslib.study.front import judge as judge
    from berdslib.study.front import names as names
    from berdslib.study.front import read_run as read_run
    from berdslib.study.front import register as register
    from berdslib.study.front import retriever as retriever
    from berdslib.study.front import search as search
    from berdslib.study.front import show as show
    from berdslib.study.front import supports as supports
    from berdslib.study.notebooks import output_folder as output_folder
    from berdslib.study.sides import sides as sides

_PLACES = {
    "berdslib.construction.build": ("build",),
    "berdslib.data.collection": ("Collection",),
    "berdslib.data.datasets": ("load",),
    "berdslib.data.records": ("Passage", "Query", "Question"),
    "berdslib.data.saved": ("save",),
    "berdslib.errors": ("InputError", "MissingDataError"),
    "berdslib.evaluation.measures": (
        "Coverage", "ERR_IA", "MRecall", "P", "Precision", "StRecall", "alpha_nDCG", "nDCG", "pRecall", "rKL",
    ),
    "berdslib.judging.finetune": ("fine_tune",),
    "berdslib.retrieval.diversify": ("mmr",),
    "berdslib.retrieval.expansion": ("fuse",),
    "berdslib.retrieval.retrievers": ("dense",),
    "berdslib.study.exercises": ("check_answer",),
    "berdslib.study.experiment": ("Experiment", "choose", "experiment", "open"),
    "berdslib.study.explorer.widget": ("explore",),
    "berdslib.study.front": (
        "evaluate", "judge", "names", "read_run", "register", "retriever", "search", "show", "supports",
    ),
    "berdslib.study.notebooks": ("output_folder",),
    "berdslib.study.sides": ("sides",),
}  # fmt: skip
_MODULES = {
    "figures": "berdslib.study.figures", "published": "berdslib.study.published", "rounds": "berdslib.study.rounds",
    "stats": "berdslib.stats",
}  # fmt: skip
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}

__all__ = ["__version__", *sorted(_PLACE_OF), *_MODULES]


if not TYPE_CHECKING:  # to a type checker a misspelt name stays one

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(_MODULES[name])
        if name not in _PLACE_OF:
            raise AttributeError(f"berdslib has no {name!r}; it has {', '.join(sorted({*_PLACE_OF, *_MODULES}))}")
        return getattr(import_module(_PLACE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACE_OF, *_MODULES})

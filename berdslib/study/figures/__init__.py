"""Figures: one style, one way to save, and the plots that the notebooks share.

A public function of one of these modules is a figure here: a new one needs no other line.
"""

from importlib import import_module
from typing import Any

from berdslib.study.figures.style import MARKERS as MARKERS
from berdslib.study.figures.style import NOTHING as NOTHING
from berdslib.study.figures.style import PALETTE as PALETTE
from berdslib.study.figures.style import save_figure as save_figure
from berdslib.study.figures.style import use_style as use_style

_MODULES = ("values", "lists", "bars", "curves")


def _figures() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _MODULES:
        module = import_module(f"{__name__}.{name}")
        own = (thing for thing in vars(module).values() if getattr(thing, "__module__", "") == module.__name__)
        found |= {thing.__name__: thing for thing in own if not thing.__name__.startswith("_")}
    return found


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name in (found := _figures()):
        return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_figures()})

"""Figures: one style, one way to save, and the plots that the notebooks share.

A public function of one of these modules is a figure here: a new one needs no other line.
"""

from importlib import import_module
from typing import Any

_MODULES = [f"{__name__}.{name}" for name in ("style", "values", "lists", "curves")]


def _figures() -> dict[str, Any]:
    found = {}
    for module in map(import_module, _MODULES):
        for name, thing in vars(module).items():
            own = isinstance(thing, str | tuple | dict) or getattr(thing, "__module__", "") == module.__name__
            if own and not name.startswith("_"):
                found[name] = thing
    return found


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name in (found := _figures()):
        return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_figures())

"""Figures: their common style, saving to files, and the plots that the notebooks share.

The package re-exports every public name of its modules.
"""

from importlib import import_module
from typing import Any

_MODULES = [f"{__name__}.{name}" for name in ("style", "values", "lists", "curves")]


def _figures() -> dict[str, Any]:
    figures = {}
    for module in map(import_module, _MODULES):
        for name, value in vars(module).items():
            own = isinstance(value, str | tuple | dict) or getattr(value, "__module__", "") == module.__name__
            if own and not name.startswith("_"):
                figures[name] = value
    return figures


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        figures = _figures()
        if name in figures:
            return figures[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_figures())

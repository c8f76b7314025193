"""The controls of one system: menus and dials that change parts of a system string, and the string itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from berdslib.errors import BerdsError
from berdslib.retrieval.retrievers import RETRIEVERS
from berdslib.retrieval.systems import (
    DIVERSIFIER,
    EXPANSION,
    EXTRACT,
    PROJECTION,
    Part,
    System,
    is_dense,
    kinds,
    offers,
    parse_system,
)

NONE = "none"
FIRST = ("bm25", "minilm", "rank-bm25")  # what needs nothing that does not come along
# What follows what in a string that menus make.
MENUS = (PROJECTION, EXPANSION, DIVERSIFIER)
_HALF = {"flex": "1 1 0", "width": "auto", "min_width": "0"}


def part_of(system: System, group: str) -> Part | None:
    """Return the last part of a system that belongs to a group, or None."""
    return next((part for part in reversed(system.parts) if part.kind in kinds(group)), None)


def with_part(system: System, group: str, part: Part | None) -> System:
    """Return a system with its last part of a group replaced, added, or (None) taken away; other parts stay.

    Not every part goes with every other; what cannot be read says so where it is used.

    >>> with_part(parse_system("minilm+mmr:0.9"), EXPANSION, Part("expand", "rule")).text
    'minilm+expand:rule+mmr:0.9'
    """
    places = [i for i, one in enumerate(system.parts) if one.kind in kinds(group)]
    parts = list(system.parts)
    if group == PROJECTION and part is None:
        parts = [one for one in parts if one.kind not in (*kinds(group), EXTRACT)]  # it cuts for the projection alone
    elif places:
        parts[places[-1] : places[-1] + 1] = [] if part is None else [part]
    elif part is not None:
        later = [kind for other in MENUS[MENUS.index(group) + 1 :] for kind in kinds(other)]
        place = 0 if group == PROJECTION else next((i for i, p in enumerate(parts) if p.kind in later), len(parts))
        parts.insert(place, part)
    return System(system.first, tuple(parts))


class SystemControls:
    """Menus for retriever, projection, expansion and diversifier, a dial, and the string that they make.

    Args:
        name: "Left" or "Right".
        system: what to begin with.
        own: names of systems that no string names; they have no parts.
        changed: called when the system has changed.
    """

    def __init__(self, name: str, system: str, own: Sequence[str], changed: Callable[[], None]) -> None:
        import ipywidgets as widgets

        self._changed, self._own, self._setting = changed, tuple(own), False
        more = [n for n in RETRIEVERS.names() if ":" not in n and n not in FIRST]
        known = [(f"{n} (where it is installed)" if RETRIEVERS.is_built_in(n) else n, n) for n in more]
        style: dict[str, Any] = {"style": {"description_width": "64px"}, "layout": dict(_HALF)}
        self.first = widgets.Dropdown(
            description=f"{name}:", options=[*((n, n) for n in (*self._own, *FIRST)), *known], **style
        )
        self.text = widgets.Text(description="As text:", continuous_update=False, **style)
        self.menus = {
            group: widgets.Dropdown(description=description, options=[NONE, *offers(group)], **style)
            for group, description in zip(MENUS, ("Project:", "Expand:", "Diversify:"), strict=True)
        }
        self.projection, self.expansion, self.diversifier = self.menus.values()
        self.dial = widgets.BoundedFloatText(description="Dial:", value=0.75, max=1, step=0.05, **style)
        rows = [
            [self.first, self.text],
            [self.projection, self.expansion],
            [self.diversifier, self.dial],
        ]
        self.box = widgets.VBox([widgets.HBox(row) for row in rows], layout=dict(_HALF))
        self.system = system
        self._show()
        self.text.observe(lambda _: self._set(lambda: str(self.text.value).strip()), "value")
        self.first.observe(lambda _: self._set(self._with_first), "value")
        for group, control in (*self.menus.items(), (DIVERSIFIER, self.dial)):
            control.observe(lambda _, group=group: self._set(lambda: self._with(group)), "value")

    def _set(self, made: Callable[[], str]) -> None:
        """Take over what a control says, unless it is being set from here."""
        if self._setting:
            return
        self.system = made()
        self._show()
        self._changed()

    def _parsed(self) -> System:
        """Return the system; one that cannot be read, or is the user's own, is the chosen retriever alone."""
        try:
            return System(str(self.first.value)) if self.system in self._own else parse_system(self.system)
        except BerdsError:
            return System(str(self.first.value))

    def _with_first(self) -> str:
        first = str(self.first.value)
        if first in self._own:
            return first
        system = System(first, () if self.system in self._own else self._parsed().parts)
        return (system if is_dense(first) else with_part(system, PROJECTION, None)).text

    def _with(self, group: str) -> str:
        """Return the system with the part that a menu says."""
        chosen = str(self.menus[group].value)
        kind, _, value = chosen.partition(":")
        value = f"{self.dial.value:g}" if group == DIVERSIFIER else value
        return with_part(self._parsed(), group, None if chosen == NONE else Part(kind, value)).text

    def _show(self) -> None:
        """Set the controls to what the system is; what they cannot say stands in the string alone."""
        self._setting = True
        try:
            self.text.value = self.system
            own = self.system in self._own
            try:
                parsed = System(self.system) if own else parse_system(self.system)
            except BerdsError:
                return  # the list says what is wrong with it
            if parsed.first not in [value for _, value in self.first.options]:
                self.first.options = [*self.first.options, (parsed.first, parsed.first)]
            self.first.value = parsed.first
            for group, menu in self.menus.items():
                part = part_of(parsed, group)
                written = NONE if part is None else str(part)[1:] if group == EXPANSION else part.kind
                if written not in menu.options:
                    menu.options = [*menu.options, written]
                menu.value = written
                menu.disabled = own or (group == PROJECTION and not is_dense(parsed.first))
            diversifier = part_of(parsed, DIVERSIFIER)
            if diversifier:
                self.dial.value = diversifier.number
            self.dial.disabled = diversifier is None
            self.dial.layout.visibility = "hidden" if diversifier is None else "visible"
        finally:
            self._setting = False

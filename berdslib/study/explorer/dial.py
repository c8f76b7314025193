"""A dial to turn: a range with a name, which ipywidgets' sliders lack for people who do not see the screen."""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets

_STATIC = Path(__file__).with_name("static")


class Dial(anywidget.AnyWidget):
    """A number from `min` to `max`; arrow keys move it by `step`."""

    _esm = _STATIC / "dial.js"
    _css = _STATIC / "dial.css"
    description = traitlets.Unicode().tag(sync=True)
    value = traitlets.Float().tag(sync=True)
    min = traitlets.Float(0.0).tag(sync=True)
    max = traitlets.Float(1.0).tag(sync=True)
    step = traitlets.Float(0.05).tag(sync=True)
    disabled = traitlets.Bool(False).tag(sync=True)

    @traitlets.validate("value")
    def _inside(self, proposal: traitlets.Bunch) -> float:
        return float(min(max(proposal["value"], self.min), self.max))

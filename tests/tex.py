"""What TeX makes of a table, as far as its rules for special characters go; no TeX is needed."""

import re

# In TeX's default fonts, < and > print as Spanish question and exclamation marks.
_NAMED = {"backslash": "\\", "asciitilde": "~", "asciicircum": "^", "less": "<", "greater": ">"}
# pdfLaTeX has none of these in its text fonts.
_MATHS = {r"\geq": "≥", r"\to": "→", r"\alpha": "α", r"\lambda": "λ", "-": "−"}
_MARKS = re.compile(
    rf"\\([%&_$#{{}}])|\\text({'|'.join(_NAMED)})\{{\}}|\$({'|'.join(map(re.escape, _MATHS))})\$"
    rf"|([^\\%&_$#{{}}~^<>{''.join(_MATHS.values())}])",
    re.DOTALL,
)


def printed(text):
    """Return what TeX prints of a piece of text; a special character that stands there as such is an error."""
    found, at = [], 0
    while at < len(text):
        mark = _MARKS.match(text, at)
        assert mark, f"TeX would act on {text[at : at + 12]!r}"
        found.append(_NAMED.get(mark[2]) or mark[1] or _MATHS.get(mark[3]) or mark[4])
        at = mark.end()
    return "".join(found)


def caption_of(table):
    """Return the caption's printed text, its end found as TeX finds it; all braces of the table must have a partner."""
    seen = re.sub(r"(?<!\\)%.*\n", "", table.replace(r"\\", "  "))  # a bare % hides the rest of its line
    depth, ends = 0, {}
    for place in re.finditer(r"(?<!\\)[{}]", seen):
        depth += 1 if place[0] == "{" else -1
        assert depth >= 0, "a brace is closed that nobody opened"
        if place[0] == "}":
            ends.setdefault(depth, []).append(place.start())
    assert depth == 0, f"{depth} braces are never closed"
    start = seen.index(r"\caption{") + len(r"\caption{")
    return printed(seen[start : next(end for end in ends[0] if end > start)])

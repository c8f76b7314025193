"""The numbers printed in the BeRDS and PIR papers, and a comparison with ours.

The numbers lie in data/published, one a row; its README.md says where they come from and which are suspicious.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from berdslib.errors import InputError, known
from berdslib.paths import shipped
from berdslib.study.experiment import Experiment
from berdslib.study.tables import escape

# What a version is called in a message, and the file that holds its numbers.
VERSIONS = {"v1": ("BeRDS v1", "berds_v1"), "v2": ("BeRDS v2", "berds_v2"), "pir": ("PIR", "pir")}
# The columns that say which number of a table one is.
KEYS = ("corpus", "retriever", "system", "dataset", "measure", "k")
REAL = ("lists", "dial", "changes", "pir", "people", "projection")  # tables of data/real
# What the papers call a retriever's list as it is.
_AS_FOUND = ("default", "baseline")


def published_table(table: str, version: str = "v2") -> pd.DataFrame:
    """Return the numbers of one published table, one row a number, in the printed order and unit.

    Args:
        table: its number in that version of the paper, "3" or "Table 3".
        version: "v1" or "v2" of BeRDS, which number their tables differently, or "pir" for the PIR paper.

    Returns:
        The columns of the file as text, "" where one does not apply, but `k` (Int64) and `value` (float).
    """
    numbers = _numbers(known("version", version, VERSIONS))
    wanted = str(table).strip().removeprefix("Table").strip()
    name = known(f"table of {VERSIONS[version][0]}", wanted, numbers["table"].unique())
    return numbers[numbers["table"] == name].reset_index(drop=True)


def published_value(table: str, *, version: str = "v2", **where: str | float) -> float:
    """Return the one published number that the conditions, column = value, single out.

    >>> published_value("3", corpus="wikipedia", retriever="bm25", dataset="arguana", measure="MRecall", k=5)
    10.8
    """
    rows = published_table(table, version)
    for column, value in where.items():
        rows = rows[rows[known("column", column, rows.columns)].eq(value).fillna(False)]
    if len(rows) != 1:
        asked = ", ".join(f"{column}={value!r}" for column, value in where.items()) or "no condition"
        raise InputError(f"{len(rows)} numbers of Table {table} ({version}) match {asked}; exactly one must")
    return float(rows["value"].iloc[0])


def reproduction_map() -> pd.DataFrame:
    """Return the map of every table and figure: whether it is rebuilt, where, by which grid, and if not, why.

    `status` is "rebuilt" (from runs, on the data in `data`), "published values drawn" or "not"; of the latter two,
    `reason` says why. `output` are the files that the section writes, without their ending.
    """
    return read_shipped("map")


def read_shipped(name: str) -> pd.DataFrame:
    """Return a table of data/published as text, without its ending: "map", "figures" or "perspectivearg"."""
    return pd.read_csv(shipped("published") / f"{name}.csv", dtype=str, keep_default_na=False)


def real_numbers(name: str) -> pd.DataFrame:
    """Return a table of data/real, figures from data whose texts may not be shipped; of ``REAL``.

    Its card says what the columns are. In the first three a list is a word with a letter a place: A for a passage that
    argues the supporting side, B the opposing one, X both, a dot neither.
    """
    return pd.read_csv(shipped("real") / f"{known('table of data/real', name, REAL)}.csv", keep_default_na=False)


# ---------------------------------------------------------------- a whole table beside ours


class Setting(NamedTuple):
    """What a table was measured with, "" for nothing; two tables can be compared only where all of it is the same."""

    questions: str
    corpus: str = ""
    judge: str = ""
    retrievers: str = ""


BERDS_SETTING = Setting(
    "the test questions of ArguAna, Kialo and OpinionQA",
    "Wikipedia, Sphere or Google's results",
    "Mistral-7B, fine-tuned",
    "the paper's encoders",
)
PIR_SETTING = Setting(
    "the full tasks", "their own texts", "the tasks' own labels", "SimCSE and the paper's other encoders"
)


@dataclass(frozen=True, eq=False, repr=False)
class Beside:
    """A published table beside ours; shown, it is a table with a sentence on whether the two can be compared.

    ``cells`` has for each published number the columns that tell it apart, published, ours (or NaN) and difference.
    """

    title: str
    cells: pd.DataFrame
    sentence: str
    comparable: bool

    @property
    def shown(self) -> pd.DataFrame:
        """What has a number of ours beside it, three columns a measure; where both have means, only these."""
        rows = self.cells.dropna(subset="ours")
        if "dataset" in rows and rows["dataset"].eq("macro").any():
            rows = rows[rows["dataset"] == "macro"].drop(columns="dataset")
        sides = ["published", "ours", "difference"]
        heads = [c for c in ("measure", "k") if c in rows]
        named = [c for c in rows if c not in (*heads, *sides)]
        if not heads or not named or rows.empty:
            return rows.reset_index(drop=True)
        head = rows[heads].astype(str).replace("<NA>", "").agg("@".join, axis=1).str.removesuffix("@")
        wide = rows.assign(head=head).pivot(index=named, columns="head", values=sides).swaplevel(axis=1)
        lines = rows[named].drop_duplicates()
        index = pd.MultiIndex.from_frame(lines) if len(named) > 1 else pd.Index(lines[named[0]])
        return wide.reindex(index=index, columns=pd.MultiIndex.from_product([head.unique(), sides])).reset_index()

    def to_csv(self) -> str:
        """Return all cells as CSV, those included that have none of ours."""
        return str(self.cells.to_csv(index=False, lineterminator="\n"))

    def to_latex(self) -> str:
        """Return the shown cells as LaTeX (booktabs), the sentence in the caption."""
        table = self.shown.set_axis(
            [" ".join(filter(None, c)) if isinstance(c, tuple) else c for c in self.shown], axis=1
        )
        return latex(table, f"{self.title}. {self.sentence}")

    def __repr__(self) -> str:
        """Show the table as text."""
        shown = self.shown
        return f"{self.title}\n{shown.to_string(index=False, formatters=formats(shown), na_rep='')}\n{self.sentence}"

    def _repr_html_(self) -> str:
        return f"<p><b>{html.escape(self.title)}</b></p>{self.html}"

    @property
    def html(self) -> str:
        """The table and the sentence, without the title."""
        shown = self.shown
        table = shown.to_html(index=False, escape=True, na_rep="", border=0, formatters=formats(shown))
        return f"{table}<p>{html.escape(self.sentence)}</p>"


def formats(table: pd.DataFrame, *, printed: bool = False) -> dict[Any, Any]:
    """Return how each column is written, all its numbers with the same decimals.

    Published ones (all, or columns called so) as printed; ours with one, or three digits where all are below 1.
    """
    found: dict[Any, Any] = {}
    for column in table.select_dtypes("number"):
        values = table[column].dropna()
        as_printed = printed or str(column[-1] if isinstance(column, tuple) else column).endswith("published")
        if (values == values.round()).all():
            found[column] = "{:.0f}".format
        elif values.abs().max() < 1:
            found[column] = "{:.3g}".format
        else:
            found[column] = ("{:.2f}" if as_printed and not np.allclose(values, values.round(1)) else "{:.1f}").format
    return found


def latex(table: pd.DataFrame, caption: str, *, printed: bool = False) -> str:
    """Return a table as LaTeX (booktabs) without an index, numbers as :func:`formats` has them."""
    options: dict[str, Any] = {"caption": escape(caption), "formatters": formats(table, printed=printed), "na_rep": ""}
    return str(table.to_latex(index=False, escape=True, **options))


def beside(
    table: str,
    ours: Experiment | pd.DataFrame,
    setting: Setting,
    *,
    version: str = "v2",
    stand_in: Mapping[str, str] | None = None,
) -> Beside:
    """Put ours beside every number of a published table, and say in one sentence whether they can be compared.

    Numbers are paired by the columns that both tables have.

    Args:
        table: the table's number.
        ours: an experiment or its table, whose systems are read as strings ("minilm+mmr:0.9" is minilm's list, MMR), or
            a frame with some of the columns corpus, retriever, system, dataset, measure and k, and value in the unit of
            the published numbers.
        setting: what ours was measured with; what the table does not depend on may stay empty.
        version: "v1" or "v2" of BeRDS, or "pir".
        stand_in: our name → the published one that it stands for, such as {"minilm": "contriever"}.
    """
    numbers = published_table(table, version)
    title = f"{VERSIONS[version][0]}, Table {numbers['table'].iloc[0]}: {numbers['title'].iloc[0]}"
    found = long_table(ours)
    there = set(found[[c for c in KEYS if c in found]].astype(str).to_numpy().ravel())
    names = {mine: theirs for mine, theirs in (stand_in or {}).items() if mine in there}
    if "system" in found and numbers["system"].eq("").all():  # a table of retrievers has nothing for our chains
        found = found[found["system"] == ""]
    renamed = found.assign(**{c: found[c].replace(names) for c in KEYS if c in found and c not in ("measure", "k")})
    asked = numbers.assign(system=numbers["system"].where(~numbers["system"].isin(_AS_FOUND), ""))
    varied = [c for c in KEYS if numbers[c].nunique(dropna=False) > 1]
    keys = [c for c in KEYS if c in found and numbers[c].astype(str).replace("<NA>", "").ne("").any()]
    if renamed.duplicated(keys).any():
        twice = renamed.loc[renamed.duplicated(keys), keys].iloc[0].to_dict()
        raise InputError(f"Table {table}: two of our numbers stand for {twice}")
    paired = asked.merge(renamed[[*keys, "value"]], how="left", on=keys, suffixes=("", "_ours"))
    cells = numbers[varied].assign(published=numbers["value"], ours=paired["value_ours"].to_numpy())
    cells["difference"] = (cells["ours"] - cells["published"]).round(9)
    searched = set(numbers.loc[cells["ours"].notna(), "corpus"]) - {""}
    theirs = _setting_of(numbers)
    if "corpus" in keys or searched == {setting.corpus}:  # paired by corpus, or the only one
        theirs = theirs._replace(corpus="")
    words = zip(
        ("other questions", "another corpus", "another judge", "other retrievers"), setting, theirs, strict=True
    )
    differing = [f"{word} ({mine}, not {paper})" for word, mine, paper in words if paper and mine != paper]
    if names:
        differing.append(f"with {', '.join(f'{mine} for {paper}' for mine, paper in names.items())}")
    beside_them = int(cells["ours"].notna().sum())
    comparable = bool(beside_them) and not differing
    why = "the same questions, corpus, judge and retrievers" if comparable else "; ".join(differing)
    sentence = (
        f"{'C' if comparable else 'Not c'}omparable ({beside_them} of {len(cells)} numbers have ours beside them)"
    )
    return Beside(title, cells, f"{sentence}: {why}." if beside_them else f"{sentence}.", comparable)


def _setting_of(numbers: pd.DataFrame) -> Setting:
    """Return what a table was measured with: as usual, or as layouts.csv says; what it does not depend on is empty."""
    every = read_shipped("layouts").set_index("title")
    own = Setting(*every.loc[numbers["title"].iloc[0], list(Setting._fields)])
    return own if any(own) else PIR_SETTING if numbers["paper"].iloc[0] == "PIR" else BERDS_SETTING


def long_table(ours: Experiment | pd.DataFrame) -> pd.DataFrame:
    """Return an experiment's table in the columns of the published ones, percent; any other frame as it is.

    >>> rows = [("minilm+mmr:0.9", "macro", "MRecall@5", 0.5)]
    >>> long_table(pd.DataFrame(rows, columns=["system", "dataset", "measure", "mean"])).values.tolist()
    [['minilm', 'mmr', 'macro', 'MRecall', 5, 50.0]]
    """
    table = ours.table if isinstance(ours, Experiment) else ours
    if "mean" not in table:
        return table
    retriever, _, step = zip(*(str(s).partition("+") for s in table["system"]), strict=True)
    # A chain of several steps, which the papers do not have, stays as it is; "pap+" is one step.
    words = [s if re.search(r"\+[a-z]", s) else s.partition(":")[0] for s in step]
    measure, _, k = zip(*(str(m).partition("@") for m in table["measure"]), strict=True)
    return pd.DataFrame(
        {
            "retriever": retriever,
            "system": ["query-expansion" if word == "expand" else word for word in words],
            "dataset": table["dataset"].to_numpy(),
            "measure": ["p-Recall" if m == "pRecall" else m for m in measure],
            "k": pd.array([int(cut) for cut in k], dtype="Int64"),
            "value": table["mean"].to_numpy() * 100,
        }
    )


@cache
def _numbers(version: str) -> pd.DataFrame:
    text = pd.read_csv(shipped("published") / f"{VERSIONS[version][1]}.csv", dtype=str, keep_default_na=False)
    return text.assign(k=pd.to_numeric(text["k"], errors="coerce").astype("Int64"), value=text["value"].astype(float))

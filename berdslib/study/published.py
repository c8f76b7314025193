"""The numbers printed in the BeRDS and PIR papers, and a comparison with ours.

The numbers lie in data/published, one a row; its README.md says where they come from and which are suspicious.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import pandas as pd

from berdslib.errors import InputError, known
from berdslib.paths import shipped

# What a version is called in a message, and the file that holds its numbers.
VERSIONS = {"v1": ("BeRDS v1", "berds_v1"), "v2": ("BeRDS v2", "berds_v2"), "pir": ("PIR", "pir")}


class Comparison(NamedTuple):
    """One of our numbers beside a published one; as text, a line for a reader.

    Args:
        label: what is compared, such as "Table 3 · Wikipedia · BM25 · MRecall@5".
        ours: our number, in the unit of the published one.
        published: the number as printed.
        difference: ours minus published.
        tolerance: the largest difference, either way, that counts as agreement.
        verdict: "within tolerance", "MISS" or "not comparable".
        why: the reason for "not comparable", or a remark.
    """

    label: str
    ours: float
    published: float
    difference: float
    tolerance: float
    verdict: str
    why: str = ""

    def __str__(self) -> str:
        line = f"{self.verdict}  {self.label}: ours {self.ours:.6g}, published {self.published:.6g}"
        if self.verdict != "not comparable":
            line += f" ({self.difference:+.6g}; tolerance ±{self.tolerance:.6g})"
        return f"{line}: {self.why}" if self.why else line


def published_table(table: str, version: str = "v2") -> pd.DataFrame:
    """Return the numbers of one published table.

    Args:
        table: its number in that version of the paper, "3" or "Table 3".
        version: "v1" or "v2" of BeRDS, which number their tables differently, or "pir" for the PIR paper.

    Returns:
        One row a number, in the printed order, with the columns of the file: text, "" where a column does not apply,
        but `k` (Int64, missing where there is none) and `value` (float, in the printed unit: percent stays percent).

    Raises:
        InputError: an unknown version or table, with a list of those there are.
        MissingDataError: the published numbers do not come with this installation.
    """
    numbers = _numbers(known("version", version, VERSIONS))
    wanted = str(table).strip().removeprefix("Table").strip()
    name = known(f"table of {VERSIONS[version][0]}", wanted, numbers["table"].unique())
    return numbers[numbers["table"] == name].reset_index(drop=True)


def published_value(table: str, *, version: str = "v2", **where: str | float) -> float:
    """Return the one published number that the conditions single out.

    Args:
        table: the table's number.
        version: "v1", "v2" or "pir".
        where: column = value, such as ``corpus="wikipedia", retriever="bm25", dataset="arguana", measure="MRecall"``.

    Raises:
        InputError: an unknown table or column, or not exactly one number matches.

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


def check(
    label: str, ours: float, published: float, tolerance: float, *, comparable: bool = True, why: str = ""
) -> Comparison:
    """Compare one of our numbers with a published one; a mismatch is reported, neither raised nor hidden.

    Args:
        label: what is compared.
        ours: our number; not-a-number is a miss.
        published: the published number, in the same unit.
        tolerance: the largest difference, either way, that counts as agreement.
        comparable: False where data, corpus or judge differ so much that agreement would mean nothing.
        why: the reason, required where the numbers are not comparable.

    Raises:
        InputError: a tolerance below 0, or numbers called not comparable without a reason.

    >>> print(check("Table 3 · Wikipedia · BM25 · MRecall@5", 12.1, 10.8, 0.5))
    MISS  Table 3 · Wikipedia · BM25 · MRecall@5: ours 12.1, published 10.8 (+1.3; tolerance ±0.5)
    """
    if not tolerance >= 0:
        raise InputError(f"{tolerance} is not a tolerance; it must be at least 0", field="tolerance")
    if not comparable and not why.strip():
        raise InputError(f"{label}: say why the numbers are not comparable", field="why")
    difference = round(float(ours) - float(published), 9)  # 0.5 shall be 0.5, not 0.5000000000000004
    verdict = "within tolerance" if abs(difference) <= tolerance else "MISS"
    return Comparison(
        label, float(ours), float(published), difference, tolerance, verdict if comparable else "not comparable", why
    )


def comparisons(rows: Iterable[Comparison]) -> pd.DataFrame:
    """Return comparisons as a table, one row each, misses included.

    Args:
        rows: what `check` returned.

    Returns:
        The columns label, ours, published, difference, tolerance, verdict, why.
    """
    return pd.DataFrame(list(rows), columns=list(Comparison._fields))


@cache
def _numbers(version: str) -> pd.DataFrame:
    text = pd.read_csv(shipped("published") / f"{VERSIONS[version][1]}.csv", dtype=str, keep_default_na=False)
    return text.assign(k=pd.to_numeric(text["k"], errors="coerce").astype("Int64"), value=text["value"].astype(float))

"""Tables of PerspectiveArg: means at each cut-off, and systems ranked with intervals and tests.

Many queries ask about one issue, from one property after another, and are not independent. Intervals and tests
therefore draw, or turn round, all queries of an issue together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ir_measures.measures import Measure
from tqdm.auto import tqdm

from berdslib.data.records import issue_of
from berdslib.data.scenario import Scenario
from berdslib.errors import InputError, known
from berdslib.evaluation.arguments import RELEVANCE_MEASURES
from berdslib.evaluation.measures import official_rKL, rKL
from berdslib.files import StrPath, write_text
from berdslib.stats import holm, mean_interval, paired_test
from berdslib.version import __version__

RELEVANCE, DIVERSITY = "relevance", "diversity"
_SMALLER_IS_BETTER = (rKL.NAME, official_rKL.NAME)


def track(measure: Measure | str) -> str:
    """Return which of the task's two evaluations a measure belongs to, "relevance" or "diversity".

    >>> track("official_P@4"), track("alpha_nDCG@20")
    ('relevance', 'diversity')
    """
    return RELEVANCE if _name(measure) in RELEVANCE_MEASURES else DIVERSITY


def at_cutoffs(scores: Mapping[str, pd.DataFrame], scenario: Scenario) -> pd.DataFrame:
    """Return the means over all queries: a row for each system and cut-off, a column for each measure.

    Args:
        scores: system → frame (qid x measure), see :func:`berdslib.evaluation.arguments.evaluate_arguments`.
        scenario: what was scored.

    Returns:
        Frame system, k, the measures without their cut-off, synthetic (whether the data are).

    Raises:
        InputError: no scores, scores of other queries, or a measure without cut-off.
    """
    _check(scores, scenario)
    rows: dict[tuple[str, int], dict[str, float]] = {}
    for system, frame in scores.items():
        for name in frame.columns:
            measure, at, k = str(name).rpartition("@")
            if not at:
                raise InputError(f"{name} needs a cut-off, such as {name}@20", field="measures")
            rows.setdefault((system, int(k)), {})[measure.strip()] = float(frame[name].mean())
    order = {system: place for place, system in enumerate(scores)}
    ordered = sorted(rows, key=lambda row: (order[row[0]], row[1]))
    means = [{"system": system, "k": k, **rows[system, k]} for system, k in ordered]
    return pd.DataFrame(means).assign(synthetic=scenario.release.synthetic)


def leaderboard(
    scores: Mapping[str, pd.DataFrame], scenario: Scenario, by: Measure | str = "nDCG@20", *, seed: int = 0
) -> pd.DataFrame:
    """Rank systems by the mean of a measure, with intervals, each of them tested against the best.

    The task's main measures are nDCG (relevance) and alpha-nDCG (diversity). Of rKL less is better.

    Args:
        scores: system → frame (qid x measure), see :func:`berdslib.evaluation.arguments.evaluate_arguments`.
        scenario: what was scored.
        by: a measure that has been computed.
        seed: of the test.

    Returns:
        Frame place (equal means share one), system, measure, mean, low and high (95 %, over issues; NaN
        where there is only one), difference from the best and p_value (paired randomisation test over issues,
        Holm-corrected; both NaN for the best), n queries, issues, synthetic (whether the data are).

    Raises:
        InputError: no scores, scores of other queries, or a measure that was not computed.
    """
    _check(scores, scenario)
    name = str(by)
    columns = {
        system: frame[known("measure", name, map(str, frame.columns))].to_numpy() for system, frame in scores.items()
    }
    issues = [issue_of(q) for q in scenario.questions]
    means = {system: float(values.mean()) for system, values in columns.items()}
    sign = -1 if _name(name) in _SMALLER_IS_BETTER else 1
    best, *others = sorted(means, key=lambda system: (-sign * means[system], system))
    draws: dict[str, Any] = {"clusters": issues, "seed": seed}
    rows, raw = [], list[float]()
    for system in tqdm((best, *others), desc=f"ranking by {name}", unit="system", delay=2, leave=False):
        low, high = mean_interval(columns[system], clusters=issues)
        place = 1 + sum(sign * mean > sign * means[system] for mean in means.values())
        difference = np.nan if system == best else means[system] - means[best]
        rows.append((place, system, name, means[system], low, high, difference))
        raw += [] if system == best else [paired_test(columns[system], columns[best], **draws)]
    table = pd.DataFrame(rows, columns=["place", "system", "measure", "mean", "low", "high", "difference"])
    table["p_value"] = [np.nan, *holm(raw)]
    return table.assign(n=len(issues), issues=len(set(issues)), synthetic=scenario.release.synthetic)


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return a leaderboard as it is printed: mean and interval in one column, named after the measure.

    Args:
        table: of :func:`leaderboard`.
    """
    spans = [f"{row.mean:.3f} [{row.low:.3f}, {row.high:.3f}]" for row in table.itertuples(name="Row")]
    best = table["p_value"].isna()
    short = pd.DataFrame({"place": table["place"], "system": table["system"], table["measure"].iloc[0]: spans})
    short["difference"] = np.where(best, "", table["difference"].map("{:+.3f}".format))
    short["p (Holm)"] = np.where(best, "", table["p_value"].map("{:.4f}".format))
    return short


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table for a JSON file, which knows no NaN: what was not computed is null."""
    found: list[dict[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    return found


def settings(scenario: Scenario, definitions: str | None = None) -> dict[str, Any]:
    """Return what figures of a scenario depend on, as it is written beside them.

    Args:
        scenario: what was scored.
        definitions: whose measures these are, in a word or two; None where nothing was measured.
    """
    return {
        "release": scenario.release.name,
        "synthetic": scenario.release.synthetic,
        "scenario": scenario.rule,
        "split": scenario.split,
        "ranked_for": scenario.ranked_for,
        "n": len(scenario.questions),
        **({} if definitions is None else {"definitions": definitions}),
        "berdslib": __version__,
    }


def write_results(
    folder: StrPath, scores: Mapping[str, pd.DataFrame], scenario: Scenario, definitions: str
) -> list[Path]:
    """Write the means of systems as the task reports them: an evaluation of relevance, and one of diversity.

    Args:
        folder: gets relevance.csv and diversity.csv (system, k, a column for each measure, synthetic), of which one is
            not written where none of its measures is there, and results.json: the same with the settings. Files of
            these names in it are replaced, or removed.
        scores: as :func:`at_cutoffs`.
        scenario: what was scored.
        definitions: whose measures these are, in a word or two.

    Returns:
        What was written.

    Raises:
        InputError: as :func:`at_cutoffs`, or nothing can be written there.
    """
    folder, written = Path(folder), []
    found: dict[str, Any] = {"settings": settings(scenario, definitions)}
    for name in (RELEVANCE, DIVERSITY):
        own = {s: frame[[m for m in frame.columns if track(str(m)) == name]] for s, frame in scores.items()}
        if all(frame.columns.empty for frame in own.values()):
            continue
        table = at_cutoffs(own, scenario)
        found[name] = records(table)
        with write_text(folder / f"{name}.csv") as file:
            table.to_csv(file, index=False, lineterminator="\n")
        written.append(folder / f"{name}.csv")
    with write_text(folder / "results.json") as file:
        json.dump(found, file, indent=1, ensure_ascii=False)
        file.write("\n")
    for name in {RELEVANCE, DIVERSITY} - found.keys():
        (folder / f"{name}.csv").unlink(missing_ok=True)  # another run's would look like this one's
    return [*written, folder / "results.json"]


def _name(measure: Measure | str) -> str:
    """Return what a measure is called without its parameters and its cut-off."""
    return str(measure).partition("@")[0].partition("(")[0].strip()


def _check(scores: Mapping[str, pd.DataFrame], scenario: Scenario) -> None:
    if not scores:
        raise InputError("at least one system's scores are needed", field="scores")
    qids = [q.qid for q in scenario.questions]
    for system, frame in scores.items():
        if frame.index.tolist() != qids:
            problem = f"those of {system!r} are not of the queries of {scenario.name!r} ({scenario.split}), in order"
            raise InputError(problem, field="scores")

"""Scenarios of PerspectiveArg that fit on a page, and random ones."""

from berdslib.data.arguments import ISSUES, PROPERTIES, Argument, ArgumentQuery, Release
from berdslib.data.records import ranked_run
from berdslib.data.scenario import open_scenario

GROUP = "political_attitude"


def small_scenario(authors, answers, *, asked=None, rule=None, texts=None):
    """Return a scenario with one query, "q", over arguments d0, d1, …

    Args:
        authors: for each argument its author's profile; or a text, in which each letter is a political attitude, and
            "-" says that it is not known.
        answers: the numbers of those that answer the query; None if that is kept back.
        asked: the properties that the query names.
        rule: "explicit" if the query names a property, else "baseline".
        texts: of the arguments, all different if not given.
    """
    profiles = [{GROUP: (one,)} if one not in ("-", {}) else {} for one in authors] if type(authors) is str else authors
    ids = [f"d{i}" for i in range(len(profiles))]
    arguments = [Argument(d, texts[i] if texts else d, "?", "PRO", p) for i, (d, p) in enumerate(zip(ids, profiles))]  # noqa: B905
    query = ArgumentQuery("q", "?", "dev", asked or {}, None if answers is None else tuple(ids[i] for i in answers))
    queries = ((), (query,)) if asked else ((query,), ())
    return open_scenario(Release("small", tuple(arguments), *queries), rule or ("explicit" if asked else "baseline"))


def listing(scenario, numbers, qid="q"):
    """Return a run that lists the arguments with these numbers."""
    return ranked_run({qid: [scenario.docnos[f"d{i}"] for i in numbers]})


def random_release(rng, n=60, issues=3, groups=4, known=0.8):
    """Return a release with profiles that have gaps, political issues that overlap, and texts that repeat."""

    def profile():
        found = {}
        for name in PROPERTIES:
            names = [f"{name} {i}" for i in range(groups)]
            values = [one for one in names if rng.random() < 0.4] if name == ISSUES else [rng.choice(names)]
            if rng.random() < known and values:
                found[name] = tuple(map(str, values))
        return found

    arguments = [
        Argument(f"a{i:03d}", f"text {rng.integers(n)}", f"issue {rng.integers(issues)}", "PRO", profile())
        for i in range(n)
    ]
    baseline, perspective = [], []
    for issue in sorted({one.issue for one in arguments}):
        mine = [one for one in arguments if one.issue == issue]
        baseline.append(ArgumentQuery(f"b {issue}", issue, "dev", {}, tuple(one.docno for one in mine)))
        for name in PROPERTIES:
            for value in sorted({value for one in mine for value in one.profile.get(name, ())}):
                answers = tuple(one.docno for one in mine if value in one.profile.get(name, ()))
                perspective.append(ArgumentQuery(f"p{len(perspective)}", issue, "dev", {name: (value,)}, answers))
    return Release("random", tuple(arguments), tuple(baseline), tuple(perspective))


def random_run(rng, scenario, longest=30):
    """Return a run with lists of random length; some queries have none."""
    docnos = [p.docno for p in scenario.passages]
    return ranked_run(
        {q.qid: [str(d) for d in rng.permutation(docnos)[: rng.integers(longest)]] for q in scenario.questions}
    )

"""What a release holds, in counts: no profile, and no value of one, is part of it."""

from __future__ import annotations

from typing import Any

from berdslib.data.arguments import AUTHOR, PROPERTIES, Profile, Release


def summarise(release: Release) -> dict[str, Any]:
    """Return how much of what a release holds, and how much is not known.

    Args:
        release: arguments and queries.

    Returns:
        release, synthetic, ranked_for, arguments, issues; queries: a row for each kind and split with how many there
        are and how many come with their answers; unknown: property → how many arguments lack it; contradictions, see
        :func:`contradictions`, or None where the release is ranked for the reader.
    """
    kinds = {"baseline": release.baseline, "perspective": release.perspective}
    queries = [
        {
            "kind": kind,
            "split": split,
            "queries": sum(q.split == split for q in found),
            "with_answers": sum(q.split == split and q.relevant is not None for q in found),
        }
        for kind, found in kinds.items()
        for split in dict.fromkeys(q.split for q in found)
    ]
    return {
        "release": release.name,
        "synthetic": release.synthetic,
        "ranked_for": release.ranked_for,
        "arguments": len(release.arguments),
        "issues": len({one.issue for one in release.arguments}),
        "queries": queries,
        "unknown": {name: sum(name not in one.profile for one in release.arguments) for name in PROPERTIES},
        "contradictions": contradictions(release) if release.ranked_for == AUTHOR else None,
    }


def contradictions(release: Release) -> dict[str, int]:
    """Count relevant arguments whose author is known not to be what the query asks for.

    Args:
        release: ranked for the author; for a reader, an argument of anybody may be relevant.

    Returns:
        relevant: pairs of a perspective query and an argument that answers it; contradicting: those in which the
        profile has the property with none of the values asked for; queries: with such a pair.
    """
    profiles = {one.docno: one.profile for one in release.arguments}
    wrong = {
        q.qid: sum(_contradicts(profiles[docno], q.asked) for docno in q.relevant or ()) for q in release.perspective
    }
    return {
        "relevant": sum(len(q.relevant or ()) for q in release.perspective),
        "contradicting": sum(wrong.values()),
        "queries": sum(n > 0 for n in wrong.values()),
    }


def _contradicts(profile: Profile, asked: Profile) -> bool:
    """Say whether a property is known and none of its values is asked for; what is not known contradicts nothing."""
    return any(name in profile and not set(values) & set(profile[name]) for name, values in asked.items())

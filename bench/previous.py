"""Compares this run's ratios with those of the previous release, which `release.json` contains.

Ratios are computed within one run, so they can be compared between machines. Only ratios with a
target are compared, because the target also tells whether a higher or a lower value is better.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.frame import Measured, Target

FILE = Path(__file__).parent / "release.json"
TOLERANCE = 0.1


class ReleaseRatios(msgspec.Struct, frozen=True):
    version: str
    medians: dict[str, dict[str, float]]  # by row and comparison


class Slower(msgspec.Struct, frozen=True):
    """A ratio that is worse than in the previous release by more than the tolerance."""

    row: str
    comparison: str
    before: float
    now: float


def load(file: Path = FILE) -> ReleaseRatios | None:
    return msgspec.json.decode(file.read_bytes(), type=ReleaseRatios) if file.exists() else None


def save(version: str, rows: Sequence[Measured], file: Path = FILE) -> None:
    """Stores the medians of this run. Rows that were not measured keep their previous values."""
    known = load(file)
    medians = dict(known.medians) if known is not None else {}
    for measured in rows:
        medians[measured.row.name] = {
            comparison.name: round(measured.median(comparison), 3)
            for comparison in measured.row.comparisons
            if comparison.target is not None
        }
    content = msgspec.json.encode(ReleaseRatios(version, medians))
    file.write_bytes(msgspec.json.format(content) + b"\n")


def slower(rows: Sequence[Measured], release: ReleaseRatios) -> list[Slower]:
    found = []
    for measured in rows:
        before = release.medians.get(measured.row.name, {})
        for comparison in measured.row.comparisons:
            target, old = comparison.target, before.get(comparison.name)
            if target is None or old is None:
                continue
            now = measured.median(comparison)
            if _is_worse(target, old, now):
                found.append(Slower(measured.row.name, comparison.name, old, now))
    return found


def _is_worse(target: Target, before: float, now: float) -> bool:
    if target.at_most:
        return now > before * (1 + TOLERANCE)
    return now < before * (1 - TOLERANCE)

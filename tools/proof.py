"""Generates the tables of docs/proof.md from stored results. `make docs` rewrites them.

- `tests/simulation/results.jsonl`: one line for each run of the simulation.
- `tests/simulation/findings.json`: the errors that the simulation has found.
- Other tables come from files of other checks, if the files exist. Each of these files contains a
  list of rows, or an object with a `note` and a list of `rows`.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DISRUPTIONS = ROOT / "deploy/ha/results.json"
DISRUPTION_COLUMNS = {
    "kind": "Disruption",
    "count": "Count",
    "longest_interruption_seconds": "Longest interruption (s)",
    "elections": "Elections",
    "longest_recovery_seconds": "Longest time after an election (s)",
    "unavailable": "503",
    "wrong_responses": "Other responses",
    "lost": "Lost",
    "doubled": "Doubled",
}
MOVES = ROOT / "deploy/cells/results.json"
MOVE_COLUMNS = (
    *("Move", "Killed after step", "Other processes killed", "Taken back", "Gap in the cells"),
    *("Gap for the merchant", "503"),
)
RESULTS = ROOT / "tests/simulation/results.jsonl"
FINDINGS = ROOT / "tests/simulation/findings.json"
NONE = "No results are stored yet.\n"


def simulation_runs() -> str:
    """Returns the runs of each version with the seeds that failed, and the sum in the last row."""
    runs = _runs()
    if not runs:
        return NONE
    versions: dict[str, list[Any]] = {}
    for run in runs:
        versions.setdefault(run["version"], []).append(run)
    rows = [_row(f"`{version}`", of_version) for version, of_version in versions.items()]
    rows.append([*_row("all", runs)[:-1], ""])
    columns = ("Version", "Runs", "Minutes", "Rounds", "Operations", "Faults", "Passed")
    return table((*columns, "Seeds that failed"), rows)


def _row(name: str, runs: Sequence[Any]) -> list[str]:
    failed = [run for run in runs if run["outcome"] != "passed"]
    return [
        name,
        f"{len(runs):,}",
        f"{sum(run['seconds'] for run in runs) / 60:,.1f}",
        f"{sum(run['rounds'] for run in runs):,}",
        f"{sum(sum(run['operations'].values()) for run in runs):,}",
        f"{sum(sum(run['faults'].values()) for run in runs):,}",
        f"{len(runs) - len(failed):,}",
        ", ".join(_failure(run) for run in failed),
    ]


def _failure(run: Any) -> str:
    """Returns the seed, without the explanation if Manilla itself failed."""
    explanation = run["outcome"].removeprefix("failed").removeprefix(", because of ")
    return f"`{run['seed']}`" + (f" ({explanation})" if explanation else "")


def simulation_faults() -> str:
    return _counts("Fault", (run["faults"] for run in _runs()))


def simulation_operations() -> str:
    return _counts("Operation", (run["operations"] for run in _runs()))


def _counts(title: str, counted: Iterable[dict[str, int]]) -> str:
    total: Counter[str] = Counter()
    for counts in counted:
        total.update(counts)
    rows = [(name, f"{number:,}") for name, number in sorted(total.items())]
    return table((title, "Number"), rows) if rows else NONE


def simulation_findings() -> str:
    return _stored(FINDINGS, "No error in Manilla has been found yet.\n")


def mutations() -> str:
    return _stored(ROOT / "docs/proof/mutations.json")


def high_availability() -> str:
    if not DISRUPTIONS.exists():
        return NONE
    found = json.loads(DISRUPTIONS.read_text())
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    sentences = [
        f"{found['date']}, seed {found['seed']}, with {versions}.",
        f"{found['disruptions']} disruptions in {found['minutes']:.0f} minutes.",
        f"Acknowledged payouts: {found['payouts_acknowledged']:,}.",
        f"Acknowledged payments: {found['payments_acknowledged']:,}.",
        f"Acknowledged writes that were lost: {found['lost']}.",
        f"Doubled transfers: {found['doubled']}.",
        "Time from an election to the next acknowledged write:",
        f"{found['recovery_median_seconds']} s (median),",
        f"{found['recovery_max_seconds']} s (highest).",
        "The [manual](operating/high-availability.md#test) describes the disruptions.",
    ]
    note = " ".join(sentences)
    rows = [[_cell(kind.get(name)) for name in DISRUPTION_COLUMNS] for kind in found["kinds"]]
    return f"{note}\n\n{table(list(DISRUPTION_COLUMNS.values()), rows)}"


def moves(file: Path = MOVES) -> str:
    """Returns the moves between two cells as a table, below a summary of the run."""
    if not file.exists():
        return NONE
    found = json.loads(file.read_text())
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    numbers = ", ".join(f"{number:,} {kind}s" for kind, number in found["acknowledged"].items())
    findings = found["findings"]
    sentences = [
        f"{found['date']}, seed {found['seed']}, with {versions}: {len(found['moves'])} moves in"
        f" {found['minutes']:.0f} minutes, with {found['requests']:,} API requests.",
        f"The machine had {found['cores']} cores and a load average of {found['load_average']}.",
        f"Acknowledged: {numbers}.",
        f"Acknowledged requests that were lost: {len(findings['lost'])}.",
        f"Doubled transfers: {len(findings['doubled'])}.",
        f"Of {found['events']:,} events and {found['deliveries']:,} deliveries,"
        f" {findings['events_missing']} were missing,"
        f" {len(findings['events_out_of_order'])} out of order,"
        f" {findings['repeats_wrong']} repeated without a killed worker, and"
        f" {findings['repeats_allowed']} repeated because a worker was killed.",
        f"Differences from the model: {len(findings['violations'])}.",
        f"Failed checks of the books: {len(findings['books'])}.",
    ]
    rows = [
        [
            f"{move['source']} to {move['target']}",
            "; ".join(move["command_kills"]) or "-",
            ", ".join(move["process_kills"]) or "-",
            str(move["aborted"]),
            _seconds(move["reported_gap_seconds"]),
            _seconds(None if move["was_stalled"] else move["gap_seconds"]),
            str(move["unavailable"]),
        ]
        for move in found["moves"]
    ]
    return f"{' '.join(sentences)}\n\n{table(MOVE_COLUMNS, rows)}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


TABLES = {
    "simulation runs": simulation_runs,
    "simulation faults": simulation_faults,
    "simulation operations": simulation_operations,
    "simulation findings": simulation_findings,
    "mutations": mutations,
    "high availability": high_availability,
}


def _runs() -> list[Any]:
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def _stored(file: Path, none: str = NONE) -> str:
    """Returns the rows of a results file as a table, below its note."""
    if not file.exists():
        return none
    found = json.loads(file.read_text())
    rows = found if isinstance(found, list) else found.get("rows", [])
    note = "" if isinstance(found, list) else found.get("note", "")
    if not rows:
        return note + "\n" if note else none
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = table(
        [name.replace("_", " ").capitalize() for name in names],
        [[_cell(row.get(name, "")) for name in names] for row in rows],
    )
    return f"{note}\n\n{text}" if note else text


def _cell(value: Any) -> str:
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines).replace("| --- ", "|---")

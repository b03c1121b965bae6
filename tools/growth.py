"""Generates the table of docs/operating/growth.md from `bench/growth.json`. `make docs` writes it.

`make bench-growth STORE=1` stores the results of a run.
"""

import json
from pathlib import Path
from typing import Any

from tools.proof import NONE, table

FILE = Path(__file__).parents[1] / "bench/growth.json"


def operations() -> str:
    """Returns the table of all runs: one column with the CPU time and one with buffers for each."""
    runs = json.loads(FILE.read_bytes()) if FILE.exists() else []
    if not runs:
        return NONE
    small = runs[0]["small"]
    heads = ["Operation"]
    for run in runs:
        heads += [f"CPU time, {run['large']:,} / {small:,}", f"Pages, {small:,} → {run['large']:,}"]
    names = list(dict.fromkeys(each["name"] for run in runs for each in run["operations"]))
    rows = [[f"`{name}`", *(cell for run in runs for cell in _cells(run, name))] for name in names]
    notes = [f"- {run['large']:,}: {run['date']}, {run['machine']}.\n" for run in runs]
    return table(heads, rows) + "\n" + "".join(notes)


def _cells(run: Any, name: str) -> tuple[str, str]:
    found = [each for each in run["operations"] if each["name"] == name]
    if not found:
        return "", ""
    [operation] = found
    cost, (few, many) = operation["cost"], operation["buffers"]
    shown = f"{cost['median']:.2f}"
    if cost["low"] != cost["high"]:
        shown += f" ({cost['low']:.2f} to {cost['high']:.2f})"
    missed = "" if cost["median"] <= operation["maximum"] else ", missed"
    return f"{shown}{missed}", f"{few:,.1f} → {many:,.1f}"

"""Compares what two versions store: `python -m tests.differential --base COMMIT --events 100000`.

Both versions run the tests' helpers of their own tree. Only this package is the same for both.
"""

import argparse
import tempfile
from pathlib import Path

from tests.differential.playing import compare

PRINTED_MAX = 60


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--base", required=True, help="the commit of the other version")
    parser.add_argument("--events", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="manilla-differential-") as folder:
        differences = compare(wanted.base, Path(folder), wanted.seed, wanted.events)
    print(*differences[:PRINTED_MAX], sep="\n")
    print(f"{wanted.events} events, {len(differences)} rows differ.")
    raise SystemExit(1 if differences else 0)


if __name__ == "__main__":
    main()

"""Builds the cluster of `deploy/ha` on this machine and disrupts it under load: `make ha`.

The program needs root, because it gives each host its own network and disk. As root, it also
installs the Debian packages that are missing.
"""

import argparse
import asyncio
import os
import random
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from manilla.kit import time_limits
from manilla.kit.time_limits import TimeLimits
from tests.faults.payout_instance import PayoutInstance
from tests.ha import etcd, report
from tests.ha.cluster import FILES, DatabaseCluster
from tests.ha.disruptions import KINDS, Disruption, Stage, disrupt
from tests.ha.hosts import TOOLS, isolated
from tests.ha.load import Load
from tests.support import packages, results

PATRONI = Path(__file__).parents[2] / ".venv-ha"
ETCD = PATRONI / "etcd"  # where Debian's package is unpacked
PACKAGES = {"haproxy": "haproxy", "ip": "iproute2"}
# The kinds that take little time are repeated more often.
COUNTS = {
    "primary killed": 11,
    "primary's host frozen": 6,
    "switchover": 11,
    "packets dropped": 6,
    "etcd lost": 5,
    "both standbys lost": 9,
    "disk full": 6,
}


def missing() -> str | None:
    """Returns the reason why the cluster cannot run on this machine, or None."""
    if os.geteuid() != 0:
        return "only root can give each host its own network and disk"
    if absent := [name for name in (*PACKAGES, *TOOLS) if not shutil.which(name)]:
        names = sorted({PACKAGES.get(name, "util-linux") for name in absent})
        return f"{', '.join(absent)} not found; Debian's packages are {', '.join(names)}"
    if not (PATRONI / "bin" / "python").exists():
        return "Patroni is not installed; `make ha` installs it"
    return None if etcd.find(ETCD) else etcd.missing()


def main() -> None:
    wanted = _arguments()
    if not wanted.inside:
        if os.geteuid() == 0 and (absent := [PACKAGES[n] for n in PACKAGES if not shutil.which(n)]):
            packages.install(*absent)
        if etcd.find(ETCD) is None:
            etcd.download(ETCD)
        if reason := missing():
            sys.exit(f"The cluster cannot run: {reason}.")
        command = isolated(sys.executable, "-m", "tests.ha", "--inside", *sys.argv[1:])
        os.execvp(command[0], command)
    # Manilla runs with its own time limits, and not with the longer limits of the tests.
    for name in [name for name in os.environ if name.startswith("MANILLA_")]:
        del os.environ[name]
    time_limits.use(TimeLimits())
    # etcd, Patroni and PostgreSQL run as another user, who must read what this program writes.
    os.umask(0o022)
    folder = wanted.logs or Path(tempfile.mkdtemp(prefix="manilla-ha-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Logs: {folder}", flush=True)
    result = asyncio.run(_run(folder, wanted))
    print(report.table(result))
    results.write(result, wanted.output)
    print(f"Written to {wanted.output}")
    if not result.is_good:
        sys.exit("The cluster did not keep its guarantees; see the file.")
    if wanted.logs is None:
        shutil.rmtree(folder)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.ha", description=__doc__)
    parser.add_argument("--rounds", type=int, help="disruptions of each kind, instead of 54 in all")
    parser.add_argument("--minutes", type=float, default=240, help="start none after this time")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=random.randrange(1, 1_000_000))
    parser.add_argument("--output", type=Path, default=FILES / "results.json")
    parser.add_argument("--logs", type=Path, help="write the logs here, and keep them")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


async def _run(folder: Path, wanted: argparse.Namespace) -> report.Result:
    began = time.monotonic()
    program = etcd.find(ETCD)
    assert program is not None
    cluster = await DatabaseCluster(folder, PATRONI, program).open()
    os.environ.update(cluster.environment)
    running = PayoutInstance(folder)
    await running.open()
    load = Load(running)
    async with load.calling():
        disruptions = await _disrupt_all(Stage(cluster, load), wanted)
    totals = await report.check(running, load)
    about = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "seed": wanted.seed,
        "versions": _versions(program),
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    await running.close()
    await cluster.close()
    return report.summarize(load, totals, disruptions, about)


async def _disrupt_all(stage: Stage, wanted: argparse.Namespace) -> list[Disruption]:
    planned = [kind for kind in wanted.kinds for _ in range(wanted.rounds or COUNTS[kind])]
    random.Random(wanted.seed).shuffle(planned)
    done: list[Disruption] = []
    deadline = time.monotonic() + wanted.minutes * 60
    while planned and time.monotonic() < deadline:
        found = await disrupt(stage, planned.pop())
        done.append(found)
        if found.was_stalled:
            planned.append(found.kind)
        recoveries = ", ".join(f"{seconds:.1f} s" for seconds in found.recovery_seconds)
        print(
            f"{len(done):3} {found.kind}: {found.interruption_seconds:.1f} s without writes,"
            f" {found.elections} elections, served after {recoveries or '-'}"
            f"{', stalled' if found.was_stalled else ''}",
            flush=True,
        )
    return done


def _versions(program: Path) -> dict[str, str]:
    python = PATRONI / "bin" / "python"
    return {
        "Patroni": results.version_of(python, "-m", "patroni", "--version"),
        "etcd": results.version_of(program, "--version"),
        "HAProxy": results.version_of("haproxy", "-v"),
    }


if __name__ == "__main__":
    main()

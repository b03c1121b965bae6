"""Finds an etcd that does not revoke the locks of other hosts, or downloads it from Debian.

An etcd leader that was frozen and continues must not revoke leases: the leases are Patroni's locks.
Earlier versions revoke them (https://github.com/etcd-io/etcd/issues/15247), so that a former
primary takes the lock back without the new primary's commits. The cluster never runs with them.
"""

import re
import shutil
import subprocess
from pathlib import Path

from tests.support import packages

# The first safe version of each series. All later series are safe.
SAFE = ((3, 4, 31), (3, 5, 13))
PACKAGE = "etcd-server"
RELEASE = "trixie"  # the first Debian release with a safe version
NEEDED = ", ".join(".".join(map(str, version)) for version in SAFE)

Version = tuple[int, ...]


def is_safe(version: Version) -> bool:
    return version >= SAFE[-1] or any(
        version[:2] == first[:2] and version >= first for first in SAFE
    )


def version_of(program: Path) -> Version:
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"^etcd Version: (\d+)\.(\d+)\.(\d+)", output.stdout, re.MULTILINE)
    assert found is not None, f"{program} does not print its version"
    return tuple(map(int, found.groups()))


def find(downloaded: Path) -> Path | None:
    """Returns the machine's own etcd if it is safe, otherwise the etcd in the given folder."""
    own = shutil.which("etcd")
    programs = [Path(own)] if own else []
    programs.append(downloaded / "usr/bin/etcd")
    return next((each for each in programs if each.exists() and is_safe(version_of(each))), None)


def download(folder: Path) -> None:
    print(f"Downloading etcd from Debian's release {RELEASE}.", flush=True)
    packages.unpack(PACKAGE, RELEASE, folder)


def missing() -> str:
    """Returns the reason why there is no etcd to run."""
    own = shutil.which("etcd")
    reason = "etcd is not installed"
    if own:
        version = ".".join(map(str, version_of(Path(own))))
        reason = f"etcd {version} loses acknowledged writes after a host was frozen"
    return (
        f"{reason}, and {PACKAGE} cannot be downloaded from Debian's release {RELEASE};"
        f" install etcd {NEEDED} or later"
    )

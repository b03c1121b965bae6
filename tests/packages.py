"""Installs Debian packages that tests need, if the tests run as root."""

import os
import shutil
import subprocess


def install(*names: str) -> None:
    """Installs the packages without starting their services. Does nothing for other users."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        apt = ["apt-get", "install", "-qq", "--no-install-recommends", *names]
        run(apt) or (run(["apt-get", "update", "-qq"]) and run(apt))


def run(command: list[str]) -> bool:
    print("$", *command, flush=True)
    # With this run level, Debian's packages do not start their services.
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    done = subprocess.run(
        command,
        check=False,
        stdout=subprocess.DEVNULL,
        timeout=600,
        env={**os.environ, **quiet},
    )
    return done.returncode == 0

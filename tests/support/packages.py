"""Installs Debian packages that tests need, if the tests run as root."""

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

COMPONENT = "main"


def install(*names: str) -> None:
    """Installs the packages without starting their services. Does nothing for other users."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        apt = ["apt-get", "install", "-qq", "--no-install-recommends", *names]
        run(apt) or (_update() and run(apt))


def unpack(name: str, release: str, folder: Path) -> bool:
    """Unpacks a package of another Debian release into the folder, and installs nothing.

    The package comes from the mirror of this machine's own packages. apt verifies its signature
    and keeps its lists in a temporary folder, so the machine's other packages are not affected.
    """
    if not shutil.which("apt-get") or (mirror := _mirror()) is None:
        return False
    with tempfile.TemporaryDirectory(prefix="manilla-apt-") as temporary:
        own = Path(temporary)
        for part in ("lists/partial", "cache/archives/partial"):
            (own / part).mkdir(parents=True)
        sources = own / "sources.list"
        sources.write_text(f"deb [target=Packages] {mirror} {release} {COMPONENT}\n")
        settings = {
            "Dir::Etc::sourcelist": sources,
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": own / "lists",
            "Dir::Cache": own / "cache",
            "APT::Sandbox::User": "root",  # Other users cannot write to the temporary folder.
        }
        apt = ["apt-get", "-qq"]
        for setting, value in settings.items():
            apt += ["-o", f"{setting}={value}"]
        if not (run([*apt, "update"]) and run([*apt, "download", name], folder=own)):
            return False
        [package] = own.glob("*.deb")
        return run(["dpkg-deb", "--extract", str(package), str(folder)])


def _mirror() -> str | None:
    """Returns the URL that apt downloads this machine's Debian release from."""
    wanted = (
        "Created-By: Packages",
        f"Component: {COMPONENT}",
        f"Release: {platform.freedesktop_os_release().get('VERSION_CODENAME')}",
    )
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted]

    def find() -> list[str]:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        return found.stdout.split()

    # apt knows no targets before the first update.
    found = find() or (find() if _update() else [])
    return found[0] if found else None


def _update() -> bool:
    return run(["apt-get", "update", "-qq"])


def run(command: list[str], folder: Path | None = None) -> bool:
    print("$", *command, flush=True)
    # With this run level, Debian's packages do not start their services.
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    done = subprocess.run(
        command,
        check=False,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        timeout=600,
        env={**os.environ, **quiet},
    )
    return done.returncode == 0

"""Installs pinned requirements: `python3 tools/install.py VENV REQUIREMENTS [EDITABLE ...]`.

The script runs with the system's interpreter, before anything is installed. It uses uv if uv is
installed, and otherwise the system's pip, because Debian's python3 may come without ensurepip. The
requirements file lists every dependency with its hash, so nothing has to be resolved, and several
pip processes can install in parallel.
"""

# With this import, an older Python can run the script until its version is checked.
from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

OLDEST = (3, 11)
PIPS_MAX = 4
NOTE_SECONDS = 5  # the interval in seconds between progress lines if the output is not a terminal
ERROR_LINES = 20


class Failed(Exception):
    """An installer process failed. Its output has already been printed."""


class Environment:
    def __init__(self, folder: Path) -> None:
        self.python = folder / "bin" / "python"
        if not self.python.exists():
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self._packages = next(folder.glob("lib/python*/site-packages"))

    def installed(self) -> dict[str, str]:
        found = {}
        for path in self._packages.glob("*.dist-info"):
            name, _, version = path.name.removesuffix(".dist-info").partition("-")
            found[normalized(name)] = version
        return found

    def forget_interrupted(self) -> None:
        """Deletes the metadata of partly installed packages, so that they are installed again.

        Installers write the file INSTALLER last, so a package without it is incomplete.
        """
        for path in self._packages.glob("*.dist-info"):
            if not (path / "INSTALLER").exists():
                shutil.rmtree(path)


class Requirement:
    def __init__(self, text: str) -> None:
        self.text = text
        name, _, version = text.partition("==")
        self.name = normalized(name)
        self.version = re.split(r"[\s;\\]", version, maxsplit=1)[0]


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.partition("[")[0]).lower()


def parse(text: str) -> list[Requirement]:
    """Splits a requirements file into requirements. Each requirement starts in the first column."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    blocks = re.split(r"^(?=[A-Za-z0-9])", "\n".join(lines), flags=re.MULTILINE)
    return [Requirement(block) for block in blocks if block.strip()]


class Progress:
    """Reports progress in one line on a terminal, otherwise with a new line every few seconds."""

    def __init__(self, environment: Environment, total: int) -> None:
        self.collected = 0
        self._environment = environment
        self._total = total
        self._before = len(environment.installed())
        self._began = self._noted = time.monotonic()

    def show(self) -> None:
        now = time.monotonic()
        if not sys.stdout.isatty() and now - self._noted < NOTE_SECONDS:
            return
        self._noted = now
        installed = min(self._total, len(self._environment.installed()) - self._before)
        counts = f"{self.collected} collected, " if self.collected else ""
        self._print(f"  {self._total} packages: {counts}{installed} installed, {self._seconds} s")

    def end(self) -> None:
        self._print(f"  {self._total} packages are installed, {self._seconds} s", last=True)

    @property
    def _seconds(self) -> int:
        return round(time.monotonic() - self._began)

    def _print(self, line: str, *, last: bool = False) -> None:
        if sys.stdout.isatty():
            print(f"\r\033[K{line}", end="\n" if last else "", flush=True)
        else:
            print(line, flush=True)


class Installer:
    def __init__(self, command: Sequence[object], progress: Progress) -> None:
        self._progress = progress
        self._lines: list[str] = []
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # uv must use this environment's interpreter instead of downloading one.
            env={**os.environ, "UV_PYTHON_DOWNLOADS": "never"},
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)
            self._progress.collected += line.startswith("Collecting ")

    def is_running(self) -> bool:
        return self._reader.is_alive() or self._process.poll() is None

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def has_failed(self) -> bool:
        return not self.is_running() and self._process.returncode != 0

    def print_error(self) -> None:
        print("\n", *self._lines[-ERROR_LINES:], sep="", file=sys.stderr)


def run_together(commands: Iterable[Sequence[object]], progress: Progress) -> None:
    """Runs the commands in parallel. If one command fails, stops the others and raises Failed."""
    running = [Installer(command, progress) for command in commands]
    try:
        while any(each.is_running() for each in running):
            if any(each.has_failed() for each in running):
                break
            progress.show()
            time.sleep(0.1)
        failed = [each for each in running if each.has_failed()]
    finally:
        for each in running:
            if each.is_running():
                each.stop()
    if failed:
        failed[0].print_error()
        raise Failed


def find_uv() -> str | None:
    """Returns the path of uv, or None if uv is not installed or cannot run."""
    path = shutil.which(os.environ.get("UV", "uv") or "none")
    return path if path and runs(path) else None


def runs(*command: str) -> bool:
    done = subprocess.run([*command, "--version"], capture_output=True, check=False)
    return done.returncode == 0


def with_uv(uv: str, environment: Environment, file: Path, editables: list[str]) -> None:
    install = [uv, "pip", "install", "--quiet", "--python", environment.python, "--no-deps"]
    progress = Progress(environment, len(parse(file.read_text())) + len(editables))
    run_together([[*install, "--require-hashes", "--requirement", file]], progress)
    if editables:
        run_together([[*install, *_editable(editables)]], progress)
    progress.end()


def with_pip(environment: Environment, file: Path, editables: list[str]) -> None:
    if not runs(sys.executable, "-m", "pip"):
        sys.exit("Neither uv nor pip was found. Install one, for example Debian's python3-pip.")
    pip = [sys.executable, "-m", "pip", "--python", environment.python]
    install = [*pip, "--disable-pip-version-check", "install", "--no-compile", "--no-deps"]
    present = environment.installed()
    wanted = [each for each in parse(file.read_text()) if present.get(each.name) != each.version]
    # All replacements are installed by one process: pip must find the versions that it replaces.
    added = [each for each in wanted if each.name not in present]
    replaced = [each for each in wanted if each.name in present]
    pips = min(PIPS_MAX, (os.cpu_count() or 1) + 1)
    progress = Progress(environment, len(wanted) + len(editables))
    with tempfile.TemporaryDirectory() as folder:

        def command(part: list[Requirement], name: str, *options: str) -> list[object]:
            (Path(folder) / name).write_text("".join(each.text for each in part))
            hashed = ("--require-hashes", "--requirement", Path(folder) / name)
            return [*install, *options, *hashed]

        parts = [added[number::pips] for number in range(pips)]
        run_together(
            [
                command(part, f"added-{number}", "--ignore-installed")
                for number, part in enumerate(parts)
                if part
            ],
            progress,
        )
        if replaced:
            run_together([command(replaced, "replaced")], progress)
    if editables:
        run_together([[*install, *_editable(editables)]], progress)
    progress.end()


def _editable(folders: list[str]) -> list[str]:
    words = [word for folder in folders for word in ("--editable", folder)]
    return ["--no-build-isolation", *words]


def main() -> None:
    if sys.version_info < OLDEST:
        needed, found = (".".join(map(str, each)) for each in (OLDEST, sys.version_info[:2]))
        sys.exit(f"Python {needed} or newer is required; {sys.executable} is {found}.")
    parser = argparse.ArgumentParser()
    parser.add_argument("venv", type=Path)
    parser.add_argument("requirements", type=Path)
    parser.add_argument("editable", nargs="*")
    words = parser.parse_args()
    uv = find_uv()
    print(f"Installing {words.requirements} with {'uv' if uv else 'pip'} ...", flush=True)
    environment = Environment(words.venv)
    environment.forget_interrupted()
    try:
        if uv:
            try:
                return with_uv(uv, environment, words.requirements, words.editable)
            except Failed:
                print("uv failed; trying pip, which may be configured differently ...", flush=True)
        with_pip(environment, words.requirements, words.editable)
    except Failed:
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

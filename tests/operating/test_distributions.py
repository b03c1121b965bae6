"""A production installation has only the platform. Simulator and client are separate packages."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

# This code hides packages from the interpreter, as if they were not installed.
WITHOUT = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("manilla_simulator", "manilla_client"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
"""


def test_the_platforms_wheel_contains_neither_simulator_nor_client(
    project: Path, tmp_path: Path
) -> None:
    build = f"from flit_core.buildapi import build_wheel; print(build_wheel({str(tmp_path)!r}))"
    done = run("-c", build, at=project)
    with zipfile.ZipFile(tmp_path / done.stdout.splitlines()[-1]) as wheel:
        names = wheel.namelist()
    packages = {name.split("/")[0] for name in names if name.endswith(".py")}
    assert packages == {"manilla"}
    assert not [name for name in names if "simulator" in name or "/shop/" in name]


def test_every_process_can_be_imported_without_them(project: Path) -> None:
    modules = "manilla.app, manilla.worker, manilla.cli.running.up, manilla.cli.running.programs"
    check = f"{WITHOUT}\nimport {modules}\nfrom manilla import development\n"
    done = run("-c", f"{check}print(development.find())", at=project)
    assert done.stdout == "None\n", done.stderr


@pytest.mark.parametrize(
    ("words", "package"),
    [
        (["simulator"], "manilla-simulator"),
        (["verify-signature", "--signature", "00"], "manilla-client"),
    ],
)
def test_a_command_without_its_package_says_what_to_install(
    project: Path, words: list[str], package: str
) -> None:
    command = f"sys.argv = {['manilla', *words]}\nfrom manilla.cli.main import main\nmain()"
    done = run("-c", f"{WITHOUT}\n{command}", at=project, expected=1)
    assert f"Install the package {package}" in done.stderr


def run(*words: str, at: Path, expected: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=at, timeout=120)
    assert done.returncode == expected, done.stderr
    return done

"""A production installation has only the platform. Simulator and client are separate packages."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools import wheels

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
    names = contents(wheels.build(project, tmp_path))
    packages = {name.split("/")[0] for name in names if name.endswith(".py")}
    assert packages == {"manilla"}
    assert not [name for name in names if "simulator" in name or "/shop/" in name]


@pytest.mark.parametrize(
    ("source", "package"),
    [
        (".", "manilla"),
        ("clients/python", "src/manilla_client"),
        ("simulator", "src/manilla_simulator"),
    ],
)
def test_a_wheel_contains_every_file_of_its_package(
    project: Path, tmp_path: Path, source: str, package: str
) -> None:
    """Pages, static files, fonts and migrations are files of the package."""
    folder = project / source / package
    expected = {
        str(path.relative_to(folder.parent))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = contents(wheels.build(project / source, tmp_path))
    assert {name for name in names if not name.split("/")[0].endswith(".dist-info")} == expected


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


def contents(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def run(*words: str, at: Path, expected: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=at, timeout=120)
    assert done.returncode == expected, done.stderr
    return done

"""The client libraries are separate packages without dependencies."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import wheels

# The program runs without Manilla, imports the whole client library and makes a call.
# The call must fail only because the program cannot connect.
PROGRAM = """
import importlib.util, pathlib, sys
import manilla_client as library
assert "venv" in library.__file__, library.__file__
assert importlib.util.find_spec("manilla") is None
assert (pathlib.Path(library.__file__).parent / "py.typed").exists()
credentials = library.Credentials("test_key", "test_api", "test_secret")
once = library.Retries(attempts_max=1)
with library.Client("http://127.0.0.1:1", credentials, retries=once) as client:
    try:
        client.site_info()
    except library.NoAnswer:
        print("no answer")
"""

# The modules that need the extra `mcp`, and the packages that they import.
EXTRA = {"read_only_server.py": {"mcp", "mcp_types", "pydantic"}}


def test_it_imports_only_the_standard_library(project: Path) -> None:
    for file in (project / "clients/python/src/manilla_client").rglob("*.py"):
        allowed = sys.stdlib_module_names | {"manilla_client"} | EXTRA.get(file.name, set())
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0
                names = [str(node.module)]
            for name in names:
                assert name.split(".")[0] in allowed, (file.name, name)


@pytest.mark.long
def test_its_wheel_works_without_the_platform(project: Path, tmp_path: Path) -> None:
    """Flit builds the wheel, and pip installs the wheel file without network access."""
    base = Path(sys.base_prefix) / "bin" / "python3"
    pip = [str(base), "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("the interpreter has no pip")
    wheel = wheels.build(project / "clients" / "python", tmp_path)
    run(str(base), "-m", "venv", "--without-pip", str(tmp_path / "venv"), at=tmp_path)
    python = str(tmp_path / "venv" / "bin" / "python")
    alone = ["--no-index", "--no-deps", "--no-cache-dir", "--disable-pip-version-check"]
    run(*pip, "--python", python, "install", "--quiet", *alone, str(wheel), at=tmp_path)
    assert run(python, "-I", "-c", PROGRAM, at=tmp_path) == "no answer\n"


def test_each_php_class_is_in_the_file_that_psr_4_demands(project: Path) -> None:
    source = project / "clients/php/src"
    declared = re.compile(r"^(?:final |abstract )?(?:class|trait|interface) (\w+)", re.MULTILINE)
    for file in source.rglob("*.php"):
        text, folder = file.read_text(), file.relative_to(source).parent
        assert "\ndeclare(strict_types=1);\n" in text, file
        if file.name != "config.php":
            namespace = "\\".join(("Manilla", *folder.parts))
            assert f"\nnamespace {namespace};\n" in text, file
            assert declared.findall(text) == [file.stem]


def run(*command: str, at: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=at, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout

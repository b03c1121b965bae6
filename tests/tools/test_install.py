"""`tools/install.py` installs exactly the pinned versions, even after an interrupted run."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools import install

BASE = Path(sys.base_prefix) / "bin" / "python3"
TWO = """\
first[extra]==1.0 ; sys_platform == 'linux' \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via something
Second_Package==2.0 \\
    --hash=sha256:cc
"""


def test_each_requirement_keeps_its_hashes() -> None:
    first, second = install.parse("# a comment\n" + TWO)
    assert (first.name, first.version) == ("first", "1.0")
    assert (second.name, second.version) == ("second-package", "2.0")
    assert ("aa" in first.text, "bb" in first.text, "cc" in first.text) == (True, True, False)
    assert "via" not in first.text


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_pinned_requirement_is_found(project: Path, name: str) -> None:
    text = (project / name).read_text()
    found = install.parse(text)
    assert len(found) == len(re.findall(r"^[^\s#]+==", text, re.MULTILINE)) > 50
    assert all(each.version and "--hash=sha256:" in each.text for each in found)


class Project:
    """A folder with a requirements file for two small local wheels, which need no network."""

    def __init__(self, folder: Path, installer: str) -> None:
        self.folder = folder
        self._installer = installer
        (folder / "wheels").mkdir(parents=True)

    def require(self, **versions: str) -> None:
        pins = [
            f"{each}=={versions[each]} --hash={self._wheel(each, versions[each])}\n"
            for each in versions
        ]
        (self.folder / "requirements.txt").write_text("".join(pins))

    def install(self) -> "subprocess.CompletedProcess[str]":
        wheels = str(self.folder / "wheels")
        offline = {"PIP_NO_INDEX": "1", "UV_NO_INDEX": "1", "UV_NO_CACHE": "1"}
        # pip splits the variable's value at spaces.
        links = {"PIP_FIND_LINKS": f"file://{wheels.replace(' ', '%20')}", "UV_FIND_LINKS": wheels}
        return subprocess.run(
            [str(BASE), str(Path(install.__file__)), ".venv", "requirements.txt"],
            cwd=self.folder,
            env={**os.environ, **offline, **links, "UV": self._installer},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def module(self, name: str) -> Path:
        return next(self.folder.glob(".venv/lib/python*/site-packages")) / f"{name}.py"

    def interrupt(self, name: str) -> None:
        """Simulates an interrupted installation: metadata exists, but some files are missing."""
        self.module(name).unlink()
        for file in self.module(name).parent.glob(f"{name}-*.dist-info/INSTALLER"):
            file.unlink()

    def _wheel(self, name: str, version: str) -> str:
        path = self.folder / "wheels" / f"{name}-{version}-py3-none-any.whl"
        info = f"{name}-{version}.dist-info"
        files = {
            f"{name}.py": f"version = {version!r}\n",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = [f"{each},{_digest(files[each])},{len(files[each])}\n" for each in files]
        files[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"])
        with zipfile.ZipFile(path, "w") as wheel:
            for each in files:
                wheel.writestr(each, files[each])
        return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def _digest(content: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest())
    return f"sha256={digest.decode().rstrip('=')}"


@pytest.fixture(params=["pip", "uv"])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    if request.param == "uv" and install.find_uv() is None:
        pytest.skip("uv is not installed")
    if subprocess.run(
        [BASE, "-m", "pip", "--version"], capture_output=True, check=False
    ).returncode:
        pytest.skip("pip is not installed; Debian's package is python3-pip")
    return Project(tmp_path / "with spaces", "uv" if request.param == "uv" else "")


@pytest.mark.long
def test_packages_are_installed_replaced_and_completed_after_an_interruption(
    small: Project,
) -> None:
    small.require(alpha="1.0", beta="1.0")
    done = small.install()
    assert "2 packages are installed" in done.stdout, done
    small.interrupt("alpha")
    small.require(alpha="1.0", beta="2.0")
    done = small.install()
    assert done.returncode == 0, done
    assert small.module("alpha").read_text() == "version = '1.0'\n"
    assert small.module("beta").read_text() == "version = '2.0'\n"
    assert not list(small.module("beta").parent.glob("beta-1.0*"))


@pytest.mark.long
def test_a_package_with_another_hash_is_refused(small: Project) -> None:
    small.require(alpha="1.0", beta="1.0")
    with zipfile.ZipFile(small.folder / "wheels" / "beta-1.0-py3-none-any.whl", "a") as wheel:
        wheel.writestr("beta_more.py", "")
    done = small.install()
    assert done.returncode == 1, done
    assert "hash" in done.stderr.lower()
    assert not small.module("beta").exists()


def test_a_uv_that_does_not_run_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = tmp_path / "uv"
    shutil.copy("/bin/false", shim)
    monkeypatch.setenv("UV", str(shim))
    assert install.find_uv() is None

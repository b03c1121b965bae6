"""Builds the wheels of the platform, the client and the simulator: `make wheels`.

The folder also gets a requirements file, with which pip installs the wheels and the pinned versions
of everything that they need. Every line has hashes, so pip rejects a package from an index that
has the name and version of one of these wheels.
"""

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
# Maps what pip installs to the folder of its source.
DISTRIBUTIONS = {
    "manilla[demo,embedded]": ".",
    "manilla-client": "clients/python",
    "manilla-simulator": "simulator",
}


def build(source: Path, folder: Path) -> Path:
    """Builds the wheel of the distribution in `source`, and returns the wheel's path."""
    flit = [sys.executable, "-m", "flit_core.wheel", "--outdir", str(folder), str(source)]
    done = subprocess.run(flit, capture_output=True, text=True, check=True)
    wheel = folder / Path(done.stdout.splitlines()[-1]).name
    wheel.chmod(0o644)  # flit_core creates a file that only its owner can read
    return wheel


def build_all(folder: Path) -> Path:
    """Builds all wheels into `folder`, and returns the path of its requirements file."""
    lines = ["--find-links ."]
    for name, source in DISTRIBUTIONS.items():
        wheel = build(PROJECT / source, folder)
        version = wheel.name.split("-")[1]
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines.append(f"{name}=={version} --hash=sha256:{digest}")
    requirements = folder / "requirements.txt"
    pinned = (PROJECT / "requirements.txt").read_text()
    requirements.write_text("\n".join([*lines, pinned]))
    return requirements


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    requirements = build_all(parser.parse_args().folder)
    print(f"To install the wheels, run: pip install --requirement {requirements}")


if __name__ == "__main__":
    main()

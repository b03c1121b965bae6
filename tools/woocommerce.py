"""Checks the plugin for WooCommerce, and builds its zip: `python -m tools.woocommerce [FILE]`.

Two plugins with different versions of the PHP client must not use each other's classes. Therefore
the zip contains the client in the plugin's own namespace.
"""

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

PLUGIN, CLIENT = Path("plugins/woocommerce"), Path("clients/php")
SLUG = "manilla-for-woocommerce"
NAMESPACE = r"ManillaForWooCommerce\Client"
# The zip must be the same whenever it is built.
MADE_AT = (2026, 1, 1, 0, 0, 0)
# Money is never a float, and a customer's request never sleeps.
FORBIDDEN = re.compile(r"\bfloatval\(|\bsleep\(|\bdoubleval\(")


def contents() -> dict[str, bytes]:
    """Returns the files of the zip."""
    files = {
        path.relative_to(PLUGIN).as_posix(): path.read_bytes()
        for path in sorted(PLUGIN.rglob("*"))
        if path.is_file() and "tests" not in path.relative_to(PLUGIN).parts
    }
    source = CLIENT / "src"
    for path in sorted(source.rglob("*.php")):
        name = path.relative_to(source)
        if name.parts[0] != "Laravel":
            files[f"vendor/manilla/{name.as_posix()}"] = path.read_bytes()
    files["vendor/manilla/LICENSE"] = (CLIENT / "LICENSE").read_bytes()
    return {
        name: renamed(content) if name.endswith(".php") else content
        for name, content in files.items()
    }


def renamed(source: bytes) -> bytes:
    """Moves the client's namespace into the plugin's."""
    # The namespace appears as `Manilla\Name`, as `\Manilla\Name` and in `namespace Manilla;`.
    pattern = r"(?<![\w\\])(\\?)Manilla(?=\\|;)"
    return re.sub(pattern, lambda found: found[1] + NAMESPACE, source.decode()).encode()


def write(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents().items():
            archive.writestr(zipfile.ZipInfo(f"{SLUG}/{name}", MADE_AT), content)


def problems(files: Mapping[str, bytes]) -> Iterator[str]:
    main, readme = files[f"{SLUG}.php"].decode(), files["readme.txt"].decode()
    versions = {
        *re.findall(r"^ \* Version: (\S+)", main, re.MULTILINE),
        *re.findall(r"'MANILLA_WC_VERSION', '(\S+)'", main),
        *re.findall(r"^Stable tag: (\S+)", readme, re.MULTILINE),
    }
    if len(versions) != 1:
        yield f"the versions differ: {sorted(versions)}"
    for name, content in files.items():
        if name.startswith("src/") and FORBIDDEN.search(content.decode()):
            yield f"{name}: {FORBIDDEN.pattern} is not allowed"


def lint() -> Iterator[str]:
    """Parses each file with PHP, if PHP is installed."""
    if shutil.which("php") is None:
        return
    for path in sorted(PLUGIN.rglob("*.php")):
        done = subprocess.run(
            ["php", "-n", "-l", path], capture_output=True, text=True, check=False
        )
        if done.returncode:
            yield f"{path}: {done.stdout}{done.stderr}"


def main(words: list[str]) -> None:
    found = [*problems(contents()), *lint()]
    if found:
        raise SystemExit("\n".join(found))
    if words:
        write(Path(words[0]))


if __name__ == "__main__":
    main(sys.argv[1:])

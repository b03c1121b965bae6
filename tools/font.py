"""Creates the fonts of pages and PDFs from Inter: `python -m tools.font`. Needs npm and network.

The script downloads Inter from npm, keeps the characters and weights that the pages use, and writes
the fonts to manilla/web/static/fonts (pages) and manilla/web/fonts (PDFs, in two weights). The same
versions produce the same bytes. fontTools runs in a separate environment, because writing WOFF2
needs brotli, which nothing else in Manilla needs.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FONTS = Path("manilla/web/static/fonts")
PDF_FONTS = Path("manilla/web/fonts")
PDF_WEIGHTS = {"Inter-Regular.ttf": "wght=400", "Inter-Bold.ttf": "wght=700"}
INTER = "inter-ui@4.1.1"
TOOLS = ("fonttools==4.68.0", "brotli==1.2.0")
# The pages use font weights from 400 to 700, and the optical size for body text.
AXES = ("wght=400:700", "opsz=14")
# A PDF needs the font without the compression of WOFF2.
UNPACK = (
    "import sys; from fontTools.ttLib import TTFont;"
    " font = TTFont(sys.argv[1], recalcTimestamp=False);"
    " font.flavor = None; font.save(sys.argv[2])"
)
CHARACTERS = (
    "U+0020-007E,U+00A0-00FF",  # Latin and Latin-1
    # These characters occur in Hausa, Igbo and Yoruba names.
    "U+0181,U+018A,U+0198,U+0199,U+01B3,U+01B4,U+0253,U+0257,U+0300-0304,U+1E44,U+1E45,U+1E62,"
    "U+1E63,U+1EB8,U+1EB9,U+1ECA-1ECD,U+1EE4,U+1EE5",
    "U+20A6,U+20AC",  # naira and euro
    "U+2010-2014,U+2018-201A,U+201C-201E,U+2020-2022,U+2026,U+2032,U+2033,U+2039,U+203A",
    "U+2122,U+2190-2193,U+2197,U+2212,U+2248,U+2260,U+2264,U+2265,U+2713",
)
FEATURES = "kern,mark,mkmk,ccmp,locl,calt,liga,case,tnum"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package = _download(folder)
        python = _install_tools(folder)
        narrow, made = folder / "narrow.ttf", folder / "inter.woff2"
        source = package / "variable" / "InterVariable.woff2"
        _run(
            python,
            "-m",
            "fontTools.varLib.instancer",
            source,
            *AXES,
            "-o",
            narrow,
            "--no-recalc-timestamp",
        )
        options = [
            f"--unicodes={','.join(CHARACTERS)}",
            f"--layout-features={FEATURES}",
            "--flavor=woff2",
            f"--output-file={made}",
        ]
        _run(python, "-m", "fontTools.subset", narrow, *options)
        for file_name, weight in PDF_WEIGHTS.items():
            whole = folder / file_name
            static = [source, weight, "opsz=14", "-o", whole, "--no-recalc-timestamp"]
            _run(python, "-m", "fontTools.varLib.instancer", *static)
            subset = [f"--unicodes={','.join(CHARACTERS)}", f"--output-file={whole}"]
            _run(python, "-m", "fontTools.subset", whole, *subset)
            _run(python, "-c", UNPACK, whole, PDF_FONTS / file_name)
        shutil.copy(made, FONTS / "inter.woff2")
        shutil.copy(package / "LICENSE.txt", FONTS / "LICENSE.txt")
    print(f"{FONTS / 'inter.woff2'}: {(FONTS / 'inter.woff2').stat().st_size:,} bytes")


def _download(folder: Path) -> Path:
    _run("npm", "pack", INTER, "--silent", "--pack-destination", folder)
    [archive] = folder.glob("*.tgz")
    shutil.unpack_archive(archive, folder, filter="data")
    return folder / "package"


def _install_tools(folder: Path) -> Path:
    environment = folder / "environment"
    _run(sys.executable, "-m", "venv", environment)
    python = environment / "bin" / "python"
    _run(python, "-m", "pip", "install", "--quiet", *TOOLS)
    return python


def _run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, timeout=600)


if __name__ == "__main__":
    main()

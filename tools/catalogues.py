"""Updates the translations in manilla/languages/catalogues: `python -m tools.catalogues`.

The command finds the texts that customers see, adds them to each language's `.po` file, and
compiles the files to `.mo`. It prints how many texts each language lacks, and with `--missing`
which ones. Pages show such a text in English.

- `--check` changes nothing, and fails if a file is out of date. It is part of `make check`.
- `--add CODE` adds a language, such as `ar`.

A translation must have the placeholders and tags of the English text, so the command fails if one
is missing.
"""

import argparse
import io
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from manilla.languages.language import CATALOGUES

PACKAGE = Path("manilla")
# Which files have texts. The merchants' and operators' pages and emails are in English only.
METHODS = [
    ("checkout/templates/**.html", "jinja2"),
    ("mail/templates/receipt.jinja", "jinja2"),
    ("mail/templates/layout.*", "jinja2"),
    ("**.py", "python"),
]
OPTIONS = {"jinja2": {"trim_blocks": "true", "lstrip_blocks": "true", "silent": "false"}}
# `Decline` is a text that explains a decline to a customer.
KEYWORDS: dict[str, Any] = {
    "_": None,
    "gettext": None,
    "ngettext": (1, 2),
    "pgettext": ((1, "c"), 2),
    "translatable": None,
    "Decline": None,
}
WIDTH = 100
HEADER = """\
# The texts that customers see. `python -m tools.catalogues` updates this file.
#"""
# Placeholders of Python and of the scripts, and tags with their attributes.
_FIXED = re.compile(r"%\(\w+\)s|\{\w+\}|</?\w+[^>]*>")


def main() -> None:
    given = _parser().parse_args()
    texts = read_texts()
    if given.add:
        (CATALOGUES / f"{given.add}.po").touch(exist_ok=False)
    problems = []
    for path in sorted(CATALOGUES.glob("*.po")):
        catalogue = update(path, texts)
        problems += [f"{path.name}: {problem}" for problem in find_errors(catalogue)]
        for file, content in _files(path, catalogue).items():
            if not file.exists() or file.read_bytes() != content:
                if given.check:
                    problems.append(f"{file.name} is out of date: run python -m tools.catalogues")
                else:
                    file.write_bytes(content)
        _report(catalogue, lists=given.missing)
    print(*problems, sep="\n", end="\n" if problems else "")
    raise SystemExit(1 if problems else 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.catalogues")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--add", metavar="CODE")
    return parser


@cache
def read_texts() -> Catalog:
    """Returns all texts in the code and the templates."""
    texts = Catalog()
    found = extract_from_dir(
        PACKAGE, METHODS, OPTIONS, KEYWORDS, comment_tags=("Translators:",), strip_comment_tags=True
    )
    for file, _, text, comments, context in sorted(found, key=lambda each: each[:2]):
        texts.add(text, locations=[(file, 0)], auto_comments=comments, context=context)
    return texts


def update(path: Path, texts: Catalog) -> Catalog:
    """Returns the language's catalogue with the current texts, without texts that are not used."""
    with path.open("rb") as file:
        catalogue = read_po(file, locale=path.stem)
    catalogue.update(texts, no_fuzzy_matching=True, update_creation_date=False)
    catalogue.obsolete.clear()
    catalogue.header_comment = HEADER
    catalogue.project, catalogue.version = "manilla", "1"
    catalogue.fuzzy = False
    return catalogue


def find_errors(catalogue: Catalog) -> Iterator[str]:
    for message in _texts(catalogue):
        english, translations = _strings(message.id), _strings(message.string)
        allowed = {_fixed(text) for text in english}
        if any(text and _fixed(text) not in allowed for text in translations):
            yield f"“{english[0]}” must keep its placeholders and tags"


def _fixed(text: str) -> tuple[str, ...]:
    return tuple(sorted(set(_FIXED.findall(text))))


def missing(catalogue: Catalog) -> list[str]:
    return [
        _strings(message.id)[0]
        for message in _texts(catalogue)
        if not all(_strings(message.string)) or message.fuzzy
    ]


def _texts(catalogue: Catalog) -> list[Message]:
    return [message for message in catalogue if message.id]


def _strings(text: Any) -> tuple[str, ...]:
    return tuple(text) if isinstance(text, (list, tuple)) else (text or "",)


def _files(path: Path, catalogue: Catalog) -> dict[Path, bytes]:
    source, compiled = io.BytesIO(), io.BytesIO()
    write_po(source, catalogue, width=WIDTH, include_lineno=False)
    write_mo(compiled, catalogue)
    return {path: source.getvalue(), path.with_suffix(".mo"): compiled.getvalue()}


def _report(catalogue: Catalog, *, lists: bool) -> None:
    lacking = missing(catalogue)
    print(f"{catalogue.locale}: {len(lacking)} of {len(_texts(catalogue))} texts are missing")
    if lists:
        print(*(f"  {text}" for text in lacking), sep="\n", end="\n" if lacking else "")


if __name__ == "__main__":
    main()

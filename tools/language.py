"""Finds words that readers stumble over: `python -m tools.language [FILE...]`.

Texts, comments and names use the words of the field (docs/glossary.md). Each row below is an
expression that older texts used for something that has a common name, and what to write instead.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SUFFIXES = {".py", ".md", ".html", ".js", ".sql", ".yml", ".toml", ".sh", ".txt", ".css"}
# These quote the words on purpose, or come from elsewhere.
SKIPPED = ("tools/language.py", "LICENSE", "requirements", "manilla/people/common_passwords.txt")

WORDS = {
    r"mend(s|ed|ing)?": "fix",
    r"anew": "again",
    r"befall?s?|befell|befallen": "happen to",
    r"hitherto|thereof|wherefrom|therein|whereupon|heretofore": "a plain word",
    r"(be|is|was|are|were) told of|tell(s|ing)? of|told of": "report, notify, show",
    r"be(come|came|comes) of": "happen to, result",
    r"(a|the) broom": "cleanup",
    r"parked": "failed (job)",
    r"put right": "fix",
    r"at fault": "invalid",
    r"for show": "for the demo",
    r"what there is not": "name it",
    r"of before": "from before",
    r"levelling": "clearing adjustment",
    r"who (has|was|is|had|comes|came) [a-z]+ (must|is|may|gets)": "name the actor",
    r"the rooms? (of|below|above|that)": "package",
}
PATTERN = re.compile(
    "|".join(f"(?P<w{n}>\\b(?:{words})\\b)" for n, words in enumerate(WORDS)), re.IGNORECASE
)
ADVICE = list(WORDS.values())


def main() -> None:
    found = [line for path in _files(sys.argv[1:]) for line in _check(path)]
    print(*found, sep="\n", end="\n" if found else "")
    if found:
        print(f"{len(found)} expressions to replace.", file=sys.stderr)
        raise SystemExit(1)


def _files(named: list[str]) -> Iterator[Path]:
    names = named or subprocess.check_output(["git", "ls-files"], text=True).splitlines()
    for name in names:
        path = Path(name)
        if path.suffix in SUFFIXES and not name.startswith(SKIPPED) and "vendor" not in path.parts:
            yield path


def _check(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        for match in PATTERN.finditer(line):
            advice = ADVICE[int(str(match.lastgroup)[1:])]
            yield f"{path}:{number}: {match[0]!r}: write {advice!r}"


if __name__ == "__main__":
    main()

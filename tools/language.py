"""Finds expressions that readers find hard to understand: `python -m tools.language [FILE...]`.

This check is part of `make check`. Texts, comments and names use the terms of docs/glossary.md.
Each row of WORDS maps an expression from older texts to the common term. A space in an expression
also matches the underscore in a name.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SUFFIXES = {
    ".py",
    ".md",
    ".html",
    ".js",
    ".mjs",
    ".php",
    ".ts",
    ".sql",
    ".yml",
    ".toml",
    ".sh",
    ".txt",
    ".css",
}
# The check skips third-party texts, and files that quote the expressions on purpose.
SKIPPED = (
    *("tools/language.py", "tests/tools/test_language.py", "CHANGELOG.md", "LICENSE"),
    *("requirements", "manilla/people/common_passwords.txt"),
)

WORDS = {
    r"mend(s|ed|ing)?": "fix",
    r"anew|once more|ever again": "again",
    r"befalls?|befell|befallen": "happen to",
    r"hitherto|thereof|wherefrom|therein|whereupon|heretofore|oftener": "a plain word",
    r"(tell(s|ing)?|told|said|hear(s|d)?) of": "report, notify, show",
    r"told": "notified, returned",
    r"be(come|came|comes) of": "happen to, result",
    r"given up": "failed after 3 attempts",
    r"broom": "cleanup",
    r"parked": "failed (job)",
    r"put right": "fix",
    r"at fault": "invalid",
    r"for show": "for the demo",
    r"what there is( not)?|what is not there": "name it",
    r"of before": "from before",
    r"levelling": "clearing adjustment",
    r"who (has|was|is|had|comes|came) [a-z]+ (must|is|may|gets)": "name the actor",
    r"what (is|was) [a-z]+ lines": "name it",
    r"the house": "the system",
    r"the rooms?|rooms? (of|below|above|that)": "package",
    r"at the doors?|the doors? of|doors": "entry points",
    r"desks?": "context, services",
    r"courier": "delivery worker",
    r"cashier|mailroom": "name it",
    r"by hand": "manually",
    r"(leave|leaves|left|leaving) off": "stop",
    r"hand(s|ed|ing)? over": "pass, redirect",
    r"go on|goes on|going on": "continue",
    r"only look": "dry run",
    r"let go": "release",
    r"in turns": "fair scheduling",
    r"to the letter": "exactly",
    r"in small letters": "in lower case",
    r"who(so)?ever asks": "the caller",
    r"must agree": "must approve",
    r"too poor": "insufficient balance",
    r"vitals": "health",
}
# These names are published or stored in the database, so they cannot change.
KEPT = (
    *("parked_at", "job_parked", "jobs_parked", "NOT_PARKED", "only_look", "payout_desk"),
    *("payments_were_told", "refunds_were_told", "payouts_were_told", "payout_by_hand"),
    *("paid by hand", "parked at", "letter_handed_over"),
)


def _expression(number: int, words: str) -> str:
    return rf"(?P<w{number}>{words.replace(' ', '[ _]')})"


# For speed, the pattern matches only at the start of a word.
PATTERN = re.compile(
    rf"(?<![A-Za-z])(?:{'|'.join(map(_expression, range(len(WORDS)), WORDS))})(?![A-Za-z])",
    re.IGNORECASE,
)
IGNORED = re.compile("|".join(map(re.escape, KEPT)), re.IGNORECASE)
ADVICE = list(WORDS.values())


def main() -> None:
    found = [line for path in _files(sys.argv[1:]) for line in check(str(path), path.read_text())]
    print(*found, sep="\n", end="\n" if found else "")
    if found:
        print(f"{len(found)} expressions to replace.", file=sys.stderr)
        raise SystemExit(1)


def _files(named: list[str]) -> Iterator[Path]:
    names = named or subprocess.check_output(["git", "ls-files"], text=True).splitlines()
    for name in names:
        path = Path(name)
        is_text = path.suffix in SUFFIXES or path.name == "Makefile"
        if is_text and not name.startswith(SKIPPED) and "vendor" not in path.parts:
            yield path


def check(name: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        for problem in _problems(line.strip()):
            yield f"{name}:{number}: {problem}"


@cache  # The cache helps because many lines occur in several files.
def _problems(line: str) -> tuple[str, ...]:
    if not PATTERN.search(line):
        return ()
    matches = PATTERN.finditer(IGNORED.sub("", line))
    return tuple(
        f"{match[0]!r}: write {ADVICE[int(str(match.lastgroup)[1:])]!r}" for match in matches
    )


if __name__ == "__main__":
    main()

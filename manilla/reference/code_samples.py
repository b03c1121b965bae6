"""Code on the documentation pages: tested samples, and syntax highlighting."""

import re
import shlex
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
from markupsafe import Markup, escape

from manilla.kit import strict_json
from manilla.web.embed import checkout_script

SAMPLES = Path(str(resources.files("manilla.reference"))) / "samples"


class Language(msgspec.Struct, frozen=True):
    name: str
    folder: str
    ending: str
    command: str  # the command that runs a sample, without the file name


LANGUAGES = (
    Language("curl", "curl", ".sh", "sh"),
    Language("Python", "python", ".py", "python3"),
    Language("PHP", "php", ".php", "php"),
    Language("Node", "node", ".mjs", "node"),
    Language("Go", "go", ".go", "go run"),
    Language("Java", "java", ".java", "java"),
    Language("Python client", "python-client", ".py", "python3"),
)
# Maps endpoints to code samples. The pages of other endpoints show a command instead.
PROGRAMS = {
    "initiatePayment": "sign_and_pay",
    "verifyPayment": "verify_payment",
    "initiatePayout": "payout",
    "initiateRefund": "refund",
    "verifyRefund": "refund",
    **dict.fromkeys(
        ("listPayments", "listPayouts", "listRefunds", "listBalanceTransactions"), "list_payments"
    ),
}

# In a page's sample, this mark stands for the element that loads `checkout.js`.
SCRIPT_MARK = "{{ checkout_script }}"

WORDS = (
    "and async await case catch class const def do done echo else esac except exit export false fi "
    "final for from func function if import in is let new nil not null or package print private "
    "public raise return set static string then throw throws true try type use var while with yield"
)
TOKENS = re.compile(
    r"""(?P<comment>(?:(?<=\s)|^)(?://|\#(?!!/))[^\n]*)
      | (?P<key>"[^"\n\\]*"(?=\s*:\s))
      | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<number>(?<=[\s:=,(\[])\d+(?:\.\d+)?(?=[\s,;)\]}]|$))
      | (?P<word>(?<![\w$.-])(?:"""
    + "|".join(WORDS.split())
    + r""")(?![\w-]))""",
    re.VERBOSE | re.MULTILINE,
)


class Sample(msgspec.Struct, frozen=True):
    language: str
    file: str
    command: str
    text: str


def shop_file(name: str, base_url: str) -> str:
    """Returns a file of the sample shop, whose page shows checkout in a dialog."""
    element = checkout_script.tag(base_url).replace("\n", "\n  ")
    return (SAMPLES / "browser" / name).read_text().replace(SCRIPT_MARK, element)


@cache
def samples(name: str) -> list[Sample]:
    """Returns a code sample in every programming language."""
    return [_sample(language, name) for language in LANGUAGES]


def _sample(language: Language, name: str) -> Sample:
    stem = name.title().replace("_", "") if language.folder == "java" else name
    path = SAMPLES / language.folder / (stem + language.ending)
    return Sample(language.name, path.name, f"{language.command} {path.name}", path.read_text())


def command(method: str, target: str, body: str | None) -> str:
    """Returns the `manilla-client` command that sends the request."""
    data = ["--data", body] if body else []
    return shlex.join(["manilla-client", "request", method, target, *data])


@cache
def highlight(text: str) -> Markup:
    parts: list[Markup | str] = []
    end = 0
    for match in TOKENS.finditer(text):
        parts += [escape(text[end : match.start()]), _span(match)]
        end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def _span(match: re.Match[str]) -> Markup:
    return Markup('<span class="c-{}">{}</span>').format(match.lastgroup, match.group())


def json(value: Any) -> str:
    """Formats a value as indented JSON, keeping the trailing zeros of amounts."""
    return msgspec.json.format(strict_json.encode(value), indent=2).decode()

"""The API as text for language models: a summary at /llms.txt, all details at /llms-full.txt."""

import re
from collections.abc import Mapping
from typing import Any

import jinja2

from manilla.reference.operations import notices, operations
from manilla.reference.pages import TEMPLATES
from manilla.reference.transitions import SANDBOX_ACCOUNTS, SANDBOX_AMOUNTS

# Matches an error code and its text in a response's description in the OpenAPI document.
REFUSAL = re.compile(r"`([A-Za-z_]+)`: (.+?)(?=; `[A-Za-z_]+`: |$)")


def short(document: Mapping[str, Any]) -> str:
    return _render("llms.txt", document)


def full(document: Mapping[str, Any]) -> str:
    """Returns the summary, followed by every field and example."""
    return _render("llms-full.txt", document)


def _render(template: str, document: Mapping[str, Any]) -> str:
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=False,  # noqa: S701 - plain text
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return templates.get_template(template).render(
        info=document["info"],
        base_url=document["servers"][0]["url"],
        operations=operations(document),
        notices=notices(document),
        errors=_errors(document),
        sandbox_accounts=SANDBOX_ACCOUNTS,
        sandbox_amounts=SANDBOX_AMOUNTS,
    )


def _errors(document: Mapping[str, Any]) -> list[tuple[tuple[str, str], list[str]]]:
    """Returns each error's HTTP status and code, with its messages."""
    found: dict[tuple[str, str], list[str]] = {}
    for methods in document["paths"].values():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                for code, text in REFUSAL.findall(response["description"]):
                    texts = found.setdefault((status, code), [])
                    texts += [] if text in texts else [text]
    return sorted(found.items())

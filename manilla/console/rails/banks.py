"""Pages on which administrators map a provider's own bank codes to known banks."""

from collections import Counter
from typing import Any

import msgspec

from manilla.banks import learning
from manilla.banks.learning import RailBank
from manilla.banks.matching import Doubt
from manilla.banks.nigeria import BANKS, BY_ANY_CODE, BY_CODE
from manilla.console.providers import titles
from manilla.kit.errors import Refusal
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

ROWS_SHOWN = 300
NO_BANK = "none"
BANK_OPTIONS = [(bank.code, bank.text, bank.words) for bank in BANKS]
REASONS = {
    None: "Neither the code nor the bank name is known.",
    Doubt.DUPLICATE: "This bank has several codes, or this code has several names.",
    Doubt.RENAMED: "The provider changed the name after the code was mapped. Confirm the bank.",
}


class LearnedList(msgspec.Struct, frozen=True):
    """How many banks a provider account's bank list has, and how many of them are unmatched."""

    provider: str
    title: str
    listed: int
    unmatched: int


async def show_all(request: PageRequest) -> PageResponse:
    rows = [row for row in await learning.load(request.db) if row.is_listed]
    listed = Counter(row.provider for row in rows)
    unmatched = Counter(row.provider for row in rows if row.needs_attention)
    lists = [
        LearnedList(name, title, listed[name], unmatched[name])
        for name, title in titles(request).items()
    ]
    lists.sort(key=lambda each: (-each.unmatched, -each.listed, each.title))
    return request.page("banks.html", lists=lists, known=len(BANKS))


async def show(request: PageRequest) -> PageResponse:
    return request.page("provider_banks.html", **await _about(request))


async def change(request: PageRequest) -> PageResponse:
    """Maps a provider's code to the chosen bank, or to no bank."""
    provider = _provider(request)
    try:
        code, bank = request.form.required("code"), request.form.required("bank")
        wanted = None if bank == NO_BANK else bank
        mapped = await learning.map_code(request.db, provider, code, wanted)
    except Refusal as refusal:
        about = await _about(request)
        return request.form_with_errors("provider_banks.html", refusal, **about)
    means = BY_CODE[mapped.bank].name if mapped.bank else "no bank"
    return request.redirect(f"/banks/{provider}", done=f"The code {code} is now mapped to {means}.")


async def _about(request: PageRequest) -> dict[str, Any]:
    provider = _provider(request)
    rows = await learning.load(request.db, provider)
    wanted = request.query.text("q").casefold()
    found = [row for row in rows if wanted in f"{row.code} {row.name}".casefold()]
    found.sort(key=lambda row: (not row.needs_attention, not row.is_listed, row.name.casefold()))
    code = request.form.text("code") or request.query.text("code")
    return {
        "provider": provider,
        "title": titles(request)[provider],
        "rows": found[:ROWS_SHOWN],
        "hidden": max(0, len(found) - ROWS_SHOWN),
        "chosen": next((row for row in rows if row.code == code), None),
        "banks": [(NO_BANK, "None of the known banks"), *BANK_OPTIONS],
        "bank_of": BY_CODE.get,
        "reason": _reason,
    }


def _provider(request: PageRequest) -> str:
    provider = request.parameter("provider")
    if provider not in request.services.rails.accounts:
        raise PageNotFound
    return provider


def _reason(row: RailBank) -> str:
    """Returns why a provider's code has no bank, or why its bank is not used."""
    owner = BY_ANY_CODE.get(row.code)
    if row.doubt is Doubt.CONTRADICTION and owner is not None:
        return f"The code belongs to {owner.name}, but the name does not."
    return REASONS.get(row.doubt, REASONS[None])

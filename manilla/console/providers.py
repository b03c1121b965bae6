"""Provider pages: rail health, balances, credentials and switches."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from manilla.approvals import changes
from manilla.approvals.changes import apply_or_ask
from manilla.approvals.kinds import ProviderAddition, ProviderChange, ProviderClearing
from manilla.console import onboarding
from manilla.console.responses import done_or_asked
from manilla.kit import deadline, time_limits
from manilla.kit.display import money
from manilla.kit.errors import Refusal, Unavailable
from manilla.kit.money import DECIMALS, Money
from manilla.ledger import provider_funds
from manilla.ledger.provider_funds import SettlementKind
from manilla.payouts import figures
from manilla.providers import connection_test, credentials
from manilla.providers.accounts import BadAccount, UnknownProvider
from manilla.providers.kind import Credentials
from manilla.providers.kinds import KINDS
from manilla.providers.port import Direction, Done
from manilla.providers.queries import RailHealth
from manilla.reconciliation import balances
from manilla.web.forms import BadForm, Form
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

BANKS_SINCE = timedelta(days=7)
SETTLEMENTS = (
    (SettlementKind.TOP_UP, "Top-up: from our bank to the provider"),
    (SettlementKind.SETTLEMENT, "Settlement: from the provider to our bank"),
    (SettlementKind.FEE, "Fee kept by the provider"),
    (SettlementKind.FEE_RETURNED, "Fee refunded by the provider"),
)


def titles(request: PageRequest) -> dict[str, str]:
    """Maps each provider account's name to its title."""
    return {name: each.title for name, each in request.services.rails.accounts.items()}


class ProviderRail(msgspec.Struct, frozen=True):
    """A provider's rail in one direction (payments or payouts), as shown on the provider's page."""

    direction: Direction
    is_open: bool  # whether this rail is configured and enabled
    health: RailHealth | None  # None if the rail has never been called


async def show_all(request: PageRequest) -> PageResponse:
    return request.page("providers.html", **await _all(request))


async def add(request: PageRequest) -> PageResponse:
    """Adds a provider account with its methods, which are inactive at first."""
    try:
        wanted = ProviderAddition(request.form.text("kind"), request.form.required("name"))
        await changes.check(request.approvals, wanted)
        await request.confirm_identity()
        result = await apply_or_ask(request.approvals, wanted)
    except Refusal as refusal:
        at = ((BadAccount, "name"), (UnknownProvider, "kind"))
        return request.form_with_errors("providers.html", refusal, at=at, **await _all(request))
    path = _path(wanted.provider) if isinstance(result, Credentials) else "/providers"
    done = "Account added. Enter its credentials, then activate its methods."
    return done_or_asked(request, path, result, done)


async def _all(request: PageRequest) -> dict[str, Any]:
    """Returns the template's values: configured accounts with health, and the other accounts."""
    current = await credentials.load(request.db, request.services.keyring)
    health = await request.services.rails.health.overview()
    accounts = sorted(current.values(), key=lambda each: each.title.lower())
    return {
        "configured": [(each, _rails(each, health)) for each in accounts if each.is_valid],
        "others": [(each, _missing(each)) for each in accounts if not each.is_valid],
        "kinds": sorted((kind.name, kind.title) for kind in KINDS.values()),
    }


def _missing(current: Credentials) -> str:
    """Returns the labels of the missing credentials, such as `API key, secret key`."""
    labels = [field.title for field in current.kind.fields if field.name in current.missing]
    return ", ".join(
        f"{text[0].lower()}{text[1:]}" if text[1].islower() else text for text in labels
    )


async def show(request: PageRequest) -> PageResponse:
    return request.page("provider.html", **await _about(request, _provider(request)))


async def show_guide(request: PageRequest) -> PageResponse:
    """Shows the guide for setting up this type of provider account."""
    provider = _provider(request)
    current = await _current(request, provider)
    if current.kind.guide is None:
        raise PageNotFound
    text = onboarding.guide(current.kind.guide)
    return request.page("provider_guide.html", provider=provider, current=current, text=text)


async def change(request: PageRequest) -> PageResponse:
    provider = _provider(request)
    current = await _current(request, provider)
    try:
        wanted = _changed(request.form, current)
        if not wanted:
            raise BadForm("Nothing to save: no value was changed.")
        change = ProviderChange(provider, wanted)
        await changes.check(request.approvals, change)
        await request.confirm_identity()
        result = await apply_or_ask(request.approvals, change)
    except Refusal as refusal:
        return request.form_with_errors("provider.html", refusal, **await _about(request, provider))
    return done_or_asked(request, _path(provider), result, "Credentials saved.")


async def clear(request: PageRequest) -> PageResponse:
    provider = _provider(request)
    result = await apply_or_ask(request.approvals, ProviderClearing(provider))
    title = request.services.rails.credentials(provider).title
    done = f"Credentials of {title} deleted. Its methods are no longer offered."
    return done_or_asked(request, _path(provider), result, done)


async def switch(request: PageRequest) -> PageResponse:
    """Saves the switches that the user changed. Other users' changes are not overwritten."""
    provider, given = _provider(request), request.form
    ticked = {
        field.name: "true" if given.is_checked(field.name) else "false"
        for field in request.services.rails.credentials(provider).kind.fields
        if field.is_switch
    }
    wanted = {name: to for name, to in ticked.items() if to != given.text(f"was_{name}")}
    try:
        result = await apply_or_ask(request.approvals, ProviderChange(provider, wanted))
    except Refusal as refusal:
        return request.redirect_with_errors(_path(provider), refusal)
    return done_or_asked(request, _path(provider), result, "Switches saved.")


async def try_out(request: PageRequest) -> PageResponse:
    provider = _provider(request)
    try:
        tried = await connection_test.run_test(request.db, request.services.rails, provider)
    except Refusal as refusal:
        return request.redirect_with_errors(_path(provider), refusal)
    title = request.services.rails.credentials(provider).title
    if not (isinstance(tried.balance, Done) and isinstance(tried.banks, Done)):
        failed = f"Connection test failed for {title}: {tried.problem}"
        return request.redirect(_path(provider), failed=failed)
    banks = len(tried.banks.value)
    done = f"Connected to {title}: balance {money(tried.balance.value)}, {banks}"
    return request.redirect(_path(provider), done=f"{done} bank{'' if banks == 1 else 's'}.")


async def compare(request: PageRequest) -> PageResponse:
    """Compares our ledger with the provider's current balance and recent transfers."""
    provider = _provider(request)
    rails = request.services.rails
    if rails.adapter(provider) is None:
        return request.redirect(_path(provider), failed="Set the credentials first.")
    try:
        async with asyncio.timeout(time_limits.current.compare_seconds):
            report = await balances.compare(request.db, rails, provider)
    except (TimeoutError, Unavailable):
        failed = "The provider is too slow to reconcile now. A worker reconciles every hour."
        return request.redirect(_path(provider), failed=failed)
    about = {**await _about(request, provider), "report": report}
    return request.page("provider.html", **about)


async def settle(request: PageRequest) -> PageResponse:
    provider = _provider(request)
    try:
        currency = request.form.text("currency").upper()
        if currency not in DECIMALS:
            raise BadForm(errors={"currency": "Enter an ISO currency code, such as NGN."})
        kind = request.form.choice("kind", SettlementKind)
        amount = request.form.money("amount", currency)
        note = request.form.required("note", at_most=provider_funds.NOTE_LENGTH_MAX)
        await request.confirm_identity()
        settled = await provider_funds.settle(
            *(request.db, kind, provider, amount, note), request.form.required("once")
        )
    except Refusal as refusal:
        return request.form_with_errors("provider.html", refusal, **await _about(request, provider))
    done = f"Recorded {money(settled.amount)} as {settled.trx_id}."
    return request.redirect(_path(provider), done=done)


async def _current(request: PageRequest, provider: str) -> Credentials:
    return (await credentials.load(request.db, request.services.keyring))[provider]


async def _about(request: PageRequest, provider: str) -> dict[str, Any]:
    db, current = request.db, await _current(request, provider)
    since = datetime.now(UTC) - BANKS_SINCE
    # If summing the ledger balance takes too long, the page is shown without it.
    books = await deadline.or_none(balances.in_our_books(db, provider))
    return {
        "provider": provider,
        "name": current.title,
        "is_any_valid": any(each.is_valid for each in request.services.rails.accounts.values()),
        "current": current,
        "steps": await onboarding.steps(request, current, _missing(current)),
        "has_guide": current.kind.guide is not None,
        "shown": current.shown(),
        "fields": [field for field in current.kind.fields if not field.is_switch],
        "switches": [field for field in current.kind.fields if field.is_switch],
        "rails": _rails(current, await request.services.rails.health.overview()),
        "banks": await figures.by_bank(db, provider, since),
        "bank_at": partial(request.services.banks.text_at, provider, is_sandbox=False),
        "books": None if books is None else Money(balances.CURRENCY, books.ledger),
        "settlements": SETTLEMENTS,
        "once": provider_funds.new_id(),
        "report": None,
    }


def _changed(given: Form, current: Credentials) -> dict[str, str]:
    """Returns the fields that the user changed, so that other users' changes are kept.

    The form never shows secrets, so an empty secret field means that the secret is unchanged.
    """
    wanted: dict[str, str] = {}
    for field in current.kind.fields:
        if field.is_switch or field.name not in given:
            continue
        value = given.secret(field.name).strip()
        if field.is_secret and not value and not given.is_checked(f"forget_{field.name}"):
            continue
        was = f"was_{field.name}"
        before = given.secret(was).strip() if was in given else current.given.get(field.name, "")
        if value not in (before, current.given.get(field.name, "")):
            wanted[field.name] = value
    return wanted


def _rails(current: Credentials, health: list[RailHealth]) -> list[ProviderRail]:
    known = {each.direction: each for each in health if each.provider == current.provider}
    return [
        ProviderRail(direction, current.is_open(direction), known.get(direction))
        for direction in Direction
    ]


def _provider(request: PageRequest) -> str:
    provider = request.parameter("provider")
    if provider not in request.services.rails.accounts:
        raise PageNotFound
    return provider


def _path(provider: str) -> str:
    return f"/providers/{provider}"

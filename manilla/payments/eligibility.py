"""Decides which gateways can collect a payment, at its creation and again at every step."""

from collections.abc import Sequence

import msgspec

from manilla.kit.money import Money
from manilla.merchants import availability
from manilla.merchants.directory import Caller
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Flow, Method, MethodKind
from manilla.providers.rails import Rails


def can_take_payments(caller: Caller, currency: str) -> bool:
    """Whether the merchant can accept payments now. Existing payments are checked again."""
    return (
        availability.is_available(caller)
        and currency in caller.currencies
        and currency in caller.active_wallets
    )


def eligible(
    catalogue: Catalogue,
    rails: Rails,
    caller: Caller,
    customer_pays: Money,
    keywords: Sequence[str],
) -> list[Method]:
    """Returns the gateways that the merchant selected, or all if it selected none.

    The request's keywords can only shorten this list.
    """
    currency, words = customer_pays.currency, _words(keywords)
    return [
        method
        for method in catalogue.offered(MethodKind.DEPOSIT, currency, caller.environment)
        if _suits(caller, method, customer_pays, words)
        and _has_bvn_if_needed(rails, caller, method)
    ]


def place(caller: Caller, method: Method) -> int | None:
    """Returns the gateway's position in the merchant's order, or None if it has no position."""
    order = caller.gateway_order
    return order.index(method.code) if method.code in order else None


def in_order(caller: Caller, methods: Sequence[Method]) -> list[Method]:
    """Sorts gateways in the merchant's order, followed by the others in the platform's order."""
    last = len(caller.gateway_order)

    def key(method: Method) -> tuple[int, int, int]:
        found = place(caller, method)
        return last if found is None else found, method.position, method.id

    return sorted(methods, key=key)


def conceivable(
    catalogue: Catalogue, caller: Caller, customer_pays: Money, keywords: Sequence[str]
) -> list[Method]:
    """Returns the gateways that would be eligible if every provider were configured.

    Used in the sandbox, where no provider is called.
    """
    words = _words(keywords)
    return [
        method
        for method in catalogue.all(MethodKind.DEPOSIT)
        if method.currency == customer_pays.currency
        and method.active
        and _suits(caller, method, customer_pays, words)
    ]


def usable_gateways(
    catalogue: Catalogue, rails: Rails, caller: Caller, currency: str
) -> list[Method]:
    """Returns the gateways that checkout can offer for some amount, in the merchant's order."""
    every = [
        each for each in gateways(catalogue, rails, caller) if each.method.currency == currency
    ]
    found = [each.method for each in every if each.obstacle is None]
    if caller.is_sandbox and not found:
        # The sandbox calls no provider, so no provider needs to be configured.
        found = [each.method for each in every if each.is_selected and each.method.active]
    return found


def _words(keywords: Sequence[str]) -> list[str]:
    return [word.strip().lower() for word in keywords if word.strip()]


def _suits(caller: Caller, method: Method, customer_pays: Money, words: Sequence[str]) -> bool:
    return (
        method.takes(customer_pays)
        and (caller.gateways is None or method.code in caller.gateways)
        and (not words or _matches(method, words))
    )


def _has_bvn_if_needed(rails: Rails, caller: Caller, method: Method) -> bool:
    if method.flow is not Flow.VIRTUAL_ACCOUNT or caller.has_bvn:
        return True
    account = rails.accounts.get(method.provider or "")
    if account is None:
        return True
    needs_bvn = account.kind.capabilities.virtual_account_needs_bvn
    return not needs_bvn or account.is_sandbox


def _matches(method: Method, words: Sequence[str]) -> bool:
    name, code = method.name.lower(), method.code.lower()
    return any(word in name or word in code for word in words)


def read_keywords(given: str | list[str] | None) -> list[str]:
    """Returns the keywords as a list. Splits a comma-separated string; keeps a list unchanged."""
    if isinstance(given, str):
        return [word.strip() for word in given.split(",") if word.strip()]
    return given or []


class GatewayAvailability(msgspec.Struct, frozen=True):
    """A deposit method as merchants see it, with the reason if customers cannot use it."""

    method: Method
    is_selected: bool
    obstacle: str | None


def gateways(catalogue: Catalogue, rails: Rails, caller: Caller) -> list[GatewayAvailability]:
    """Returns the active deposit methods and those that the merchant selected.

    The methods are sorted by currency, and within a currency by the merchant's order.
    """
    selected = caller.gateways or ()
    listed = [
        method
        for method in catalogue.all(MethodKind.DEPOSIT)
        if method.active or method.code in selected
    ]
    methods = sorted(in_order(caller, listed), key=lambda method: method.currency)
    return [
        GatewayAvailability(
            method,
            caller.gateways is None or method.code in caller.gateways,
            _obstacle(catalogue, rails, caller, method),
        )
        for method in methods
    ]


def _obstacle(catalogue: Catalogue, rails: Rails, caller: Caller, method: Method) -> str | None:
    """Returns the first reason why the method is not offered, or None if it is offered."""
    code, currency = method.code, method.currency
    reasons = {
        f"{currency} is not enabled for you.": currency not in caller.currencies,
        f"Your {currency} wallet is not active.": currency not in caller.active_wallets,
        "This method is disabled on this platform.": not method.active,
        "The method's provider is not configured, or is disabled.": not catalogue.is_usable(
            method, caller.environment
        ),
        "The method requires the business owner's BVN: add it in the business profile.": (
            not _has_bvn_if_needed(rails, caller, method)
        ),
        "You have not selected this method.": caller.gateways is not None
        and code not in caller.gateways,
    }
    return next((reason for reason, is_so in reasons.items() if is_so), None)

"""Which gateways a payment may be paid through. Asked at initiation, and again at every step."""

from collections.abc import Sequence

from manilla.kit.money import Money
from manilla.ledger.posting import Environment
from manilla.merchants.directory import Caller
from manilla.merchants.merchants import Status
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Flow, Kind, Method
from manilla.providers.port import Provider
from manilla.providers.rails import Rails


def can_take_payments(caller: Caller, currency: str) -> bool:
    """What the API refuses a new payment by, for one that exists already."""
    needs_approval = caller.environment is Environment.PRODUCTION
    return (
        caller.status not in (Status.REJECTED, Status.DISABLED)
        and not (needs_approval and caller.status is Status.PENDING)
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
    """The merchant's own selection, or all there are; keywords narrow it and never add to it."""
    currency = customer_pays.currency
    return [
        method
        for method in catalogue.offered(Kind.DEPOSIT, currency, caller.environment)
        if method.takes(customer_pays)
        and (caller.gateways is None or method.code in caller.gateways)
        and _has_bvn_if_needed(rails, caller, method)
        and _matches(method, keywords)
    ]


def _has_bvn_if_needed(rails: Rails, caller: Caller, method: Method) -> bool:
    if method.provider is not Provider.A or method.flow is not Flow.VIRTUAL_ACCOUNT:
        return True
    return caller.has_bvn or rails.credentials(Provider.A).is_sandbox


def _matches(method: Method, keywords: Sequence[str]) -> bool:
    words = [word.strip().lower() for word in keywords if word.strip()]
    name, code = method.name.lower(), method.code.lower()
    return not words or any(word in name or word in code for word in words)


def read_keywords(given: str | list[str] | None) -> list[str]:
    """As they are echoed: a list as it came, a text with commas as a list of its trimmed words."""
    if isinstance(given, str):
        return [word.strip() for word in given.split(",") if word.strip()]
    return given or []

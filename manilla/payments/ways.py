"""The options that checkout shows: gateways, or ways to pay that several gateways can offer.

A way to pay is a channel: card, bank transfer or USSD.
"""

from collections.abc import Sequence

import msgspec

from manilla.kit.errors import translatable
from manilla.methods.method import Flow, Method
from manilla.platform.settings import CheckoutChoice
from manilla.providers.port import Channel
from manilla.providers.rails import Rails

LABELS = {
    Channel.CARD: translatable("Card"),
    Channel.BANK_TRANSFER: translatable("Bank transfer"),
    Channel.USSD: translatable("USSD"),
}


def channels_of(method: Method, rails: Rails) -> frozenset[Channel]:
    """Returns the ways to pay that a gateway supports."""
    if method.flow is Flow.VIRTUAL_ACCOUNT:
        return frozenset((Channel.BANK_TRANSFER,))
    account = rails.accounts.get(method.provider or "")
    return frozenset(Channel) if account is None else account.kind.capabilities.channels


class GatewayOffer(msgspec.Struct, frozen=True):
    """A deposit method as checkout shows it."""

    method: Method
    is_down: bool  # True if the provider is not responding
    channels: frozenset[Channel]  # the ways to pay that the gateway supports

    @property
    def has_account(self) -> bool:
        """Whether the customer pays by transfer to a bank account that checkout itself shows."""
        return self.method.flow is Flow.VIRTUAL_ACCOUNT


class CheckoutEntry(msgspec.Struct, frozen=True):
    """An option on checkout: a gateway, or a way to pay that several gateways can offer."""

    offers: list[GatewayOffer]
    channel: Channel | None  # None if the option is a gateway, with all its channels

    @property
    def has_account(self) -> bool:
        return any(offer.has_account and not offer.is_down for offer in self.offers)

    @property
    def gateway(self) -> Method:
        return self.offers[0].method

    @property
    def value(self) -> str:
        """The option's value in the checkout form."""
        return self.gateway.code if self.channel is None else way_of(self.channel)

    @property
    def is_down(self) -> bool:
        return all(offer.is_down for offer in self.offers)

    @property
    def names(self) -> list[str]:
        """The names of the option's ways to pay."""
        if self.channel is not None:
            return [LABELS[self.channel]]
        return [LABELS[channel] for channel in Channel if channel in self.offers[0].channels]

    @property
    def label(self) -> str:
        return join_names(self.names)

    @property
    def name(self) -> str:
        name = self.gateway.name if self.channel is None else self.label
        return f"{name} (unavailable)" if self.is_down else name


def join_names(names: Sequence[str], pattern: str = "%(names)s or %(last)s") -> str:
    """Joins names as in `Card, bank transfer or USSD`. `pattern` joins the last name."""
    first, *rest = names
    names = [first, *(name if name.isupper() else name.lower() for name in rest)]
    if len(names) == 1:
        return names[0]
    return pattern % {"names": ", ".join(names[:-1]), "last": names[-1]}


def way_of(channel: Channel) -> str:
    """Returns the form's value for a way to pay. It cannot collide with a method's code."""
    return f"way:{channel}"


def entries(offers: Sequence[GatewayOffer], choice: CheckoutChoice) -> list[CheckoutEntry]:
    """Returns the options that checkout shows, in the order of their first gateways."""
    return _gateways(offers) if choice is CheckoutChoice.GATEWAYS else _ways(offers)


def find(offers: Sequence[GatewayOffer], value: str) -> CheckoutEntry | None:
    """Returns the checkout option with this form value, even if the page does not show it."""
    every = (*_ways(offers), *_gateways(offers))
    return next((entry for entry in every if entry.value == value), None)


def _gateways(offers: Sequence[GatewayOffer]) -> list[CheckoutEntry]:
    return [CheckoutEntry([offer], None) for offer in offers]


def _ways(offers: Sequence[GatewayOffer]) -> list[CheckoutEntry]:
    able = {
        channel: [offer for offer in offers if channel in offer.channels] for channel in Channel
    }
    ways = [CheckoutEntry(found, channel) for channel, found in able.items() if found]
    return sorted(ways, key=lambda way: _place(way, offers))


def _place(way: CheckoutEntry, offers: Sequence[GatewayOffer]) -> tuple[bool, int]:
    """Returns a sort key: the position of the option's preferred gateway. USSD comes last."""
    preferred = next((offer for offer in way.offers if offer.has_account), way.offers[0])
    return way.channel is Channel.USSD, offers.index(preferred)


def describe(shown: Sequence[CheckoutEntry], chosen: CheckoutEntry) -> str:
    """Describes what the customer saw and chose, for the timeline."""
    names = "; ".join(entry.name for entry in shown)
    return f"The customer saw: {names}. The customer chose: {chosen.name}."

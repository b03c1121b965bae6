"""What customers choose between on checkout: gateways, or ways to pay that several gateways offer.

A way to pay is a deposit method's flow.
"""

from collections.abc import Sequence

import msgspec

from manilla.methods.method import Flow, Method
from manilla.platform.settings import CheckoutChoice


class GatewayOffer(msgspec.Struct, frozen=True):
    """A deposit method as checkout shows it."""

    method: Method
    is_down: bool  # the provider is not responding right now


class CheckoutEntry(msgspec.Struct, frozen=True):
    """What a customer can choose: a gateway, or a way to pay that several gateways offer."""

    offers: list[GatewayOffer]

    @property
    def flow(self) -> Flow:
        flow = self.offers[0].method.flow
        assert flow is not None
        return flow

    @property
    def gateway(self) -> Method | None:
        """The only gateway of this entry; None if there are several."""
        return self.offers[0].method if len(self.offers) == 1 else None

    @property
    def value(self) -> str:
        """The value of the form's field."""
        return way_of(self.flow) if self.gateway is None else self.gateway.code

    @property
    def is_down(self) -> bool:
        return all(offer.is_down for offer in self.offers)

    @property
    def name(self) -> str:
        name = self.flow.label if self.gateway is None else self.gateway.name
        return f"{name} (unavailable)" if self.is_down else name


def way_of(flow: Flow | None) -> str:
    """Returns the form's value for a way to pay. No method has such a code."""
    return f"way:{flow}"


def entries(offers: Sequence[GatewayOffer], choice: CheckoutChoice) -> list[CheckoutEntry]:
    """Returns the entries of the page, in the order of their first gateways."""
    if choice is CheckoutChoice.GATEWAYS:
        return [CheckoutEntry([offer]) for offer in offers]
    flows = dict.fromkeys(offer.method.flow for offer in offers)
    return [CheckoutEntry([o for o in offers if o.method.flow is flow]) for flow in flows]


def describe(shown: Sequence[CheckoutEntry], chosen: str) -> str:
    """Describes what the customer saw and chose, for the timeline."""
    names = "; ".join(entry.name for entry in shown)
    names_chosen = [entry.name for entry in shown if entry.value == chosen]
    return f"The customer saw: {names}. The customer chose: {'; '.join(names_chosen) or chosen}."

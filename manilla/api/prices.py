"""The API endpoint for the prices and taxes that apply to a merchant."""

from msgspec import Struct

from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import CurrencyCode
from manilla.ledger.transactions import CurrencyNotEnabled
from manilla.merchants.rights import Right
from manilla.prices import fields
from manilla.prices.fields import PricesInForce
from manilla.services import Services


class PricesQuery(Struct, frozen=True):
    currency: CurrencyCode


def endpoints(services: Services) -> list[Endpoint]:
    async def prices(call: Call) -> PricesInForce:
        caller, currency = call.caller, call.query.currency
        if currency not in caller.currencies:
            raise CurrencyNotEnabled
        return fields.prices_in_force(
            *(services.prices, caller.merchant_id, caller.environment, currency),
            otherwise=caller.commission_percent,
        )

    return [
        Endpoint(
            method="GET",
            path="/api/v1/prices",
            operation_id="getPrices",
            summary="Get your prices",
            description="Returns what your transactions in a currency cost now: the lines of your "
            "price plan, and the taxes.",
            right=Right.READ,
            answers=(PricesInForce,),
            use_case=prices,
            query=PricesQuery,
            refusals=(CurrencyNotEnabled,),
        ),
    ]

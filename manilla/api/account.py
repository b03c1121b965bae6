"""The endpoint GET /api/v1/account: what a merchant and its API key can do."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated

from msgspec import Struct

from manilla.api.endpoint import Call, Endpoint
from manilla.kit.clock import iso
from manilla.kit.fields import api_field
from manilla.kit.money import DECIMALS, Money, amount_of
from manilla.kit.price import PriceTerms
from manilla.merchants import limits
from manilla.merchants.api_keys import LiveKey
from manilla.merchants.directory import Caller
from manilla.merchants.merchants import CommissionBearer
from manilla.merchants.rights import GRANTABLE, Right
from manilla.methods.method import Method
from manilla.payments import commission, eligibility
from manilla.payments.ways import channels_of
from manilla.platform.settings import LimitKind
from manilla.providers.port import Channel
from manilla.services import Services


class AccountApiKey(Struct, frozen=True):
    """The API key that signed the request."""

    name: Annotated[str | None, api_field("The key's name, or null for the main key.")]
    rights: Annotated[
        list[str], api_field("What the key can do.", items={"enum": [*map(str, Right)]})
    ]
    expires_at: Annotated[
        str | None, api_field("When the key expires, or null.", format="date-time")
    ]


class AccountCommission(Struct, frozen=True):
    """The commission on a payment. `prices` lists all lines of your price plan, and the taxes."""

    percent: Annotated[Decimal, api_field("A percentage of the amount.")]
    fixed: Annotated[Decimal, api_field("A fixed part for each payment.")]
    minimum: Annotated[Decimal | None, api_field("The least commission, or null.")]
    maximum: Annotated[Decimal | None, api_field("The most commission, or null.")]


class AccountMethod(Struct, frozen=True):
    """A gateway that checkout can offer, for amounts within its limits."""

    code: Annotated[str, api_field("For `allow_payment_methods`.")]
    name: Annotated[str, api_field("The gateway's name.")]
    ways: Annotated[
        list[str],
        api_field("How the customer can pay.", items={"enum": [*map(str, Channel)]}),
    ]
    minimum: Annotated[Decimal, api_field("The smallest amount that the customer can pay.")]
    maximum: Annotated[Decimal | None, api_field("The largest amount, or null.")]


class AccountCurrency(Struct, frozen=True):
    """A currency in which you can take payments now."""

    code: Annotated[str, api_field("The currency.", pattern="^[A-Z]{3}$")]
    decimals: Annotated[int, api_field("How many decimals an amount can have.")]
    minimum: Annotated[Decimal, api_field("The smallest `payment_amount`.")]
    maximum: Annotated[Decimal, api_field("The largest `payment_amount`.")]
    daily_maximum: Annotated[
        Decimal | None, api_field("The most that you can take in a day (Lagos time), or null.")
    ]
    commission: Annotated[AccountCommission, api_field("The commission on a payment.")]
    methods: Annotated[list[AccountMethod], api_field("The gateways, in the order of checkout.")]


class MerchantAccount(Struct, frozen=True):
    """Your account, as the API key that signed the request sees it."""

    merchant_id: Annotated[int, api_field("Your account's number.")]
    name: Annotated[str, api_field("Your business's name, which customers see.")]
    environment: Annotated[str, api_field("The environment.", enum=["sandbox", "production"])]
    status: Annotated[
        str,
        api_field(
            "`pending`: only the sandbox works. `approved`: both environments work.",
            enum=["pending", "approved"],
        ),
    ]
    api_key: Annotated[AccountApiKey, api_field("The API key that signed the request.")]
    checkout_minutes: Annotated[int, api_field("How long a new `payment_url` can be used.")]
    checkout_origins: Annotated[
        list[str],
        api_field("The origins of your pages that can show checkout in a dialog."),
    ]
    commission_bearer: Annotated[
        str, api_field("Who pays the commission.", enum=[*map(str, CommissionBearer)])
    ]
    currencies: Annotated[list[AccountCurrency], api_field("The currencies of payments.")]


def endpoints(services: Services) -> list[Endpoint]:
    async def account(call: Call) -> MerchantAccount:
        caller = call.caller
        return MerchantAccount(
            merchant_id=caller.merchant_id,
            name=caller.name,
            environment=caller.environment,
            status=caller.status,
            api_key=_key(caller, call.api_key),
            checkout_minutes=services.platform.now.checkout_minutes,
            checkout_origins=list(caller.checkout_origins),
            commission_bearer=caller.commission_bearer,
            currencies=[
                _currency(services, caller, currency)
                for currency in sorted(caller.currencies & caller.active_wallets)
            ],
        )

    return [
        Endpoint(
            method="GET",
            path="/api/v1/account",
            operation_id="getAccount",
            summary="Get your account",
            description="Returns what this API key and your account can do: rights, currencies "
            "with limits, ways to pay, commission, and the pages that can show checkout. Use it to "
            "test a shop's settings.",
            right=None,
            answers=(MerchantAccount,),
            use_case=account,
        ),
    ]


def _key(caller: Caller, number: int | None) -> AccountApiKey:
    used: LiveKey | None = next((key for key in caller.keys if key.number == number), None)
    if used is None:
        return AccountApiKey(None, [*map(str, GRANTABLE)], None)
    rights = [str(right) for right in GRANTABLE if right in used.rights]
    return AccountApiKey(used.name, rights, iso(used.expires_at) if used.expires_at else None)


def _currency(services: Services, caller: Caller, currency: str) -> AccountCurrency:
    settings, methods = services.platform.now, services.methods
    most = Money(currency, commission.AMOUNT_MINOR_MAX)
    limit = limits.of(settings, caller, LimitKind.PAYMENT, currency)
    daily = limits.of(settings, caller, LimitKind.DAILY_PAYMENT, currency)
    terms = commission.terms(services.prices, caller, currency)
    offered = eligibility.usable_gateways(methods, services.rails, caller, currency)
    return AccountCurrency(
        code=currency,
        decimals=DECIMALS[currency],
        minimum=Money.of(commission.MINIMUM, currency).amount,
        maximum=(most if limit is None else min(limit, most)).amount,
        daily_maximum=None if daily is None else daily.amount,
        commission=_commission(currency, terms),
        methods=_methods(services, offered),
    )


def _commission(currency: str, terms: PriceTerms) -> AccountCommission:
    def optional(minor: int | None) -> Decimal | None:
        return None if minor is None else amount_of(currency, minor)

    return AccountCommission(
        percent=terms.percent,
        fixed=amount_of(currency, terms.fixed_minor),
        minimum=optional(terms.minimum_minor),
        maximum=optional(terms.maximum_minor),
    )


def _methods(services: Services, offered: Sequence[Method]) -> list[AccountMethod]:
    return [
        AccountMethod(
            code=method.code,
            name=method.name,
            ways=sorted(channels_of(method, services.rails)),
            minimum=method.minimum.amount,
            maximum=None if method.maximum is None else method.maximum.amount,
        )
        for method in offered
    ]

"""API endpoints that manage payment links."""

from collections.abc import Collection
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import Amount, CurrencyCode, Lines, Reference, Title, WebAddress, money_of
from manilla.api.lists import Cursors, PeriodQuery
from manilla.api.payments import amount_problem
from manilla.api.refusals import InvalidAmount
from manilla.api.request import remember
from manilla.audit.actor import API, acting
from manilla.customers import store as customers
from manilla.customers.customer import CustomerNotFound
from manilla.kit import clock, strict_json
from manilla.kit.fields import api_field
from manilla.kit.listing import Moment
from manilla.ledger.transactions import CurrencyNotEnabled, KeyUsedBefore
from manilla.merchants.rights import Right
from manilla.payments.fields import CustomerReference
from manilla.payments.initiate import PaymentLimitExceeded
from manilla.payments.payment_links import creation, store
from manilla.payments.payment_links.creation import (
    DESCRIPTION_LENGTH_MAX,
    TITLE_LENGTH_MAX,
    expiry_problem,
)
from manilla.payments.payment_links.link import (
    LinkNotFound,
    LinkStatus,
    LinkTerms,
    LinkUsed,
    PaymentLink,
)
from manilla.payments.payment_links.store import LinkFilter
from manilla.services import Services
from manilla.splits import planning
from manilla.splits.planning import GivenSplit
from manilla.splits.rule import SplitInvalid

LINKS, LINK = "/api/v1/payment-links", "/api/v1/payment-links/{linkId}"


class PaymentLinkRequest(Struct, frozen=True, kw_only=True):
    title: Annotated[Title, Meta(max_length=TITLE_LENGTH_MAX)]
    currency_code: CurrencyCode
    amount: Amount | None = None
    description: Annotated[Lines, Meta(max_length=DESCRIPTION_LENGTH_MAX)] | None = None
    expires_at: Moment | None = None
    single_use: bool = False
    success_redirect: WebAddress | None = None
    customer_reference: Reference | None = None
    split: Annotated[
        GivenSplit | None, api_field("How its payments are divided: the id of a split, or a rule.")
    ] = None

    @classmethod
    def field_errors(cls, values: dict[str, Any], _bad: Collection[str] = ()) -> dict[str, str]:
        is_twice = values.get("single_use") is True and values.get("customer_reference") is not None
        found = {
            "customer_reference": creation.SINGLE_USE if is_twice else None,
            "amount": amount_problem(values.get("amount"), values.get("currency_code")),
            "expires_at": expiry_problem(values.get("expires_at")),
        }
        return {name: problem for name, problem in found.items() if problem}


class PaymentLinkEditRequest(Struct, frozen=True, kw_only=True):
    title: Annotated[Title, Meta(max_length=TITLE_LENGTH_MAX)] | None = None
    amount: Amount | None = None
    description: Annotated[Lines, Meta(max_length=DESCRIPTION_LENGTH_MAX)] | None = None
    expires_at: Moment | None = None
    success_redirect: WebAddress | None = None

    @classmethod
    def field_errors(cls, values: dict[str, Any], _bad: Collection[str] = ()) -> dict[str, str]:
        problem = expiry_problem(values.get("expires_at"))
        return {"expires_at": problem} if problem else {}


class PaymentLinkQuery(PeriodQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: Literal["active", "disabled", "expired", "used"] | None = None


class CreatedPaymentLink(Struct, frozen=True):
    id: str
    url: str
    status: str


class PaymentLinkItem(Struct, frozen=True, omit_defaults=True):
    id: str
    url: str
    status: str
    title: str
    amount: Decimal | None
    currency_code: str
    description: str | None
    expires_at: str | None
    single_use: bool
    success_redirect: str | None
    paid_count: int
    paid_amount: Decimal
    created_at: str
    customer_reference: CustomerReference = None


class PaymentLinkList(Struct, frozen=True):
    data: list[PaymentLinkItem]
    next_cursor: str | None


def endpoints(services: Services) -> list[Endpoint]:
    create, edit = _with_terms(services)
    return [create, *_reading(services), *_switching(services), edit]


def _with_terms(services: Services) -> list[Endpoint]:
    """Returns the endpoints that create and edit a payment link."""
    db, describe = services.db, partial(_created, services)

    async def create_link(call: Call) -> Any:
        terms, split = _terms(call.body), call.body.split
        if split is not None:
            text = await planning.check_given(db, call.tenant, split, terms.currency)
            terms = replace(terms, split=text)
        if terms.customer_reference is not None:
            await customers.of_tenant(db, call.tenant, terms.customer_reference)
        with acting(API):
            link = await creation.create(
                db, services.payments, call.caller, terms, remember(call, describe)
            )
        return describe(link)

    async def edit_link(call: Call) -> Any:
        link = await store.find_own(db, call.tenant, call.parameter)
        terms = _edited(link, call)
        with acting(API):
            edited = await creation.edit(db, services.payments, call.caller, link, terms)
        return _item(edited, services.base_url)

    return [
        Endpoint(
            method="POST",
            path=LINKS,
            operation_id="createPaymentLink",
            summary="Create a payment link",
            description="Creates a page on which customers pay. Share its `url`, or the QR code at "
            "`url` followed by `/qr.svg` or `/qr.png`.",
            right=Right.PAYMENTS,
            answers=(CreatedPaymentLink,),
            use_case=create_link,
            body=PaymentLinkRequest,
            refusals=(
                *(InvalidAmount, CurrencyNotEnabled, PaymentLimitExceeded),
                *(CustomerNotFound, SplitInvalid),
                KeyUsedBefore,
            ),
            is_repeatable=True,
        ),
        Endpoint(
            method="PATCH",
            path=LINK,
            operation_id="editPaymentLink",
            summary="Edit a payment link",
            description="Changes the fields that you send. Null removes an optional field. "
            "Payments that customers have already started do not change.",
            right=Right.PAYMENTS,
            answers=(PaymentLinkItem,),
            use_case=edit_link,
            body=PaymentLinkEditRequest,
            refusals=(
                InvalidAmount,
                CurrencyNotEnabled,
                PaymentLimitExceeded,
                LinkNotFound,
                LinkUsed,
            ),
        ),
    ]


def _reading(services: Services) -> list[Endpoint]:
    db, cursors = services.db, Cursors(services.keyring, LINKS)

    async def list_links(call: Call) -> Any:
        since, until = call.query.period
        status = LinkStatus(call.query.status) if call.query.status else None
        wanted = LinkFilter(status=status, since=since, until=until)
        after, limit = cursors.read(call), call.query.limit
        page = await store.links(db, call.tenant, wanted, after=after, limit=limit)
        items = [_item(link, services.base_url) for link in page.rows]
        return PaymentLinkList(items, cursors.write(call, page.next))

    async def get_link(call: Call) -> Any:
        link = await store.find_own(db, call.tenant, call.parameter)
        return _item(link, services.base_url)

    return [
        Endpoint(
            method="GET",
            path=LINKS,
            operation_id="listPaymentLinks",
            summary="List payment links",
            description="Lists your payment links, newest first, each with the amount paid.",
            right=Right.READ,
            answers=(PaymentLinkList,),
            use_case=list_links,
            query=PaymentLinkQuery,
        ),
        Endpoint(
            method="GET",
            path=LINK,
            operation_id="getPaymentLink",
            summary="Get a payment link",
            description="Returns one payment link, with the amount paid through it.",
            right=Right.READ,
            answers=(PaymentLinkItem,),
            use_case=get_link,
            refusals=(LinkNotFound,),
        ),
    ]


def _switching(services: Services) -> list[Endpoint]:
    """Returns the endpoints that disable and enable a payment link."""
    db, describe = services.db, partial(_created, services)

    async def disable_link(call: Call) -> Any:
        own = remember(call, describe)
        with acting(API):
            return describe(await store.disable(db, call.tenant, call.parameter, own))

    async def enable_link(call: Call) -> Any:
        own = remember(call, describe)
        with acting(API):
            return describe(await store.enable(db, call.tenant, call.parameter, own))

    return [
        Endpoint(
            method="POST",
            path=LINK + "/disable",
            operation_id="disablePaymentLink",
            summary="Disable a payment link",
            description="Stops new payments through the link. Customers who are already on "
            "checkout can still pay.",
            right=Right.PAYMENTS,
            answers=(CreatedPaymentLink,),
            use_case=disable_link,
            refusals=(LinkNotFound, KeyUsedBefore),
            is_repeatable=True,
        ),
        Endpoint(
            method="POST",
            path=LINK + "/enable",
            operation_id="enablePaymentLink",
            summary="Enable a payment link",
            description="Allows new payments through a link that you have disabled.",
            right=Right.PAYMENTS,
            answers=(CreatedPaymentLink,),
            use_case=enable_link,
            refusals=(LinkNotFound, LinkUsed, KeyUsedBefore),
            is_repeatable=True,
        ),
    ]


def _created(services: Services, link: PaymentLink) -> CreatedPaymentLink:
    return CreatedPaymentLink(link.id, services.base_url + link.path, link.status)


def _terms(body: PaymentLinkRequest) -> LinkTerms:
    return LinkTerms(
        title=body.title.strip(),
        currency=body.currency_code,
        amount_minor=None
        if body.amount is None
        else money_of(body.amount, body.currency_code).minor,
        description=body.description,
        expires_at=body.expires_at,
        single_use=body.single_use,
        success_redirect=body.success_redirect,
        customer_reference=body.customer_reference,
    )


def _edited(link: PaymentLink, call: Call) -> LinkTerms:
    """Returns the link's terms with the changes from the request body. Null removes a value."""
    body: PaymentLinkEditRequest = call.body
    sent = strict_json.decode(call.raw_body) if call.raw_body else {}
    terms = LinkTerms(**{name: getattr(link, name) for name in LinkTerms.__struct_fields__})
    changed: dict[str, Any] = {
        name: getattr(body, name)
        for name in ("description", "expires_at", "success_redirect")
        if name in sent
    }
    if body.title is not None:
        changed["title"] = body.title.strip()
    if "amount" in sent:
        changed["amount_minor"] = _minor(body.amount, link.currency)
    return replace(terms, **changed)


def _minor(amount: Decimal | None, currency: str) -> int | None:
    problem = amount_problem(amount, currency)
    if problem:
        raise InvalidAmount(errors={"amount": problem})
    return None if amount is None else money_of(amount, currency).minor


def _item(link: PaymentLink, base_url: str) -> PaymentLinkItem:
    return PaymentLinkItem(
        id=link.id,
        url=base_url + link.path,
        status=link.status,
        title=link.title,
        amount=None if link.amount is None else link.amount.amount,
        currency_code=link.currency,
        description=link.description,
        expires_at=None if link.expires_at is None else clock.iso(link.expires_at),
        single_use=link.single_use,
        success_redirect=link.success_redirect,
        paid_count=link.paid_count,
        paid_amount=link.earned.amount,
        created_at=clock.iso(link.created_at),
        customer_reference=link.customer_reference,
    )

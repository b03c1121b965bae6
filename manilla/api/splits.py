"""API endpoints for splits, sub-accounts, and the release of held shares."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct

from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import Title
from manilla.api.lists import Cursors, ListQuery
from manilla.api.request import remember
from manilla.audit.actor import API, acting
from manilla.kit import strict_json
from manilla.kit.fields import api_field
from manilla.ledger.transactions import KeyUsedBefore, TransactionNotFound
from manilla.merchants.rights import Right
from manilla.services import Services
from manilla.splits import rule, service, store
from manilla.splits.fields import ShareInfo, describe
from manilla.splits.rule import (
    NAME_LENGTH_MAX,
    Hold,
    Party,
    ReceiverTerms,
    SplitInvalid,
    SplitTerms,
)
from manilla.splits.share import Share
from manilla.splits.store import StoredRule, SubAccount

SPLITS, SPLIT, SUB_ACCOUNTS = "/api/v1/splits", "/api/v1/splits/{splitId}", "/api/v1/sub-accounts"
RELEASE = "/api/v1/payments/{trxId}/release"
_TERMS = SplitTerms.__struct_fields__
NAME = "The rule's name, which only you see."
DEFAULT = "Whether it divides payments that have no split of their own."
_Name = Annotated[Title, Meta(max_length=NAME_LENGTH_MAX)]


class SplitRequest(SplitTerms, frozen=True, kw_only=True):
    """A new rule. Unknown fields are ignored."""

    name: Annotated[_Name, api_field(NAME)]
    default: Annotated[bool, api_field(DEFAULT)] = False


class SplitEditRequest(Struct, frozen=True, kw_only=True):
    """The fields to change. Unknown fields are ignored."""

    name: Annotated[_Name | None, api_field(NAME)] = None
    receivers: Annotated[list[ReceiverTerms] | None, api_field(rule.RECEIVERS)] = None
    rest: Annotated[Party | None, api_field(rule.REST)] = None
    fees: Annotated[Party | None, api_field(rule.FEES)] = None
    refunds: Annotated[Literal["proportional", "owner"] | None, api_field(rule.REFUNDS)] = None
    disputes: Annotated[Party | None, api_field(rule.DISPUTES)] = None
    hold: Annotated[Hold | None, api_field(rule.HOLD)] = None
    default: Annotated[bool | None, api_field(DEFAULT)] = None


class SplitReleaseRequest(Struct, frozen=True, kw_only=True):
    """Whose held share to release. Unknown fields are ignored."""

    receiver: Annotated[Party | None, api_field("Only this receiver's share.")] = None


class SubAccountRequest(Struct, frozen=True, kw_only=True):
    """A new sub-account. Unknown fields are ignored."""

    name: Annotated[_Name, api_field("The sub-account's name.", maxLength=NAME_LENGTH_MAX)]


class SplitRuleInfo(Struct, frozen=True, kw_only=True):
    """A rule, with its version."""

    receivers: Annotated[list[ReceiverTerms], api_field(rule.RECEIVERS)]
    rest: Annotated[str, api_field(rule.REST)]
    fees: Annotated[str, api_field(rule.FEES)]
    refunds: Annotated[str, api_field(rule.REFUNDS)]
    disputes: Annotated[str, api_field(rule.DISPUTES)]
    hold: Annotated[str, api_field(rule.HOLD, enum=["none", "release", "days"])]
    hold_days: Annotated[int | None, api_field("For how many days shares are held, or null.")]
    id: Annotated[str, api_field("The rule's id.")]
    version: Annotated[int, api_field("Each change of a rule is a new version.")]
    status: Annotated[str, api_field("Its status.", enum=["active", "disabled"])]
    name: Annotated[str, api_field(NAME)]
    default: Annotated[bool, api_field(DEFAULT)]


class SplitList(Struct, frozen=True):
    """A page of rules."""

    data: Annotated[list[SplitRuleInfo], api_field("The rules, newest first.")]
    next_cursor: str | None


class SplitShares(Struct, frozen=True):
    """The shares of a payment."""

    trx_id: Annotated[str, api_field("The payment's id.")]
    shares: Annotated[list[ShareInfo], api_field("Each receiver's share.")]


class SubAccountInfo(Struct, frozen=True):
    """A sub-account: a merchant that belongs to you."""

    id: Annotated[str, api_field("The id that a split names.")]
    merchant_id: Annotated[int, api_field("The number of its own dashboard pages.")]
    name: Annotated[str, api_field("The sub-account's name.")]
    status: Annotated[str, api_field("Its status: `approved` sub-accounts can receive money.")]


class SubAccountList(Struct, frozen=True):
    """All sub-accounts."""

    data: Annotated[list[SubAccountInfo], api_field("The sub-accounts, oldest first.")]


def endpoints(services: Services) -> list[Endpoint]:
    return [*_rules(services), *_changes(services), *_sub_accounts(services), _release(services)]


def _rules(services: Services) -> list[Endpoint]:
    db, cursors = services.db, Cursors(services.keyring, SPLITS)

    async def list_splits(call: Call) -> SplitList:
        after, limit = cursors.read(call), call.query.limit
        page = await store.rules(db, call.tenant, after, limit)
        return SplitList([_info(each) for each in page.rows], cursors.write(call, page.next))

    async def get_split(call: Call) -> SplitRuleInfo:
        return _info(await service.get(db, call.tenant, call.parameter))

    return [
        Endpoint(
            method="GET",
            path=SPLITS,
            operation_id="listSplits",
            summary="List splits",
            description="Lists your rules that divide payments, newest first.",
            right=Right.READ,
            answers=(SplitList,),
            use_case=list_splits,
            query=ListQuery,
        ),
        Endpoint(
            method="GET",
            path=SPLIT,
            operation_id="getSplit",
            summary="Get a split",
            description="Returns the latest version of a rule.",
            right=Right.READ,
            answers=(SplitRuleInfo,),
            use_case=get_split,
            refusals=(TransactionNotFound,),
        ),
    ]


def _changes(services: Services) -> list[Endpoint]:
    db = services.db

    async def create_split(call: Call) -> SplitRuleInfo:
        body: SplitRequest = call.body
        terms = SplitTerms(**{name: getattr(body, name) for name in _TERMS})
        with acting(API):
            new = await service.create(
                *(db, call.tenant, body.name.strip(), terms),
                is_default=body.default,
                remember=remember(call, _info),
            )
        return _info(new)

    async def edit_split(call: Call) -> SplitRuleInfo:
        sent = strict_json.decode(call.raw_body) if call.raw_body else {}
        values = {name: getattr(call.body, name) for name in sent.keys() & {*_TERMS}}
        terms = {name: value for name, value in values.items() if value is not None}
        with acting(API):
            edit = partial(service.edit, db, call.tenant, call.parameter)
            changed = await edit(name=call.body.name, terms=terms, is_default=call.body.default)
        return _info(changed)

    async def disable_split(call: Call) -> SplitRuleInfo:
        edit = partial(service.edit, db, call.tenant, call.parameter)
        with acting(API):
            return _info(await edit(is_disabled=True, remember=remember(call, _info)))

    return [
        Endpoint(
            method="POST",
            path=SPLITS,
            operation_id="createSplit",
            summary="Create a split",
            description="Creates a rule that divides payments between you and other receivers.",
            right=Right.MANAGE,
            answers=(SplitRuleInfo,),
            use_case=create_split,
            body=SplitRequest,
            refusals=(SplitInvalid, KeyUsedBefore),
            is_repeatable=True,
        ),
        Endpoint(
            method="PATCH",
            path=SPLIT,
            operation_id="editSplit",
            summary="Edit a split",
            description="Creates the next version of a rule, with the fields that you send. "
            "Payments that were created before keep their version.",
            right=Right.MANAGE,
            answers=(SplitRuleInfo,),
            use_case=edit_split,
            body=SplitEditRequest,
            refusals=(TransactionNotFound, SplitInvalid),
        ),
        Endpoint(
            method="POST",
            path=SPLIT + "/disable",
            operation_id="disableSplit",
            summary="Disable a split",
            description="Stops new payments with this rule.",
            right=Right.MANAGE,
            answers=(SplitRuleInfo,),
            use_case=disable_split,
            refusals=(TransactionNotFound, SplitInvalid, KeyUsedBefore),
            is_repeatable=True,
        ),
    ]


def _sub_accounts(services: Services) -> list[Endpoint]:
    async def create_sub_account(call: Call) -> SubAccountInfo:
        owner = services.db, services.keyring, call.tenant.merchant_id
        with acting(API):
            made = await service.create_sub_account(
                *owner, call.body.name, remember(call, _sub_account)
            )
        return _sub_account(made)

    async def list_sub_accounts(call: Call) -> SubAccountList:
        found = await store.sub_accounts(services.db, call.tenant.merchant_id)
        return SubAccountList([_sub_account(each) for each in found])

    return [
        Endpoint(
            method="POST",
            path=SUB_ACCOUNTS,
            operation_id="createSubAccount",
            summary="Create a sub-account",
            description="Creates a receiver with wallets, statements and a settlement account of "
            "its own. Your team manages it on the dashboard.",
            right=Right.MANAGE,
            answers=(SubAccountInfo,),
            use_case=create_sub_account,
            body=SubAccountRequest,
            refusals=(SplitInvalid, KeyUsedBefore),
            is_repeatable=True,
        ),
        Endpoint(
            method="GET",
            path=SUB_ACCOUNTS,
            operation_id="listSubAccounts",
            summary="List sub-accounts",
            description="Lists your sub-accounts.",
            right=Right.READ,
            answers=(SubAccountList,),
            use_case=list_sub_accounts,
        ),
    ]


def _release(services: Services) -> Endpoint:
    async def release_shares(call: Call) -> SplitShares:
        def described(shares: Sequence[Share]) -> SplitShares:
            return SplitShares(call.parameter, [describe(each) for each in shares])

        receiver = None if call.body.receiver is None else str(call.body.receiver)
        wanted = call.tenant, call.parameter, receiver
        with acting(API):
            shares = await service.release(services.db, *wanted, remember(call, described))
        return described(shares)

    return Endpoint(
        method="POST",
        path=RELEASE,
        operation_id="releaseShares",
        summary="Release held shares",
        description="Releases the held shares of a payment, or of one receiver. A repeated call "
        "changes nothing.",
        right=Right.MANAGE,
        answers=(SplitShares,),
        use_case=release_shares,
        body=SplitReleaseRequest,
        refusals=(TransactionNotFound, SplitInvalid, KeyUsedBefore),
        is_repeatable=True,
    )


def _info(stored: StoredRule) -> SplitRuleInfo:
    terms = stored.decoded
    days = terms.hold if isinstance(terms.hold, int) else None
    return SplitRuleInfo(
        receivers=terms.receivers,
        rest=str(terms.rest),
        fees=str(terms.fees),
        refunds=terms.refunds,
        disputes=str(terms.disputes),
        hold="days" if days else str(terms.hold),
        hold_days=days,
        id=stored.id,
        version=stored.version,
        status=stored.status,
        name=stored.name,
        default=stored.is_default,
    )


def _sub_account(made: SubAccount) -> SubAccountInfo:
    name = service.sub_account_id(made.merchant_id)
    return SubAccountInfo(name, made.merchant_id, made.name, made.status)

"""Lists the effect of every dashboard and console route in production."""

from enum import StrEnum

from manilla.people.roles import ConsoleRole, Role


class Effect(StrEnum):
    """What a user can cause through a route in production, directly or with what it returns."""

    NOTHING = "no money leaves, and nothing is obtained that could move it"
    OWN = "changes how one's own account is protected"
    # The dashboard.
    MONEY = "pays out, refunds, or saves an account that is paid later"
    KEYS = "shows an API secret, which pays out through the API"
    TEAM = "makes or unmakes somebody who can do any of it, or changes whose business it is"
    TERMS = "changes what this merchant earns; nobody outside the platform is paid"
    # The console.
    MERCHANT = "lets a merchant move its own money, or stops it"
    SETTLE = "records what happened to money that a merchant has already sent"
    REFUND = "returns a payment to who paid it, from the wallet of its merchant"
    ASK = "moves money alone within the limit, or asks a second administrator"
    PLATFORM = "changes fees, limits, rails, settings or people, or approves a change"


WALLET = "/merchants/{merchant:int}/wallets/{environment:str}/{currency:str}"

# The roles that may use routes with each effect in production. Other roles get 403.
ROLES: dict[Effect, set[str]] = {
    Effect.OWN: {*Role, *ConsoleRole},
    Effect.MONEY: {Role.OWNER, Role.FINANCE},
    Effect.KEYS: {Role.OWNER},
    Effect.TEAM: {Role.OWNER},
    Effect.TERMS: {Role.OWNER, Role.DEVELOPER},
    Effect.MERCHANT: {ConsoleRole.ADMINISTRATOR, ConsoleRole.OPERATIONS},
    Effect.SETTLE: {ConsoleRole.ADMINISTRATOR, ConsoleRole.OPERATIONS},
    Effect.REFUND: {ConsoleRole.ADMINISTRATOR, ConsoleRole.OPERATIONS},
    Effect.ASK: {ConsoleRole.ADMINISTRATOR, ConsoleRole.OPERATIONS},
    Effect.PLATFORM: {ConsoleRole.ADMINISTRATOR},
}

# Pages about a user's own account, in the dashboard and the console. Invitations and reset links
# need their token.
ACCOUNT: dict[str, Effect] = {
    "POST /sign-in/demo": Effect.NOTHING,
    "GET /sign-in": Effect.NOTHING,
    "POST /sign-in": Effect.NOTHING,
    "POST /sign-in/code": Effect.NOTHING,
    "POST /sign-out": Effect.NOTHING,
    "GET /forgot": Effect.NOTHING,
    "POST /forgot": Effect.NOTHING,
    "GET /reset/{token:str}": Effect.NOTHING,
    "POST /reset/{token:str}": Effect.NOTHING,
    "GET /invitation/{token:str}": Effect.NOTHING,
    "POST /invitation/{token:str}": Effect.NOTHING,
    "POST /invitation/{token:str}/join": Effect.NOTHING,
    "GET /account": Effect.NOTHING,
    "POST /account/password": Effect.NOTHING,
    "POST /account/merchant": Effect.NOTHING,
    "POST /account/sessions/{session:int}/end": Effect.NOTHING,
    "POST /account/sessions/end-others": Effect.NOTHING,
    "POST /account/second-factor": Effect.OWN,
    "POST /account/second-factor/confirm": Effect.NOTHING,
    "POST /account/second-factor/off": Effect.OWN,
    "POST /account/recovery-codes": Effect.OWN,
}

DASHBOARD: dict[str, Effect] = {
    **ACCOUNT,
    "GET /sign-up": Effect.NOTHING,
    "POST /sign-up": Effect.NOTHING,
    "GET /": Effect.NOTHING,
    "GET /{environment:str}": Effect.NOTHING,
    "GET /{environment:str}/credentials": Effect.NOTHING,
    "POST /{environment:str}/credentials/rotate": Effect.KEYS,
    "GET /{environment:str}/gateways": Effect.NOTHING,
    "POST /{environment:str}/gateways": Effect.NOTHING,
    "POST /{environment:str}/gateways/move": Effect.NOTHING,
    "GET /{environment:str}/commission": Effect.NOTHING,
    "GET /{environment:str}/commission/example": Effect.NOTHING,
    "POST /{environment:str}/commission": Effect.TERMS,
    "GET /{environment:str}/payments": Effect.NOTHING,
    "GET /{environment:str}/payments/{trx_id:str}": Effect.NOTHING,
    "GET /{environment:str}/payments/{trx_id:str}/refund": Effect.NOTHING,
    "POST /{environment:str}/payments/{trx_id:str}/refund": Effect.MONEY,
    "GET /{environment:str}/payouts": Effect.NOTHING,
    "GET /{environment:str}/payouts/new": Effect.NOTHING,
    "GET /{environment:str}/payouts/new/name": Effect.NOTHING,
    "POST /{environment:str}/payouts/new": Effect.NOTHING,
    "POST /{environment:str}/payouts": Effect.MONEY,
    "GET /{environment:str}/payouts/{payout:str}": Effect.NOTHING,
    "GET /{environment:str}/payouts/bulk": Effect.NOTHING,
    "GET /{environment:str}/payouts/bulk/template/{method:int}": Effect.NOTHING,
    "GET /{environment:str}/payouts/bulk/banks/{method:int}": Effect.NOTHING,
    "POST /{environment:str}/payouts/bulk": Effect.NOTHING,
    "GET /{environment:str}/payouts/bulk/{batch:str}": Effect.NOTHING,
    "GET /{environment:str}/payouts/bulk/{batch:str}/progress": Effect.NOTHING,
    "GET /{environment:str}/payouts/bulk/{batch:str}/not-paid": Effect.NOTHING,
    "POST /{environment:str}/payouts/bulk/{batch:str}/confirm": Effect.MONEY,
    "GET /{environment:str}/payments/{trx_id:str}/receipt": Effect.NOTHING,
    "GET /{environment:str}/payments/{trx_id:str}/receipt.pdf": Effect.NOTHING,
    "GET /{environment:str}/payouts/{payout:str}/receipt": Effect.NOTHING,
    "GET /{environment:str}/payouts/{payout:str}/receipt.pdf": Effect.NOTHING,
    "GET /{environment:str}/accounts": Effect.NOTHING,
    "GET /{environment:str}/accounts/new": Effect.NOTHING,
    "POST /{environment:str}/accounts": Effect.MONEY,
    "POST /accounts/{account:int}/remove": Effect.NOTHING,
    "GET /{environment:str}/wallets": Effect.NOTHING,
    "GET /{environment:str}/wallets/{currency:str}": Effect.NOTHING,
    "POST /{environment:str}/wallets/{currency:str}/top-up": Effect.NOTHING,
    "GET /{environment:str}/notifications": Effect.NOTHING,
    "POST /{environment:str}/notifications/redeliver-failed": Effect.NOTHING,
    "GET /{environment:str}/notifications/{notification:str}": Effect.NOTHING,
    "POST /{environment:str}/notifications/{notification:str}/redeliver": Effect.NOTHING,
    "GET /{environment:str}/requests": Effect.NOTHING,
    "GET /{environment:str}/explorer": Effect.NOTHING,
    "POST /{environment:str}/explorer": Effect.NOTHING,
    "GET /team": Effect.NOTHING,
    "POST /team/invite": Effect.TEAM,
    "POST /team/invitations/{invitation:int}/withdraw": Effect.NOTHING,
    "POST /team/{person:int}/role": Effect.TEAM,
    "POST /team/{person:int}/remove": Effect.TEAM,
    "GET /profile": Effect.NOTHING,
    "POST /profile": Effect.NOTHING,
    "POST /profile/bvn": Effect.TEAM,
}

CONSOLE: dict[str, Effect] = {
    **ACCOUNT,
    "GET /": Effect.NOTHING,
    "GET /merchants": Effect.NOTHING,
    "GET /merchants/new": Effect.NOTHING,
    "POST /merchants/new": Effect.MERCHANT,
    "GET /merchants/{merchant:int}": Effect.NOTHING,
    "POST /merchants/{merchant:int}/status": Effect.MERCHANT,
    "POST /merchants/{merchant:int}/checks": Effect.MERCHANT,
    "POST /merchants/{merchant:int}/commission": Effect.PLATFORM,
    "POST /merchants/{merchant:int}/currencies": Effect.NOTHING,
    f"POST {WALLET}/status": Effect.MERCHANT,
    f"GET {WALLET}": Effect.NOTHING,
    f"POST {WALLET}/adjust": Effect.ASK,
    "GET /approvals": Effect.NOTHING,
    "POST /approvals/{approval:int}/approve": Effect.PLATFORM,
    "POST /approvals/{approval:int}/refuse": Effect.ASK,
    "GET /people": Effect.NOTHING,
    "POST /people/add": Effect.PLATFORM,
    "POST /people/{person:int}/role": Effect.PLATFORM,
    "POST /people/{person:int}/disable": Effect.PLATFORM,
    "POST /people/{person:int}/enable": Effect.PLATFORM,
    "POST /people/{person:int}/second-factor-off": Effect.PLATFORM,
    "POST /people/{person:int}/sign-out": Effect.PLATFORM,
    "POST /people/{person:int}/link": Effect.PLATFORM,
    "GET /audit": Effect.NOTHING,
    "POST /audit/verify": Effect.NOTHING,
    "GET /payouts": Effect.NOTHING,
    "GET /payouts/{payout:str}": Effect.NOTHING,
    "POST /payouts/{payout:str}/complete": Effect.SETTLE,
    "POST /payouts/{payout:str}/reject": Effect.SETTLE,
    "POST /payouts/{payout:str}/requeue": Effect.NOTHING,
    "GET /refunds": Effect.NOTHING,
    "GET /refunds/{refund:str}": Effect.NOTHING,
    "POST /refunds/{refund:str}/confirm": Effect.SETTLE,
    "POST /refunds/{refund:str}/reject": Effect.SETTLE,
    "GET /cases": Effect.NOTHING,
    "GET /cases/{case:int}": Effect.NOTHING,
    "POST /cases/{case:int}/ask": Effect.NOTHING,
    "POST /cases/{case:int}/close": Effect.NOTHING,
    "POST /cases/{case:int}/resolve": Effect.ASK,
    "GET /jobs": Effect.NOTHING,
    "POST /jobs/retry": Effect.NOTHING,
    "GET /notifications": Effect.NOTHING,
    "POST /notifications/redeliver-failed": Effect.NOTHING,
    "GET /notifications/{notification:str}": Effect.NOTHING,
    "POST /notifications/{notification:str}/redeliver": Effect.NOTHING,
    "GET /transactions": Effect.NOTHING,
    "GET /transactions/{trx_id:str}": Effect.NOTHING,
    "GET /transactions/{trx_id:str}/refund": Effect.NOTHING,
    "POST /transactions/{trx_id:str}/refund": Effect.REFUND,
    "GET /providers": Effect.NOTHING,
    "POST /providers": Effect.PLATFORM,
    "GET /providers/{provider:str}": Effect.NOTHING,
    "POST /providers/{provider:str}/credentials": Effect.PLATFORM,
    "POST /providers/{provider:str}/clear": Effect.PLATFORM,
    "POST /providers/{provider:str}/switches": Effect.PLATFORM,
    "POST /providers/{provider:str}/test": Effect.NOTHING,
    "POST /providers/{provider:str}/reconcile": Effect.NOTHING,
    "POST /providers/{provider:str}/settle": Effect.PLATFORM,
    "GET /banks": Effect.NOTHING,
    "GET /banks/{provider:str}": Effect.NOTHING,
    "POST /banks/{provider:str}": Effect.PLATFORM,
    "GET /methods": Effect.NOTHING,
    "GET /methods/{code:str}": Effect.NOTHING,
    "GET /methods/{code:str}/fee": Effect.NOTHING,
    "POST /methods/{code:str}": Effect.PLATFORM,
    "GET /ledger": Effect.NOTHING,
    "GET /ledger/postings": Effect.NOTHING,
    "GET /ledger/proof": Effect.NOTHING,
    "POST /ledger/proof": Effect.NOTHING,
    "GET /reconciliation": Effect.NOTHING,
    "GET /reconciliation/{provider:str}/{currency:str}/{day:str}": Effect.NOTHING,
    "GET /reconciliation/{provider:str}/{currency:str}/{day:str}/sheet": Effect.NOTHING,
    "GET /settings": Effect.NOTHING,
    "GET /settings/{setting:str}": Effect.NOTHING,
    "POST /settings/{setting:str}": Effect.PLATFORM,
    "POST /settings/{setting:str}/reset": Effect.PLATFORM,
    "GET /requests/{request_id:str}": Effect.NOTHING,
    "GET /system": Effect.NOTHING,
}

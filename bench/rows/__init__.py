"""The benchmarks in the order in which they run. Each file has one or more rows of the report."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from bench.frame import Row
from bench.rows import (
    disburse,
    endpoints,
    growth,
    initiate_payment,
    initiate_payout,
    ledger,
    life,
    lists,
    notify,
    one_merchant,
    processes,
    rate_limit,
    reconcile,
    scheduled,
    search,
    site_info,
    split,
    start,
    verify,
)
from bench.stage import Stage

# Each benchmark is a context manager that starts its processes and stops them at the end.
Opener = Callable[[Stage], AbstractAsyncContextManager[Row]]

ROWS: dict[str, Opener] = {
    "site-info": site_info.opened,
    "rate-limit": rate_limit.many_callers,
    "rate-limit-alone": rate_limit.one_caller,
    "initiate-payment": initiate_payment.opened,
    "initiate-payout-many": initiate_payout.many_wallets,
    "initiate-payout-one": initiate_payout.one_wallet,
    "verify-payment": verify.payments,
    "verify-payout": verify.payouts,
    "list-payments": lists.payments,
    "list-payouts": lists.payouts,
    "processes": processes.opened,
    "half-load": scheduled.half_load,
    "overload": scheduled.overload,
    "ledger-many": ledger.many_wallets,
    "ledger-one": ledger.one_wallet,
    "one-merchant": one_merchant.opened,
    "split": split.opened,
    "disburse": disburse.opened,
    "notify": notify.deliveries,
    "notify-claim": notify.claims,
    "endpoints": endpoints.deliveries,
    "life-payout": life.payouts,
    "life-payout-steady": life.steady_payouts,
    "life-payout-repeated": life.repeated_payouts,
    "life-payment": life.payments,
    "start": start.opened,
    "reconcile": reconcile.opened,
    "search": search.opened,
}
GROWTH = growth.ROWS  # run by `--growth`, because filling their databases takes long
LONG = (
    "life-payout",
    "life-payout-steady",
    "life-payout-repeated",
    "life-payment",
    "reconcile",
    "search",
)  # left out of a quick run; `--only` runs it

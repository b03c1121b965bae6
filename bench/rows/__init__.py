"""What is measured: one file a row, named in the order in which they are run."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from bench.frame import Row
from bench.rows import growth, initiate_payment, ledger, rate_limit, site_info
from bench.stage import Stage

# A row is open while it is measured: it starts what it needs, and ends it.
Opener = Callable[[Stage], AbstractAsyncContextManager[Row]]

ROWS: dict[str, Opener] = {
    "site-info": site_info.opened,
    "rate-limit": rate_limit.many_callers,
    "rate-limit-alone": rate_limit.one_caller,
    "initiate-payment": initiate_payment.opened,
    "ledger-many": ledger.many_wallets,
    "ledger-one": ledger.one_wallet,
    "initiate-payment-growth": growth.opened,
}

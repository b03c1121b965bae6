"""Payment statistics by day."""

from manilla.ledger.daily import CountedTable

PAYMENTS = CountedTable("payment", "success", ("failed",))
daily, has_any = PAYMENTS.daily, PAYMENTS.has_any

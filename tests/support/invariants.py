"""All ledger invariants, which must hold after every test."""

from manilla.customers.invariants import CUSTOMERS
from manilla.disputes.invariants import DISPUTES
from manilla.invoices.invariants import INVOICES
from manilla.ledger.invariants import LEDGER
from manilla.margin.invariants import MARGIN
from manilla.payments.invariants import PAYMENTS
from manilla.payouts.invariants import PAYOUTS
from manilla.prices.invariants import PRICES
from manilla.saved_ways.invariants import SAVED_WAYS
from manilla.splits.invariants import SPLITS

ALL = (
    *LEDGER,
    *PAYMENTS,
    *PAYOUTS,
    *CUSTOMERS,
    *DISPUTES,
    *PRICES,
    *INVOICES,
    *MARGIN,
    *SAVED_WAYS,
    *SPLITS,
)

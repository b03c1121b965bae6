"""All ledger invariants, which must hold after every test."""

from manilla.customers.invariants import CUSTOMERS
from manilla.disputes.invariants import DISPUTES
from manilla.ledger.invariants import LEDGER
from manilla.payments.invariants import PAYMENTS
from manilla.payouts.invariants import PAYOUTS

ALL = (*LEDGER, *PAYMENTS, *PAYOUTS, *CUSTOMERS, *DISPUTES)

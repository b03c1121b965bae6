"""All ledger invariants, which must hold after every test."""

from manilla.disputes.invariants import DISPUTES
from manilla.ledger.invariants import LEDGER
from manilla.payments.invariants import PAYMENTS
from manilla.payouts.invariants import PAYOUTS
from manilla.splits.invariants import SPLITS

ALL = (*LEDGER, *PAYMENTS, *PAYOUTS, *DISPUTES, *SPLITS)

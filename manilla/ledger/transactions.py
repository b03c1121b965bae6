"""Errors and types that payments and payouts share."""

from enum import StrEnum

from manilla.kit.errors import Refusal

SANDBOX_REMARK = "SANDBOX_TRANSACTION"


class TransactionNotFound(Refusal):
    """The id is unknown, or the caller may not see the transaction.

    Both cases have the same error.
    """

    status, code = 404, "TRANSACTION_NOT_FOUND"
    message = "There is no such transaction."


class DuplicateReference(Refusal):
    code = "DUPLICATE_REFERENCE"
    message = "This ref_trx was used before."


class KeyUsedBefore(Refusal):
    code = "DUPLICATE_REFERENCE"
    message = "This Idempotency-Key was used before, with another body."


class CurrencyNotEnabled(Refusal):
    code = "INVALID_CURRENCY"
    message = "Currency is not enabled for this merchant."


class Scenario(StrEnum):
    """The outcome that the caller requested for a sandbox transaction."""

    SUCCESS = "success"
    FAILED = "failed"
    PENDING = "pending"
    DISPUTED = "disputed"  # a payment that succeeds, and is then disputed

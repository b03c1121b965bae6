"""Errors and types that payments and payouts share."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

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

    def __init__(self, *, details: Mapping[str, Any]) -> None:
        """`details`: the id and the status of the first transaction."""
        super().__init__(details={**details, "duplicate_of": "ref_trx"})


class KeyUsedBefore(Refusal):
    code = "DUPLICATE_REFERENCE"
    message = "This Idempotency-Key was used before, with another body."

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, details={"duplicate_of": "idempotency_key"})


class CurrencyNotEnabled(Refusal):
    code = "INVALID_CURRENCY"
    message = "Currency is not enabled for this merchant."


class Scenario(StrEnum):
    """The outcome that the caller requested for a sandbox transaction."""

    SUCCESS = "success"
    FAILED = "failed"
    PENDING = "pending"
    DISPUTED = "disputed"  # a payment that succeeds, and is then disputed

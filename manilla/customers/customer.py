"""A customer of a merchant. The merchant's reference identifies the customer in the API."""

import re
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from manilla.kit.crypto import Keyring, SealedColumn
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.ids import TimedIds
from manilla.ledger.scope import Tenant

CUSTOMER_IDS = TimedIds("CUS", 1_000, 10)
# A reference is a part of URL paths.
REFERENCE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,59}")
NAME_LENGTH_MAX = 100
PHONE = re.compile(r"\+?[0-9]{7,15}")
IDENTITY_DIGITS = 11  # of a BVN or NIN
ERASED_NAME = "Erased"


class CustomerNotFound(Refusal):
    status, code = 404, "CUSTOMER_NOT_FOUND"
    message = "There is no such customer."


class CustomerExists(Refusal):
    code = "DUPLICATE_REFERENCE"
    message = "Another customer has this reference. Get this customer, or update it."


class CustomerDisabled(Refusal):
    code = "customer_disabled"
    message = "The customer is disabled."


class CustomerErased(Refusal):
    code = "customer_disabled"
    message = "The customer's data was erased. Create a customer with another reference."


class CustomerStatus(StrEnum):
    ACTIVE = "active"
    DISABLED = "disabled"


class CustomerTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that the merchant can change, besides BVN and NIN."""

    name: str
    email: str | None = None
    phone: str | None = None
    ipn_url: str = ""  # receives the notifications of transfers into the customer's accounts


class PersonalNumbers(msgspec.Struct, frozen=True):
    """Numbers that identify a person. They are encrypted, and only sent to providers."""

    bvn: str | None = None
    nin: str | None = None


class CustomerRow(CustomerTerms, frozen=True, kw_only=True):
    merchant_id: int
    id: str
    environment: Environment
    reference: str
    bvn_sealed: bytes | None
    nin_sealed: bytes | None
    created_at: datetime
    updated_at: datetime
    disabled_at: datetime | None
    erased_at: datetime | None

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.merchant_id, self.environment)

    @property
    def status(self) -> CustomerStatus:
        is_active = self.disabled_at is None
        return CustomerStatus.ACTIVE if is_active else CustomerStatus.DISABLED

    @property
    def bvn_given(self) -> bool:
        return self.bvn_sealed is not None

    @property
    def nin_given(self) -> bool:
        return self.nin_sealed is not None

    @property
    def terms(self) -> CustomerTerms:
        names = CustomerTerms.__struct_fields__
        return CustomerTerms(**{name: getattr(self, name) for name in names})

    def personal_numbers(self, keyring: Keyring) -> PersonalNumbers:
        """Returns the decrypted numbers, for a provider that needs them."""

        def opened(name: str, sealed: bytes | None) -> str | None:
            if sealed is None:
                return None
            return keyring.open(sealed, context(self.merchant_id, self.id, name)).decode()

        return PersonalNumbers(opened("bvn", self.bvn_sealed), opened("nin", self.nin_sealed))


def context(merchant_id: int, customer_id: str, name: str) -> str:
    """Returns the associated data that binds an encrypted number to its row."""
    return f"customer:{merchant_id}:{customer_id}:{name}"


def _sealed(name: str) -> SealedColumn:
    def context_of(row: Any) -> str:
        return context(row["merchant_id"], row["id"], name)

    return SealedColumn("customer", f"{name}_sealed", ("merchant_id", "id"), context_of)


SEALED = _sealed("bvn"), _sealed("nin")

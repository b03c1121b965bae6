"""Customers as the API describes them."""

from typing import Annotated

import msgspec

from manilla.customers.customer import CustomerRow, CustomerStatus
from manilla.kit.clock import iso
from manilla.kit.fields import api_field


class CustomerInfo(msgspec.Struct, frozen=True, kw_only=True):
    reference: str
    id: str
    name: str
    email: str | None
    phone: str | None
    bvn_given: bool
    nin_given: bool
    ipn_url: str | None
    status: Annotated[str, api_field("The customer's status.", enum=list(CustomerStatus))]
    created_at: str
    updated_at: str
    environment: str


def describe(customer: CustomerRow) -> CustomerInfo:
    return CustomerInfo(
        reference=customer.reference,
        id=customer.id,
        name=customer.name,
        email=customer.email,
        phone=customer.phone,
        bvn_given=customer.bvn_given,
        nin_given=customer.nin_given,
        ipn_url=customer.ipn_url or None,
        status=customer.status,
        created_at=iso(customer.created_at),
        updated_at=iso(customer.updated_at),
        environment=customer.environment,
    )

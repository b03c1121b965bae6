"""Verifies a payment with manilla-client: verify_payment.py TRX_ID."""

import sys

from manilla_client import ApiError, Client, CompletedPayment

with Client.from_environment() as client:
    try:
        payment = client.verify_payment(sys.argv[1])
    except ApiError as refusal:
        sys.exit(str(refusal))
print(payment.trx_id, payment.status)
# Fulfill the order only on success, and only if amount and currency match your order.
sys.exit(0 if isinstance(payment, CompletedPayment) else 1)

"""Refunds a payment and verifies the refund with manilla-client: refund.py TRX_ID."""

import sys

from manilla_client import ApiError, Client

payment = sys.argv[1]
reference = f"REFUND-{payment}"  # unique per refund, so a retry does not refund twice
with Client.from_environment() as client:
    try:
        # If `amount` is omitted, the remaining amount is refunded.
        made = client.initiate_refund(trx_id=payment, ref_trx=reference, idempotency_key=reference)
        refund = client.verify_refund(made.trx_id)
    except ApiError as refusal:
        sys.exit(str(refusal))
print(refund.trx_id, refund.status)
# If the refund is still pending, use wait_for_refund, or wait for the notification.
sys.exit(1 if refund.status == "failed" else 0)

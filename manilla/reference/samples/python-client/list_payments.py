"""Lists payments with manilla-client, which requests the next page when it is needed."""

import sys

from manilla_client import ApiError, Client

with Client.from_environment() as client:
    try:
        for payment in client.payments(status="success"):
            print(payment.trx_id, payment.status)
    except ApiError as refusal:
        sys.exit(str(refusal))

"""Verifies a webhook with the client: verify_webhook.py BODYFILE ID TIMESTAMP SIGNATURES."""

import os
import sys
from pathlib import Path

from manilla_client import BadNotification, verify_ipn

# In your integration, pass all request headers.
names = ("webhook-id", "webhook-timestamp", "webhook-signature")
headers = dict(zip(names, sys.argv[2:5], strict=True))
try:
    event = verify_ipn(
        Path(sys.argv[1]).read_bytes(), headers, os.environ["MANILLA_WEBHOOK_SECRET"]
    )
except BadNotification as problem:
    sys.exit(str(problem))
print(event.event, event.status, event.trx_id, event.amount)

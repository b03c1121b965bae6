"""Verifies a notification with the client: verify_ipn.py BODYFILE SIGNATURE."""

import os
import sys
from pathlib import Path

from manilla_client import BadNotification, verify_ipn

# In your integration, pass all request headers, so that the timestamp is also verified.
headers = {"X-Signature": sys.argv[2]}
try:
    notification = verify_ipn(
        Path(sys.argv[1]).read_bytes(), headers, os.environ["MANILLA_API_SECRET"]
    )
except BadNotification as problem:
    sys.exit(str(problem))
print(notification.event, notification.status, notification.trx_id, notification.amount)

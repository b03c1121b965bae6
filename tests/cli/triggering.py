"""Creates notifications by triggering sandbox transactions with the merchant's command."""

import json
from typing import Any

from tests.client_library.tool import tool, variables
from tests.support.instance import Instance


def trigger(instance: Instance, merchant: Any, event: str, url: str) -> Any:
    """Creates a sandbox transaction, and returns the transaction and the notification's id."""
    own = merchant["sandbox"]
    keys = variables(instance.port, own["merchant_key"], own["api_key"], own["api_secret"])
    words = ("trigger", event, "--ipn-url", url, "--json")
    run = tool(instance.folder.parent, *words, **keys)
    assert run.returncode == 0, run.stderr
    made = json.loads(run.stdout)
    [notification] = instance.command("ipn", "list", "--trx", made["trx_id"])
    return {**made, "notification_id": notification["id"]}

"""Calls a provider's Python library: reads each call, and writes its result, as a line of JSON.

A call is the name of a method, such as `transactions.verify`, and the method's named arguments.
"""

import json
import sys
from operator import attrgetter
from typing import Any


def paystack() -> Any:
    from pypaystack2 import PaystackClient

    return PaystackClient("sk_live_simulated")


def monnify() -> Any:
    from monnify import Monnify

    return Monnify("MK_PROD_SIMULATED", "SIMULATEDMONNIFYSECRET", "LIVE")


def call(library: Any, method: str, arguments: dict[str, Any]) -> Any:
    try:
        return attrgetter(method)(library)(**arguments)
    except Exception as error:
        return {"error": str(error)}


def main() -> None:
    library = {"paystack": paystack, "monnify": monnify}[sys.argv[1]]()
    for line in sys.stdin:
        result = call(library, *json.loads(line))
        # Paystack's library returns Pydantic models.
        print(json.dumps(result, default=lambda model: model.model_dump(mode="json")), flush=True)


if __name__ == "__main__":
    main()

"""The optional header that chooses the outcome of a sandbox transaction."""

from manilla.api.endpoint import Call
from manilla.api.refusals import ValidationFailed
from manilla.ledger.transactions import Scenario

NAME = "X-Sandbox-Scenario"
EXPECTED = "Expected `success`, `failed` or `pending`."


def read_scenario(call: Call) -> Scenario | None:
    raw = call.headers.get(NAME.lower().encode())
    if raw is None:
        return None
    if not call.caller.is_sandbox:
        # The caller expects that no real money moves, so do not ignore the header.
        raise ValidationFailed(errors={NAME: "This header works in the sandbox only."})
    try:
        return Scenario(raw.decode("latin-1"))
    except ValueError:
        raise ValidationFailed(errors={NAME: EXPECTED}) from None

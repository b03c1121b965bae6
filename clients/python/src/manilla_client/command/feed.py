"""Reads a merchant's events from the platform."""

from email.utils import parsedate_to_datetime
from typing import Any

from manilla_client import calls, exact_json
from manilla_client.bodies import EventPage
from manilla_client.calls import Call
from manilla_client.command.accounts import Account
from manilla_client.conversation import error_of, may_be_repeated, retry_after_seconds, signed
from manilla_client.errors import BadAnswer
from manilla_client.transport import Answer, Failure, Transport

PAGE_SIZE = 100
WAIT_SECONDS_MAX = 25
TIMEOUT_SECONDS = WAIT_SECONDS_MAX + 20


class Unreachable(Exception):
    """The platform cannot respond now. The message gives the reason."""

    def __init__(self, outcome: Answer | Failure) -> None:
        super().__init__(str(error_of(outcome, None)))
        self.retry_after_seconds = retry_after_seconds(outcome) or 0


class Feed:
    def __init__(self, account: Account) -> None:
        self._credentials = account.credentials
        self._transport = Transport(account.url, TIMEOUT_SECONDS)

    def now(self) -> str:
        """Returns the platform's time. The local clock is not used, as it may be minutes ahead."""
        headers, _ = self._send(calls.site_info())
        try:
            return parsedate_to_datetime(headers.get("date", "")).isoformat()
        except ValueError:
            raise BadAnswer("The platform's response has no valid date. Use --since.") from None

    def page(self, since: str, cursor: str | None, wait_seconds: int) -> EventPage:
        call = calls.list_events(
            {"since": since, "cursor": cursor, "limit": PAGE_SIZE, "wait": wait_seconds}
        )
        return call.read(self._send(call)[1])

    def _send(self, call: Call[Any]) -> tuple[Any, Any]:
        """Sends a call, and returns the response's headers and parsed JSON body."""
        outcome = self._transport.send(signed(call, self._credentials))
        if isinstance(outcome, Answer) and outcome.status == 200:
            try:
                return outcome.headers, exact_json.loads(outcome.body)
            except ValueError:
                raise Unreachable(Failure("The response is not JSON.")) from None
        if may_be_repeated(outcome):
            raise Unreachable(outcome)
        raise error_of(outcome, None)

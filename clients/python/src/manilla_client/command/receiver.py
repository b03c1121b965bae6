"""The developer's local receiver, to which `listen` forwards events."""

from urllib.parse import urlsplit

from manilla_client.bodies import Event
from manilla_client.command.failure import CommandFailed
from manilla_client.command.request import check_target
from manilla_client.credentials import Credentials
from manilla_client.notifications import sign_ipn
from manilla_client.transport import Answer, Failure, Request, Transport

ATTEMPT_SECONDS = 10  # The platform uses the same time limit for its own deliveries.


class Receiver:
    def __init__(self, url: str, credentials: Credentials) -> None:
        parts = urlsplit(url)
        query = f"?{parts.query}" if parts.query else ""
        self._credentials = credentials
        try:
            self._transport = Transport(f"{parts.scheme}://{parts.netloc}", ATTEMPT_SECONDS)
        except ValueError as error:
            raise CommandFailed(f"{url!r}: {error}") from None
        self._target = check_target((parts.path or "/") + query)

    def post(self, event: Event) -> Answer | Failure:
        """Sends the event with the same body and signatures as in the platform's notification."""
        body, own = event.body.encode(), self._credentials
        headers = sign_ipn(body, own.api_secret, id=event.id, environment=own.environment)
        return self._transport.send(Request("POST", self._target, headers, body))

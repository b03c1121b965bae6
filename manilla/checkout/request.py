"""A request with the signed link of a payment. Whoever has the link may pay; there is no session.

Checkout uses no cookies, so its forms need no CSRF token: to forge a request, another site would
have to know the signature in the link.
"""

import contextlib
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from litestar import Request, Response
from litestar.response import Redirect

from manilla.kit.errors import Refusal
from manilla.payments.checkout import CheckoutView
from manilla.payments.link import LinkState
from manilla.services import Services

NO_STORE = {"Cache-Control": "no-store"}


class CheckoutRequest:
    def __init__(self, services: Services, http: Request[Any, Any, Any]) -> None:
        self.services = services
        self.http = http
        self.trx_id: str = http.path_params["trx_id"]
        self._expires = http.query_params.get("expires", "")
        self._signature = http.query_params.get("signature", "")

    @property
    def link_state(self) -> LinkState:
        return self.services.links.check(self.trx_id, self._expires, self._signature)

    @property
    def link_expires_at(self) -> datetime:
        return datetime.fromtimestamp(int(self._expires), UTC)

    @property
    def wants_json(self) -> bool:
        if self.http.url.path.endswith("/status"):
            return True
        accepted = self.http.accept.best_match(["text/html", "application/json"])
        return accepted == "application/json"

    async def field(self, name: str) -> str:
        """Returns a field of the submitted form."""
        return str((await self.http.form()).get(name, ""))

    async def view(self) -> CheckoutView:
        return await self.services.checkout.view(self.trx_id)

    async def query_provider(self) -> None:
        """Queries the provider now. If that fails, the page shows the stored status and polls."""
        with contextlib.suppress(Refusal):
            await self.services.checkout.look_again(self.trx_id)

    def url(self, page: str = "", **more: str) -> str:
        """Returns the URL of another page of this payment, without a provider's parameters."""
        query = urlencode({"expires": self._expires, "signature": self._signature, **more})
        return f"/checkout/{self.trx_id}{'/' if page else ''}{page}?{query}"

    def redirect(self, page: str = "", **more: str) -> Response[Any]:
        return Redirect(self.url(page, **more), status_code=303, headers=NO_STORE)

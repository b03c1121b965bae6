"""The signed URL of a payment's pages. Whoever has it may pay; there is no other session.

Checkout uses no cookies, so forms need no CSRF token: another site that sends a customer's browser
here would have to know the signature.
"""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import msgspec
from litestar import Request
from litestar.response import Redirect

NO_STORE = {"Cache-Control": "no-store"}


class Address(msgspec.Struct, frozen=True):
    trx_id: str
    expires: str
    signature: str

    @property
    def ends_at(self) -> datetime:
        return datetime.fromtimestamp(int(self.expires), UTC)

    def to(self, page: str = "", **more: str) -> str:
        """The URL of another page of this payment, without query parameters added by a provider."""
        query = urlencode({"expires": self.expires, "signature": self.signature, **more})
        return f"/checkout/{self.trx_id}{'/' if page else ''}{page}?{query}"

    def redirect(self, page: str = "", **more: str) -> Redirect:
        return Redirect(self.to(page, **more), status_code=303, headers=NO_STORE)


def read(request: Request[Any, Any, Any]) -> Address:
    return Address(
        request.path_params["trx_id"],
        request.query_params.get("expires", ""),
        request.query_params.get("signature", ""),
    )

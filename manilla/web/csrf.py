"""CSRF protection: each form contains a token that is derived from the browser's cookie."""

import hashlib
import hmac

from manilla.kit.crypto import Keyring
from manilla.kit.errors import Refusal, translatable

FIELD = "csrf"


class ForgedForm(Refusal):
    status, code = 403, "FORGED_FORM"
    message = translatable(
        "This form has expired or did not come from this site. Go back and try again."
    )


def check_site(fetch_site: str | None) -> None:
    """Raises `ForgedForm` if the browser reports that another site submitted the form."""
    if fetch_site not in (None, "same-origin", "none"):
        raise ForgedForm


class Csrf:
    def __init__(self, keyring: Keyring) -> None:
        self._keys = keyring.derive_all("csrf")

    def token(self, cookie: str) -> str:
        """Returns the form token for the browser that has this cookie."""
        return self._tokens(cookie)[0]

    def check(self, cookie: str, given: str, fetch_site: str | None) -> None:
        """Raises `ForgedForm` unless the token is valid. Old browsers do not send `fetch_site`."""
        check_site(fetch_site)
        sent = given.encode()
        if not any(hmac.compare_digest(token.encode(), sent) for token in self._tokens(cookie)):
            raise ForgedForm

    def _tokens(self, cookie: str) -> list[str]:
        return [hmac.digest(key, cookie.encode(), hashlib.sha256).hex() for key in self._keys]

"""A merchant's branding, which its customers see: logo, color and support contact."""

import hashlib
import re
from collections.abc import Mapping

import msgspec

from manilla.audit import audit
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.errors import Refusal
from manilla.kit.texts import is_email
from manilla.merchants import merchants

LOGO_PATH = "/brand"
EMAIL_LENGTH_MAX = 100
_COLOR = re.compile(r"#?([0-9a-fA-F]{6})")
_PHONE = re.compile(r"\+?[0-9][0-9 ()-]{5,23}")
PROBLEMS = {
    "accent": "Enter a color such as #0b5d4e.",
    "support_email": "Enter an email address.",
    "support_phone": "Enter a phone number, such as +234 803 000 0000.",
}


class BadBranding(Refusal):
    code = "BAD_BRANDING"


class Branding(msgspec.Struct, frozen=True, kw_only=True):
    merchant_id: int
    accent: str | None = None  # six hexadecimal digits
    support_email: str | None = None
    support_phone: str | None = None
    logo_version: str | None = None  # None if the merchant has no logo

    @property
    def logo_url(self) -> str | None:
        """The logo's path. It contains the logo's version, so the image at a path never changes."""
        if self.logo_version is None:
            return None
        return f"{LOGO_PATH}/{self.merchant_id}/{self.logo_version}.png"

    @property
    def support(self) -> str:
        return " or ".join(filter(None, (self.support_email, self.support_phone)))

    @property
    def telephone(self) -> str:
        """The phone number in the format of a `tel:` link."""
        return re.sub(r"[ ()-]", "", self.support_phone or "")


async def find(db: Database | Connection, merchant_id: int) -> Branding:
    found = await db.row(
        Branding,
        f"SELECT {columns(Branding)} FROM merchant_branding WHERE merchant_id = $1",
        merchant_id,
    )
    return found or Branding(merchant_id=merchant_id)


async def read_logo(db: Database, merchant_id: int, version: str) -> bytes | None:
    content: bytes | None = await db.value(
        "SELECT logo FROM merchant_branding WHERE merchant_id = $1 AND logo_version = $2",
        *(merchant_id, version),
    )
    return content


def parse_color(text: str) -> str | None:
    """Returns the six hexadecimal digits of a color, or None if the text is not a color."""
    found = _COLOR.fullmatch(text.strip())
    return found[1].lower() if found else None


async def change(db: Database, merchant_id: int, accent: str, email: str, phone: str) -> None:
    """Changes the color and the support contact. An empty text removes a value."""
    color, email, phone = parse_color(accent), email.strip(), phone.strip()
    is_valid = {
        "accent": not accent.strip() or color is not None,
        "support_email": not email or (len(email) <= EMAIL_LENGTH_MAX and is_email(email)),
        "support_phone": not phone or _PHONE.fullmatch(phone) is not None,
    }
    errors = {name: PROBLEMS[name] for name, is_so in is_valid.items() if not is_so}
    if errors:
        raise BadBranding(errors=errors)
    values = {
        "accent": color,
        "support_email": email or None,
        "support_phone": phone or None,
    }
    async with db.transaction() as connection:
        await _save(connection, merchant_id, values)
        await audit.record(
            connection,
            "branding.changed",
            f"merchant:{merchant_id}",
            merchant_id=merchant_id,
            **values,
        )


async def set_logo(db: Database, merchant_id: int, picture: bytes | None) -> None:
    """Stores a logo that `logo.encode` has returned, or removes the logo if it is None."""
    version = None if picture is None else hashlib.sha256(picture).hexdigest()[:20]
    action = "branding.logo_changed" if picture else "branding.logo_removed"
    async with db.transaction() as connection:
        await _save(connection, merchant_id, {"logo": picture, "logo_version": version})
        await audit.record(
            connection, action, f"merchant:{merchant_id}", merchant_id=merchant_id, logo=version
        )


async def _save(connection: Connection, merchant_id: int, values: Mapping[str, object]) -> None:
    await merchants.touch(connection, merchant_id)
    names = ", ".join(values)
    places = ", ".join(f"${number}" for number in range(2, len(values) + 2))
    excluded = ", ".join(f"{name} = excluded.{name}" for name in values)
    await connection.execute(
        f"""
        INSERT INTO merchant_branding (merchant_id, {names}) VALUES ($1, {places})
            ON CONFLICT (merchant_id) DO UPDATE SET {excluded}""",
        *(merchant_id, *values.values()),
    )

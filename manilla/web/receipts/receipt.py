"""A receipt, as the page and the PDF show it."""

import msgspec

Lines = list[tuple[str, str]]


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    trx_id: str
    language: str = "en"  # the code of the language of all texts
    title: str
    merchant_name: str
    is_sandbox: bool
    amount: str
    state: str
    tone: str  # the color of the status: green, yellow or red
    when: str
    groups: list[Lines]
    beneficiary: str | None  # the masked name for the public verification page
    verification_url: str
    support: str = ""  # how customers can contact the merchant
    logo: bytes | None = None  # a PNG

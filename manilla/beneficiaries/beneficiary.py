"""Parses and validates beneficiaries, and resolves their account names with the provider."""

import re
import time
import unicodedata
from collections.abc import Mapping, Sequence
from operator import mul
from typing import Any

import msgspec

from manilla.beneficiaries import methods, sandbox
from manilla.beneficiaries.banks import Banks, suggestion
from manilla.kit.texts import ONE_LINE, has_controls
from manilla.methods.method import Method
from manilla.providers.kind import Credentials
from manilla.providers.port import (
    Bank,
    Done,
    RefusalCode,
    Refused,
    ResolvedAccount,
    Unknown,
)
from manilla.providers.rails import Rails
from manilla.transfers.refusals import (
    GatewayNotConfigured,
    InvalidBeneficiary,
    PayoutFailed,
    ProviderInsufficientBalance,
    ProviderUnavailable,
    UnknownBank,
)

ALIASES = {
    "bank": methods.BANK_CODE,
    "account": methods.ACCOUNT_NUMBER,
    "name": methods.ACCOUNT_NAME,
    "nameEnquiryReference": "name_enquiry_reference",
}
OPTIONAL = (methods.ACCOUNT_NAME, "name_enquiry_reference")
KNOWN = (methods.BANK_CODE, methods.ACCOUNT_NUMBER, *OPTIONAL)
REQUIRED, REQUIRED_MANUAL = (
    [field.name for field in schema if field.validation == "required"]
    for schema in (methods.AUTOMATIC, methods.MANUAL)
)
TEXT_LENGTH_MAX = 200
NUBAN_DIGITS = 10
KEEP_SECONDS = 600
KEPT_MAX = 20_000
_WEIGHTS = (3, 7, 3) * 4
_VALUES = bytes.maketrans(b"0123456789", bytes(range(10)))
_WORDS = re.compile(r"\w+")
SHARED_WORDS_MIN = 2


class Beneficiary(msgspec.Struct, frozen=True):
    """A beneficiary's fields, as sent by the merchant, with their canonical names."""

    fields: dict[str, str]

    @property
    def bank(self) -> str:
        """The bank's code, or its name for a manual payout."""
        return self.fields.get(methods.BANK_CODE) or self.fields[methods.MANUAL_BANK_NAME]

    @property
    def number(self) -> str:
        """The account number, whose field name depends on the method."""
        number = self.fields.get(methods.ACCOUNT_NUMBER)
        return number or self.fields[methods.MANUAL_ACCOUNT_NUMBER]

    @property
    def bank_code(self) -> str:
        return self.fields[methods.BANK_CODE]

    @property
    def account_number(self) -> str:
        return self.fields[methods.ACCOUNT_NUMBER]


def read(method: Method, given: Mapping[str, Any]) -> Beneficiary:
    """Parses a beneficiary. Rejects values that the method cannot use; ignores unknown fields."""
    fields: dict[str, str] = {}
    for name, value in given.items():
        canonical = _canonical(method, name)
        if canonical is None or value is None:
            continue
        if not isinstance(value, str) or len(value) > TEXT_LENGTH_MAX:
            raise InvalidBeneficiary(f"{name} must be text of 1 to {TEXT_LENGTH_MAX} characters.")
        text = value.strip()
        if not text:
            continue  # ignore an empty field, even if its alias has a value
        if has_controls(text):
            raise InvalidBeneficiary(f"{name}: {ONE_LINE}")
        if fields.setdefault(canonical, text) != text:
            raise InvalidBeneficiary(f"{canonical} is given twice, with different values.")
    required = REQUIRED_MANUAL if method.is_manual else REQUIRED
    missing = [name for name in required if name not in fields]
    if missing:
        raise InvalidBeneficiary(f"The beneficiary lacks {' and '.join(missing)}.")
    if not method.is_manual:
        check_account_number(fields[methods.ACCOUNT_NUMBER])
    return Beneficiary(fields)


def _canonical(method: Method, name: str) -> str | None:
    if method.is_manual:
        plain = name.replace("_", " ").lower()
        return next((f.name for f in methods.MANUAL if f.name.lower() == plain), None)
    canonical = ALIASES.get(name, name)
    return canonical if canonical in KNOWN else None


def check_account_number(text: str) -> None:
    if not _is_number(text, NUBAN_DIGITS):
        raise InvalidBeneficiary(f"The account number must have {NUBAN_DIGITS} digits.")


def check_digit_fits(cbn_code: str, account_number: str) -> bool | None:
    """Whether the check digit of a Nigerian account number (NUBAN) matches.

    Returns None if the bank has no three-digit code to check with. Many banks do not use the
    standard check digit, so a mismatch is reported but never rejected.
    """
    if not _is_number(cbn_code, 3) or not _is_number(account_number, NUBAN_DIGITS):
        return None
    digits = (cbn_code + account_number).encode().translate(_VALUES)
    total: int = sum(map(mul, digits, _WEIGHTS))
    return (10 - total % 10) % 10 == digits[-1]


def _is_number(text: str, digits: int) -> bool:
    return len(text) == digits and text.isascii() and text.isdigit()


def names_agree(first: str, second: str) -> bool:
    """Whether two names, from different sources, can be the name of the same account holder.

    The order of the words can differ, and a middle name can be missing. Every word of the shorter
    name must be in the longer name.
    """
    words = sorted((_words(first), _words(second)), key=len)
    is_contained = words[0] <= words[1] and bool(words[0])
    return is_contained and (words[0] == words[1] or len(words[0]) >= SHARED_WORDS_MIN)


def _words(name: str) -> set[str]:
    plain = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(each for each in plain if not unicodedata.combining(each))
    return set(_WORDS.findall(letters))


def note(who: Beneficiary, account: ResolvedAccount | None) -> str:
    """Describes the beneficiary for the timeline.

    The name that the provider resolved takes precedence over the name that the merchant sent.
    """
    if account is None:
        bank, number = (who.fields[field.name] for field in methods.MANUAL)
        return f"To {bank}, account …{number[-4:]}, paid manually."
    given = who.fields.get(methods.ACCOUNT_NAME)
    parts = [
        f"To {account.account_name}, bank {who.bank_code}, account …{who.account_number[-4:]}."
    ]
    if given is not None and given.casefold() != account.account_name.casefold():
        parts.append(f"The name given was {given}.")
    if check_digit_fits(who.bank_code, who.account_number) is False:
        parts.append("The account number's check digit does not match the bank.")
    return " ".join(parts)


class AccountResolver:
    """Resolves account holders' names with the provider, and caches them for ten minutes."""

    def __init__(self, rails: Rails, banks: Banks) -> None:
        self._rails = rails
        self._banks = banks
        self._kept: dict[tuple[str, str, str], tuple[Credentials, float, ResolvedAccount]] = {}

    def resolve_in_sandbox(self, provider: str, who: Beneficiary) -> ResolvedAccount:
        kind = self._rails.credentials(provider).kind
        if not sandbox.has_bank(kind, who.bank_code):
            _check_bank(provider, who, {**sandbox.BANKS, provider: sandbox.banks(kind)})
        if who.account_number == sandbox.INVALID:
            raise InvalidBeneficiary("The account could not be verified.")
        if who.account_number == sandbox.PROVIDER_POOR:
            raise ProviderInsufficientBalance
        is_other = who.account_number == sandbox.OTHER_NAME
        return ResolvedAccount(sandbox.OTHER_HOLDER if is_other else sandbox.HOLDER)

    def known(self, provider: str, who: Beneficiary) -> ResolvedAccount | None:
        """Returns the account from the cache, or None. Does not call the provider."""
        kept = self._kept.get(self._key(provider, who))
        if kept is None:
            return None
        asked_with, kept_until, account = kept
        is_current = asked_with == self._rails.credentials(provider)
        return account if is_current and time.monotonic() < kept_until else None

    async def resolve(self, provider: str, who: Beneficiary) -> ResolvedAccount:
        known = self.known(provider, who)
        if known is not None:
            return known
        adapter, current = self._rails.adapter(provider), self._rails.credentials(provider)
        if adapter is None:
            raise GatewayNotConfigured
        await self._check_bank(provider, who)
        answer = await adapter.resolve(who.bank_code, who.account_number)
        match answer:
            case Done(account):
                self._keep(provider, who, current, account)
                return account
            case Refused(RefusalCode.PAYOUT_FAILED, guidance):
                raise PayoutFailed(f"The provider rejects payouts: {guidance}")
            case Refused(_, guidance):
                raise InvalidBeneficiary(f"The account could not be verified: {guidance}")
            case Unknown(can_pass=False):
                raise PayoutFailed(
                    "The account could not be verified, because the provider rejects the "
                    "platform's credentials. Nothing was debited: choose another method."
                )
            case Unknown():
                raise ProviderUnavailable(
                    "The account could not be verified, because the provider is not responding. "
                    "Nothing was debited: try again later, or choose another method."
                )

    async def _check_bank(self, provider: str, who: Beneficiary) -> None:
        """Rejects a bank code that is not in the provider's list.

        If the list is unavailable, only the account lookup decides. The stored list is checked too,
        because it may be newer than the list in this process's cache.
        """
        own = await self._banks.of_rail(provider, is_sandbox=False)
        if self._banks.is_listed(provider, who.bank_code):
            return
        if own is None or any(bank.code == who.bank_code for bank in own):
            return
        lists = {provider: own}
        for other in self._rails.accounts:
            if other != provider and self._rails.adapter(other) is not None:
                lists[other] = await self._banks.of_rail(other, is_sandbox=False) or []
        _check_bank(provider, who, lists)

    def _key(self, provider: str, who: Beneficiary) -> tuple[str, str, str]:
        return provider, who.bank_code, who.account_number

    def _keep(
        self, provider: str, who: Beneficiary, current: Credentials, account: ResolvedAccount
    ) -> None:
        if len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        kept_until = time.monotonic() + KEEP_SECONDS
        self._kept[self._key(provider, who)] = (current, kept_until, account)


def _check_bank(provider: str, who: Beneficiary, lists: Mapping[str, Sequence[Bank]]) -> None:
    code = who.bank_code
    knows = [rail for rail, banks in lists.items() if any(bank.code == code for bank in banks)]
    if provider in knows:
        return
    if knows:
        rails = ", ".join(knows)
        raise UnknownBank(f"{code} is a bank code of {rails}, not of the chosen {provider}.")
    meant = suggestion(code, lists.get(provider, []))
    raise UnknownBank(f"{code} is not a bank code of {provider}.{meant}")

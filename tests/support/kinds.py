"""The provider kinds with their expected behavior in the tests.

A test of all kinds is parametrized by `ALL`, and takes each kind's expected behavior from this
module. A rail is a kind's name in the simulator: `a` for `providera`, and the kind's own name for
real providers.
"""

import hmac
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any

import msgspec
from manilla_simulator.settings import (
    Account,
    CredentialsA,
    CredentialsB,
    CredentialsC,
    FlutterwaveAccount,
    KoraAccount,
    MonnifyAccount,
    PaystackAccount,
)

Document = dict[str, Any]
Sign = Callable[[str, bytes], str]  # takes the key and the body


class Reversal(StrEnum):
    """The provider's report about a transfer that was delivered and then returned."""

    # The provider has a separate status for reversals, and the merchant gets a refund.
    NAMED = "named"
    # The provider reports `failed` after the delivery. A case is opened, and nothing is refunded.
    AS_FAILURE = "as_failure"


class WrongPayment(StrEnum):
    """The provider's behavior if a customer transfers a wrong amount to a virtual account."""

    # The provider keeps the payment and reports its amount, and we post it to the suspense account.
    KEPT = "kept"
    RETURNED = "returned"  # The provider returns the money, and the charge stays open.
    PARTLY_KEPT = "partly_kept"  # The provider returns underpayments and keeps overpayments.


class TestedKind(msgspec.Struct, frozen=True, kw_only=True):
    """A provider kind: its configuration, its webhooks, and its expected behavior."""

    __test__ = False

    rail: str
    account: Account  # the account at the simulator, including its credentials
    bank_code: str  # the code of the beneficiaries' bank
    settings: Mapping[str, str] = {}  # our own settings, in addition to the credentials

    signature_header: str
    signed_with: str  # the name of the credential that signs webhooks
    sign: Sign
    # Takes the reference, the amount and the currency.
    charge_event: Callable[[str, Any, str], Document]
    # The second argument is the status. None if the provider sends no webhooks about transfers.
    transfer_event: Callable[[str, str, Any, str], Document] | None
    in_kobo: bool = False
    lower_case_references: bool = False  # The provider requires transfer references in lower case.

    # If False, the header authenticates the sender but does not protect the body.
    signs_body: bool = True
    reports_transfer_amounts: bool = True  # If True, status queries return the transfer's amount.
    # If False, a case is opened for a transfer that the provider does not know.
    resends_transfers: bool = True
    # Maps the provider's statuses for a returned transfer to the expected result.
    reversals: tuple[tuple[str, Reversal], ...] = (("", Reversal.NAMED),)
    # If True, the status `reversed` can also mean that a transfer was never delivered.
    # Without an earlier report of the delivery, `reversed` counts as a failure.
    reverses_failures: bool = False
    # None means that the provider has no virtual accounts.
    wrong_payment: WrongPayment | None = WrongPayment.KEPT
    refunds: bool = True
    # If True, a refund that the provider does not know is sent again.
    resends_refunds: bool = False
    # If False, an administrator must resolve a refund with an unknown outcome.
    queries_refunds: bool = True

    @property
    def provider(self) -> str:
        return f"provider{self.rail}" if len(self.rail) == 1 else self.rail

    @property
    def checkout_method(self) -> str:
        return f"{self.provider}-ngn"

    @property
    def account_method(self) -> str:
        return f"{self.provider}_ngn_va"

    @property
    def transfer_method(self) -> str:
        return f"{self.provider}_ngn_transfer"

    @property
    def methods(self) -> list[str]:
        has_accounts = self.wrong_payment is not None
        return [self.checkout_method, *([self.account_method] if has_accounts else [])]

    @property
    def has_transfer_webhooks(self) -> bool:
        return self.transfer_event is not None

    def credentials(self, simulator_url: str) -> dict[str, str]:
        given = msgspec.structs.asdict(self.account)
        keys = {name: text for name, text in given.items() if name in CREDENTIALS and text}
        return {**keys, **self.settings, "base_url": f"{simulator_url}/{self.rail}"}

    def reference(self, trx_id: str) -> str:
        return trx_id.lower() if self.lower_case_references else trx_id

    def paid(self, reference: str, amount: Any = 1000, currency: Any = "NGN") -> Document:
        return self.charge_event(reference, self._units(amount), currency)

    def transfer(
        self, trx_id: str, status: str, amount: Any = 1000, currency: Any = "NGN"
    ) -> Document:
        """Returns a webhook about a transfer. `status` is success, failed or reversed."""
        assert self.transfer_event is not None
        return self.transfer_event(self.reference(trx_id), status, self._units(amount), currency)

    def _units(self, amount: Any) -> Any:
        is_number = isinstance(amount, int | float | Decimal)
        return round(amount * 100) if self.in_kobo and is_number else amount

    def signature(self, raw: bytes, key: str | None = None) -> str:
        return self.sign(key or getattr(self.account, self.signed_with), raw)


# The fields of the simulator's accounts that are credentials. The other fields are settings.
CREDENTIALS = frozenset(
    ("api_key", "secret_key", "webhook_secret", "business_id", "contract_code")
    + ("source_account_number", "secret_hash")
)


def hmac_of_body(digest: str) -> Sign:
    return lambda key, raw: hmac.digest(key.encode(), raw, digest).hex()


def hmac_of_data(digest: str) -> Sign:
    """Signs only the bytes of the field `data`."""

    class Signed(msgspec.Struct):
        data: msgspec.Raw = msgspec.Raw(b"")

    def sign(key: str, raw: bytes) -> str:
        try:
            signed = bytes(msgspec.json.decode(raw, type=Signed).data)
        except msgspec.DecodeError:
            signed = raw
        return hmac.digest(key.encode(), signed, digest).hex()

    return sign


def shared_secret(key: str, _raw: bytes) -> str:
    return key


def _event(event: str, data: Document) -> Document:
    return {"event": event, "data": data}


def _named_transfer(reference: str, status: str, amount: Any, currency: Any) -> Document:
    """Builds a webhook like provider A, Kora and Paystack: the event's name contains the status."""
    data = {"reference": reference, "amount": amount, "fee": 10, "currency": currency}
    return _event(f"transfer.{status}", {**data, "status": status})


def _completed_transfer(reference: str, status: str, amount: Any, currency: Any) -> Document:
    """Builds a webhook in the format of provider C and Flutterwave: `data` contains the status."""
    word = {"success": "SUCCESSFUL", "failed": "FAILED", "reversed": "REVERSED"}[status]
    data = {"id": 1, "reference": reference, "amount": amount, "fee": 10, "currency": currency}
    return _event("transfer.completed", {**data, "status": word})


def _monnify_transfer(reference: str, status: str, amount: Any, currency: Any) -> Document:
    name = {"success": "SUCCESSFUL", "failed": "FAILED", "reversed": "REVERSED"}[status]
    word = "SUCCESS" if status == "success" else name
    data = {"reference": reference, "amount": amount, "currency": currency, "status": word}
    return {"eventType": f"{name}_DISBURSEMENT", "eventData": data}


def _successful_charge(reference: str, amount: Any, currency: Any) -> Document:
    data = {"reference": reference, "status": "success", "amount": amount, "currency": currency}
    return _event("charge.success", data)


def _completed_charge(reference: str, amount: Any, currency: Any) -> Document:
    data = {"id": 1, "tx_ref": reference, "status": "successful", "amount": amount}
    return _event("charge.completed", {**data, "currency": currency})


def _providerb_charge(reference: str, amount: Any, currency: Any) -> Document:
    order = {"amount": amount, "settlement_amount": amount, "fee": 10, "currency": currency}
    return {"transaction": {"reference": reference}, "order": order, "code": "00"}


def _monnify_charge(reference: str, amount: Any, currency: Any) -> Document:
    data = {"paymentReference": reference, "transactionReference": "MNFY|1", "amountPaid": amount}
    return {
        "eventType": "SUCCESSFUL_TRANSACTION",
        "eventData": {**data, "currency": currency, "paymentStatus": "PAID"},
    }


_ALL = (
    TestedKind(
        rail="a",
        account=CredentialsA(),
        settings={"sandbox": "true"},
        bank_code="058",
        signature_header="x-providera-signature",
        signed_with="webhook_secret",
        sign=hmac_of_body("sha256"),
        charge_event=_successful_charge,
        transfer_event=_named_transfer,
        resends_refunds=True,
    ),
    TestedKind(
        rail="b",
        account=CredentialsB(),
        settings={"sandbox": "true", "default_va_bank": "000017"},
        bank_code="000013",
        signature_header="Providerb-Signature",
        signed_with="secret_key",
        sign=hmac_of_body("sha512"),
        charge_event=_providerb_charge,
        transfer_event=None,
        reports_transfer_amounts=False,
        wrong_payment=WrongPayment.RETURNED,
        refunds=False,
    ),
    TestedKind(
        rail="c",
        account=CredentialsC(),
        settings={"sandbox": "true"},
        bank_code="C058",
        signature_header="X-ProviderC-Signature",
        signed_with="webhook_secret",
        sign=hmac_of_body("sha256"),
        charge_event=_completed_charge,
        transfer_event=_completed_transfer,
        wrong_payment=None,
        queries_refunds=False,
    ),
    TestedKind(
        rail="kora",
        account=KoraAccount(),
        bank_code="058",
        signature_header="x-korapay-signature",
        signed_with="secret_key",
        sign=hmac_of_data("sha256"),
        charge_event=_successful_charge,
        transfer_event=_named_transfer,
        resends_refunds=True,
        # Kora's documentation has no status for a returned payout.
        reversals=(("", Reversal.AS_FAILURE), ("reversed", Reversal.NAMED)),
        reverses_failures=True,
    ),
    TestedKind(
        rail="paystack",
        account=PaystackAccount(),
        bank_code="058",
        signature_header="x-paystack-signature",
        signed_with="secret_key",
        sign=hmac_of_body("sha512"),
        charge_event=_successful_charge,
        transfer_event=_named_transfer,
        in_kobo=True,
        lower_case_references=True,
        reverses_failures=True,
        wrong_payment=WrongPayment.RETURNED,
    ),
    TestedKind(
        rail="flutterwave",
        account=FlutterwaveAccount(),
        bank_code="058",
        signature_header="verif-hash",
        signed_with="secret_hash",
        sign=shared_secret,
        charge_event=_completed_charge,
        transfer_event=_completed_transfer,
        signs_body=False,
        # We have no proof that Flutterwave rejects a duplicate reference.
        resends_transfers=False,
        # Flutterwave's documentation has no status for a returned transfer.
        reversals=(("", Reversal.AS_FAILURE), ("REVERSED", Reversal.NAMED)),
        reverses_failures=True,
        queries_refunds=False,
    ),
    TestedKind(
        rail="monnify",
        # Use a live account, because Monnify's sandbox signs no webhooks.
        account=MonnifyAccount(),
        bank_code="058",
        signature_header="monnify-signature",
        signed_with="secret_key",
        sign=hmac_of_body("sha512"),
        charge_event=_monnify_charge,
        transfer_event=_monnify_transfer,
        reverses_failures=True,
        wrong_payment=WrongPayment.PARTLY_KEPT,
    ),
)
BY_RAIL = {kind.rail: kind for kind in _ALL}
BY_PROVIDER = {kind.provider: kind for kind in _ALL}
ALL = tuple(BY_RAIL)
SEEDED = ("a", "b", "c")  # The methods of these provider kinds are active in a new installation.
WITH_TRANSFER_WEBHOOKS = tuple(kind.rail for kind in _ALL if kind.has_transfer_webhooks)
WITH_TRANSFER_AMOUNTS = tuple(kind.rail for kind in _ALL if kind.reports_transfer_amounts)
REVERSALS = [(kind.rail, *reversal) for kind in _ALL for reversal in kind.reversals]


def encoded(document: Any) -> bytes:
    return document if isinstance(document, bytes) else json.dumps(document).encode()

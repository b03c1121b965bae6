"""The simulator's settings."""

from enum import StrEnum

import msgspec

from manilla.kit.errors import Refusal


class NotInProduction(Refusal):
    message = "The simulator uses money that does not exist, so it never runs in production."


class Account(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The platform's account at a provider, with the settings that an operator chooses there."""

    # If None, webhooks are sent to {webhook_base_url}/webhooks/{provider}.
    webhook_url: str | None = None


class CredentialsA(Account, frozen=True):
    secret_key: str = "sim_a_secret"  # noqa: S105
    webhook_secret: str = "sim_a_webhook"  # noqa: S105


class CredentialsB(Account, frozen=True):
    api_key: str = "sim_b_key"
    secret_key: str = "sim_b_secret"  # noqa: S105
    business_id: str = "sim_b_business"
    webhook_secret: str | None = None  # If None, provider B signs webhooks with the secret key.


class CredentialsC(Account, frozen=True):
    secret_key: str = "sim_c_secret"  # noqa: S105
    webhook_secret: str = "sim_c_webhook"  # noqa: S105


class PaystackAccount(Account, frozen=True):
    # A secret key that starts with `sk_test_` enables the sandbox's rules.
    secret_key: str = "sk_live_simulated"  # noqa: S105
    transfers_need_otp: bool = False
    customer_pays_fees: bool = False
    # If True, a contested dispute waits for the bank. Otherwise it is resolved at once.
    contested_disputes_wait: bool = False
    # If True, a merchant can accept a dispute only with a file, as Paystack's reference says.
    accepting_needs_file: bool = False
    # If False, the status is 404. Paystack has been observed to return both 400 and 404.
    unknown_charge_is_400: bool = False


class KoraSignature(StrEnum):
    """The bytes that a webhook's signature covers, and the hash function.

    Kora documents the first value, and Kora's plugin uses the last value.
    """

    DATA_SHA256 = "data-sha256"
    BODY_SHA256 = "body-sha256"
    BODY_SHA512 = "body-sha512"


class KoraReference(StrEnum):
    """The field of a charge that contains our reference. The other field contains Kora's reference.

    Kora's documentation and third-party code name different fields.
    """

    BOTH = "both"
    REFERENCE = "reference"
    PAYMENT_REFERENCE = "payment_reference"


class KoraAccount(Account, frozen=True):
    # A secret key that starts with `sk_test_` enables the sandbox's rules.
    secret_key: str = "sk_live_simulated"  # noqa: S105
    signature: KoraSignature = KoraSignature.DATA_SHA256
    our_reference: KoraReference = KoraReference.BOTH
    payout_refusal_status: int = 400  # Kora has also been observed to return status 409
    charges_are_settled: bool = True  # Kora refunds only settled charges.
    # If False, the response to an accepted chargeback has no data. Kora does not document it.
    chargeback_answers_have_data: bool = True
    # The sandbox pays a one-time account automatically after this many seconds.
    auto_complete_seconds: float = 120


class MonnifyAccount(Account, frozen=True):
    # An API key that starts with `MK_TEST_` enables the sandbox's rules.
    api_key: str = "MK_PROD_SIMULATED"
    secret_key: str = "SIMULATEDMONNIFYSECRET"  # noqa: S105
    contract_code: str = "1234567890"
    # the account number of the wallet that pays for transfers
    source_account_number: str = "8012345678"
    token_seconds: float = 3600
    transfers_need_otp: bool = False
    # If False, Monnify rejects a duplicate transfer.
    duplicate_transfer_returns_first: bool = False
    # If True, a transfer is rejected if its beneficiary name differs from the name lookup's result.
    checks_account_name: bool = True
    accepts_underpayment: bool = False  # If False, the bank returns the underpaid amount.
    # If True, refunds are reported as completed too early, as in an example in the documentation.
    refunds_say_completed_early: bool = False
    # If True, only a payment to a one-time account can be refunded, as Monnify documents.
    rejects_card_refunds: bool = False
    # Monnify documents balances as text, but its sandbox has been observed to send numbers.
    balances_are_text: bool = True
    # Some of Monnify's responses omit the field `requestSuccessful`.
    omits_request_successful: bool = False


class FlutterwaveAccount(Account, frozen=True):
    # A secret key that starts with `FLWSECK_TEST-` enables the sandbox's rules.
    secret_key: str = "FLWSECK-simulated-X"  # noqa: S105
    secret_hash: str = "simulated-secret-hash"  # noqa: S105
    # If True, a person must approve each transfer in the provider's dashboard.
    transfers_need_approval: bool = False
    # If False, a duplicate reference creates a second transfer. This behavior is not confirmed.
    references_are_unique: bool = True
    # If True, a list of transfers also contains transfers with other references.
    ignores_reference_filter: bool = False
    # If True, a transaction exists only after the customer's first payment attempt.
    unpaid_links_are_unknown: bool = True
    # If True, a refund keeps the status `completed`, and its result is in `meta.disburse_status`.
    refund_result_is_in_meta: bool = False
    # If True, every list of chargebacks contains the same page, whatever page is requested.
    repeats_chargeback_page: bool = False
    minute_seconds: float = 60  # how long a minute in references such as `_PMCKDU_1` takes


class SimulatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    mode: str  # required, so that the caller must choose a mode
    base_url: str  # the simulator's URL, which checkout links start with
    # The platform's URL. Provider A's webhooks are sent to {webhook_base_url}/webhooks/providera.
    webhook_base_url: str
    a: CredentialsA = CredentialsA()
    b: CredentialsB = CredentialsB()
    c: CredentialsC = CredentialsC()
    paystack: PaystackAccount = PaystackAccount()
    kora: KoraAccount = KoraAccount()
    monnify: MonnifyAccount = MonnifyAccount()
    flutterwave: FlutterwaveAccount = FlutterwaveAccount()
    settle_seconds: float = 1.0
    # A virtual account or checkout page expires after this many minutes.
    account_minutes: float = 30
    webhook_retry_seconds: tuple[float, ...] = (1.0, 5.0, 30.0)
    # The maximum number of objects per provider and type. The oldest objects are deleted first.
    objects_max: int = 100_000

    def refuse_production(self) -> None:
        if self.mode == "production":
            raise NotInProduction

"""The simulator's settings."""

from enum import StrEnum

import msgspec

from manilla.kit.errors import Refusal


class NotInProduction(Refusal):
    message = "The simulator uses money that does not exist, so it never runs in production."


class Account(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The platform's account at a provider, as an operator sets it up at the provider."""

    webhook_url: str | None = None  # None: {webhook_base_url}/webhooks/{provider}


class CredentialsA(Account, frozen=True):
    secret_key: str = "sim_a_secret"  # noqa: S105
    webhook_secret: str = "sim_a_webhook"  # noqa: S105


class CredentialsB(Account, frozen=True):
    api_key: str = "sim_b_key"
    secret_key: str = "sim_b_secret"  # noqa: S105
    business_id: str = "sim_b_business"
    webhook_secret: str | None = None  # None: provider B signs with the secret key


class CredentialsC(Account, frozen=True):
    secret_key: str = "sim_c_secret"  # noqa: S105
    webhook_secret: str = "sim_c_webhook"  # noqa: S105


class PaystackAccount(Account, frozen=True):
    # A key that starts with `sk_test_` enables the sandbox's rules.
    secret_key: str = "sk_live_simulated"  # noqa: S105
    transfers_need_otp: bool = False
    customer_pays_fees: bool = False
    unknown_charge_is_400: bool = False  # otherwise 404; Paystack has been observed to return both


class KoraSignature(StrEnum):
    """What a webhook's signature covers. Kora documents the first; its plugin uses the last."""

    DATA_SHA256 = "data-sha256"
    BODY_SHA256 = "body-sha256"
    BODY_SHA512 = "body-sha512"


class KoraReference(StrEnum):
    """The field of a charge with our reference. Sources disagree. The other field has Kora's."""

    BOTH = "both"
    REFERENCE = "reference"
    PAYMENT_REFERENCE = "payment_reference"


class KoraAccount(Account, frozen=True):
    # A key that starts with `sk_test_` enables the sandbox's rules.
    secret_key: str = "sk_live_simulated"  # noqa: S105
    signature: KoraSignature = KoraSignature.DATA_SHA256
    our_reference: KoraReference = KoraReference.BOTH
    payout_refusal_status: int = 400  # Kora has also been observed to return 409
    charges_are_settled: bool = True  # charges that are not settled cannot be refunded
    # Seconds until the sandbox pays a one-time account automatically.
    auto_complete_seconds: float = 120


class MonnifyAccount(Account, frozen=True):
    # A key that starts with `MK_TEST_` enables the sandbox's rules.
    api_key: str = "MK_PROD_SIMULATED"
    secret_key: str = "SIMULATEDMONNIFYSECRET"  # noqa: S105
    contract_code: str = "1234567890"
    source_account_number: str = "8012345678"  # the wallet that pays for transfers
    token_seconds: float = 3600
    transfers_need_otp: bool = False
    duplicate_transfer_returns_first: bool = False  # otherwise a duplicate is rejected
    # Rejects transfers whose beneficiary name differs from the result of the name lookup.
    checks_account_name: bool = True
    accepts_underpayment: bool = False  # otherwise the bank returns the money
    # Reports refunds as completed before they are, as in a documented example.
    refunds_say_completed_early: bool = False
    # Documented as text; the sandbox has been observed to send numbers.
    balances_are_text: bool = True
    omits_request_successful: bool = False  # some responses omit this field


class FlutterwaveAccount(Account, frozen=True):
    # A key that starts with `FLWSECK_TEST-` enables the sandbox's rules.
    secret_key: str = "FLWSECK-simulated-X"  # noqa: S105
    secret_hash: str = "simulated-secret-hash"  # noqa: S105
    # A person must approve transfers in the provider's dashboard.
    transfers_need_approval: bool = False
    # If False, a duplicate creates a second transfer, which is not confirmed.
    references_are_unique: bool = True
    # Lists of transfers also include transfers with other references.
    ignores_reference_filter: bool = False
    # A transaction exists only after the customer's first payment attempt.
    unpaid_links_are_unknown: bool = True
    minute_seconds: float = 60  # duration of a minute in test references such as `_PMCKDU_1`


class SimulatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    mode: str  # required, because the caller must decide
    base_url: str  # the simulator's own URL, for checkout links
    # The platform's URL. Webhooks go to {webhook_base_url}/webhooks/providera ….
    webhook_base_url: str
    a: CredentialsA = CredentialsA()
    b: CredentialsB = CredentialsB()
    c: CredentialsC = CredentialsC()
    paystack: PaystackAccount = PaystackAccount()
    kora: KoraAccount = KoraAccount()
    monnify: MonnifyAccount = MonnifyAccount()
    flutterwave: FlutterwaveAccount = FlutterwaveAccount()
    settle_seconds: float = 1.0
    account_minutes: float = 30  # how long a virtual account or a checkout page stays open
    webhook_retry_seconds: tuple[float, ...] = (1.0, 5.0, 30.0)
    # Maximum per provider and object type; the oldest objects are dropped.
    objects_max: int = 100_000

    def refuse_production(self) -> None:
        if self.mode == "production":
            raise NotInProduction

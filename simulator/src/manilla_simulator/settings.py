"""The simulator's settings."""

from enum import StrEnum

import msgspec

from manilla.kit.errors import Refusal


class NotInProduction(Refusal):
    message = "The simulator plays with money that does not exist: it never runs in production."


class Account(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The platform's account at a provider: what an operator configures in its dashboard."""

    webhook_url: str | None = None  # None: {webhook_base_url}/webhooks/{provider}


class CredentialsA(Account, frozen=True):
    secret_key: str = "sim_a_secret"  # noqa: S105
    webhook_secret: str = "sim_a_webhook"  # noqa: S105


class CredentialsB(Account, frozen=True):
    api_key: str = "sim_b_key"
    secret_key: str = "sim_b_secret"  # noqa: S105
    business_id: str = "sim_b_business"
    webhook_secret: str | None = None  # None: B signs with the secret key


class CredentialsC(Account, frozen=True):
    secret_key: str = "sim_c_secret"  # noqa: S105
    webhook_secret: str = "sim_c_webhook"  # noqa: S105


class PaystackAccount(Account, frozen=True):
    # With `sk_test_…`, the sandbox's rules apply.
    secret_key: str = "sk_live_simulated"  # noqa: S105
    transfers_need_otp: bool = False
    customer_pays_fees: bool = False
    unknown_charge_is_400: bool = False  # otherwise 404; both have been seen


class KoraSignature(StrEnum):
    """Kora's documents say the first; a plugin of Kora's own checks the last."""

    DATA_SHA256 = "data-sha256"
    BODY_SHA256 = "body-sha256"
    BODY_SHA512 = "body-sha512"


class KoraReference(StrEnum):
    """Which field of a charge has our reference. The other one has Kora's; sources disagree."""

    BOTH = "both"
    REFERENCE = "reference"
    PAYMENT_REFERENCE = "payment_reference"


class KoraAccount(Account, frozen=True):
    # With `sk_test_…`, the sandbox's rules apply.
    secret_key: str = "sk_live_simulated"  # noqa: S105
    signature: KoraSignature = KoraSignature.DATA_SHA256
    our_reference: KoraReference = KoraReference.BOTH
    payout_refusal_status: int = 400  # 409 has also been seen
    charges_are_settled: bool = True  # otherwise they cannot be refunded
    auto_complete_seconds: float = 120  # until the sandbox pays a one-time account by itself


class MonnifyAccount(Account, frozen=True):
    # With `MK_TEST_…`, the sandbox's rules apply.
    api_key: str = "MK_PROD_SIMULATED"
    secret_key: str = "SIMULATEDMONNIFYSECRET"  # noqa: S105
    contract_code: str = "1234567890"
    source_account_number: str = "8012345678"  # the wallet that transfers are taken from
    token_seconds: float = 3600
    transfers_need_otp: bool = False
    duplicate_transfer_returns_first: bool = False  # otherwise it is refused
    checks_account_name: bool = True  # of a transfer's beneficiary, against the name lookup
    accepts_underpayment: bool = False  # otherwise the bank sends the money back
    refunds_say_completed_early: bool = False  # as in a documented example
    balances_are_text: bool = True  # as documented; the sandbox has been seen to send numbers
    omits_request_successful: bool = False  # some answers do


class FlutterwaveAccount(Account, frozen=True):
    # With `FLWSECK_TEST-…`, the sandbox's rules apply.
    secret_key: str = "FLWSECK-simulated-X"  # noqa: S105
    secret_hash: str = "simulated-secret-hash"  # noqa: S105
    transfers_need_approval: bool = False  # by a person, in the dashboard
    references_are_unique: bool = True  # otherwise a second transfer is created; not proven
    ignores_reference_filter: bool = False  # a list of transfers also has others
    unpaid_links_are_unknown: bool = True  # a transaction exists from the customer's first attempt
    minute_seconds: float = 60  # how long a minute of a test reference such as `_PMCKDU_1` lasts


class SimulatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    mode: str  # no default: whoever starts the simulator must decide
    base_url: str  # the simulator's own URL, for checkout links
    webhook_base_url: str  # the platform: webhooks go to {webhook_base_url}/webhooks/providera …
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
    objects_max: int = 100_000  # per kind and provider; the oldest are dropped

    def refuse_production(self) -> None:
        if self.mode == "production":
            raise NotInProduction

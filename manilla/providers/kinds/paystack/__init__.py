"""Paystack: cards, one-time accounts and payouts in Nigeria. See guide.md."""

from manilla.providers.kind import SWITCHES, Capabilities, CredentialField, ProviderKind, base_url
from manilla.providers.kinds.paystack.adapter import Paystack
from manilla.providers.kinds.paystack.checks import CHECKS, SAMPLES
from manilla.providers.port import EVERY_MOVEMENT

KIND = ProviderKind(
    name="paystack",
    title="Paystack",
    fields=(
        CredentialField("secret_key", is_required=True),
        CredentialField(
            "account_bank",
            is_secret=False,
            default="wema-bank",
            label="Bank of customers' accounts",
            note="wema-bank or titan-paystack. Test keys use Paystack's test bank.",
        ),
        *SWITCHES,
        base_url("https://api.paystack.co"),
    ),
    # Transfer references are unique at Paystack.
    # Refunds do not have our reference, so a refund that is sent again could be paid twice.
    capabilities=Capabilities(
        refund_status=True,
        resend_refund=False,
        statements=EVERY_MOVEMENT,
        permanent_accounts=True,
    ),
    test_key_prefixes={"secret_key": "sk_test_"},
    checks=CHECKS,
    samples=SAMPLES,
    build=Paystack,
)

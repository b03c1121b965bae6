"""Monnify: cards, bank transfer and payouts in Nigeria. Amounts are in naira."""

from manilla.providers.kind import SWITCHES, Capabilities, CredentialField, ProviderKind, base_url
from manilla.providers.kinds.monnify.adapter import Monnify
from manilla.providers.kinds.monnify.checks import CHECKS, SAMPLES
from manilla.providers.port import LineKind

KIND = ProviderKind(
    name="monnify",
    title="Monnify",
    fields=(
        CredentialField("api_key", is_required=True, label="API key"),
        CredentialField("secret_key", is_required=True),
        CredentialField("contract_code", is_secret=False, is_required=True),
        CredentialField("source_account_number", is_secret=False, is_required=True),
        *SWITCHES,
        base_url("https://api.monnify.com"),
    ),
    sandbox_base_url="https://sandbox.monnify.com",
    test_key_prefixes={"api_key": "MK_TEST_"},
    # Monnify documents that transfer references are unique, but does not document this for refunds.
    capabilities=Capabilities(
        resend_transfer=True,
        refund_status=True,
        resend_refund=False,
        statements=frozenset((LineKind.TRANSFER, LineKind.FEE)),
        permanent_accounts=True,
    ),
    refund_note="This payment's provider cannot refund a card payment. If the customer paid by "
    "card, the refund is rejected, and its amount returns to the wallet.",
    checks=CHECKS,
    samples=SAMPLES,
    build=Monnify,
)

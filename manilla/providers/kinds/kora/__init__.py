"""Kora (Korapay): hosted checkout, one-time bank accounts, refunds and payouts in naira.

`guide.md` lists what Kora documents, what it does not document, and our interpretation.
"""

from manilla.providers.kind import SWITCHES, Capabilities, CredentialField, ProviderKind, base_url
from manilla.providers.kinds.kora.adapter import CHANNELS, Kora
from manilla.providers.kinds.kora.checks import CHECKS, SAMPLES
from manilla.providers.port import EVERY_MOVEMENT

KIND = ProviderKind(
    name="kora",
    title="Kora",
    fields=(
        CredentialField("public_key"),
        CredentialField("secret_key", is_required=True),
        CredentialField(
            "encryption_key",
            note="Not used. Manilla sends payouts over TLS, without Kora's optional encryption.",
        ),
        CredentialField(
            "account_bank_code",
            is_secret=False,
            default="035",
            label="Bank code of customers' accounts",
            note="Test keys use Kora's test bank.",
        ),
        *SWITCHES,
        base_url("https://api.korapay.com"),
    ),
    # Kora rejects a reference that it has seen before, for payouts and for refunds.
    capabilities=Capabilities(
        channels=frozenset(CHANNELS),
        refund_status=True,
        resend_transfer=True,
        resend_refund=True,
        statements=EVERY_MOVEMENT,
        permanent_accounts=True,
    ),
    test_key_prefixes={"secret_key": "sk_test_"},
    checks=CHECKS,
    samples=SAMPLES,
    build=Kora,
)

"""Flutterwave, API version 3: payment links, one-time accounts and payouts in Nigeria."""

from manilla.providers.kind import SWITCHES, Capabilities, CredentialField, ProviderKind, base_url
from manilla.providers.kinds.flutterwave.adapter import Flutterwave
from manilla.providers.kinds.flutterwave.checks import CHECKS, SAMPLES

KIND = ProviderKind(
    name="flutterwave",
    title="Flutterwave",
    fields=(
        CredentialField("secret_key", is_required=True),
        CredentialField("secret_hash", is_required=True),
        # This suffix, such as `_PMCK`, determines the outcome of a test transfer.
        CredentialField(
            "test_reference_suffix", is_secret=False, label="Suffix of test references"
        ),
        *SWITCHES,
        base_url("https://api.flutterwave.com"),
    ),
    # Flutterwave does not document whether it rejects a second transfer with the same reference.
    # Its refunds do not have our reference, so a refund that is sent again could be paid twice.
    capabilities=Capabilities(
        resend_transfer=False, resend_refund=False, refund_status=True, permanent_accounts=True
    ),
    test_key_prefixes={"secret_key": "FLWSECK_TEST-"},
    checks=CHECKS,
    samples=SAMPLES,
    build=Flutterwave,
)

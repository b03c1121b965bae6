"""The mutated modules by area, with the tests that must find each mutant.

The narrow tests run first. The wide tests take longer, and run only if the narrow tests pass.
"""

from typing import NamedTuple


class ModuleTests(NamedTuple):
    modules: str
    narrow: tuple[str, ...]
    wide: tuple[str, ...]


ROUTING = "tests/payouts/routing"
LISTS = (
    "tests/ledger/test_listing.py",
    "tests/payments/test_listing.py",
    "tests/api/test_lists.py",
)
TRANSFERS = (
    "tests/faults/test_payout_reports.py",
    "tests/payouts/test_unknown_outcomes.py",
    "tests/payouts/test_on_hold.py",
)
TRANSFERS_WIDE = (
    "tests/operating/test_traces.py",
    "tests/payouts/test_states.py",
    "tests/payouts/test_error_codes.py",
    "tests/faults/test_payout_races.py",
    "tests/faults/test_webhooks.py",
    "tests/faults/test_wrong_reports.py",
    "tests/refunds/test_refunds.py",
    "tests/refunds/test_on_hold.py",
    f"{ROUTING}/test_failover.py",
    f"{ROUTING}/test_mutations.py",
    f"{ROUTING}/test_contradicted_rejections.py",
)
ROUTING_WIDE = (
    f"{ROUTING}/test_auto.py",
    f"{ROUTING}/test_failover.py",
    f"{ROUTING}/test_draining.py",
    f"{ROUTING}/test_deliveries.py",
    f"{ROUTING}/test_outcomes.py",
    f"{ROUTING}/test_overview.py",
    f"{ROUTING}/test_pages.py",
    f"{ROUTING}/test_warnings.py",
    "tests/payouts/test_error_codes.py",
)

AREAS = {
    "ledger": (
        ModuleTests("manilla/ledger/trx_ids.py", ("tests/ledger/test_trx_ids.py",), ()),
        ModuleTests(
            "manilla/ledger/posting.py",
            ("tests/ledger/test_postings.py",),
            ("tests/payments/test_commission.py", "tests/refunds/test_refunds.py"),
        ),
        ModuleTests(
            "manilla/ledger/intake.py",
            ("tests/payouts/test_initiate.py", "tests/payments/test_initiate.py"),
            ("tests/payouts/test_idempotency.py", "tests/payouts/test_rate_limit.py"),
        ),
        ModuleTests(
            "manilla/ledger/idempotency.py",
            ("tests/payments/test_idempotency.py",),
            ("tests/payouts/test_idempotency.py",),
        ),
        ModuleTests(
            "manilla/ledger/daily.py",
            ("tests/web/test_display.py",),
            ("tests/dashboard/test_home.py", "tests/payments/test_listing.py"),
        ),
        ModuleTests(
            "manilla/ledger/provider_funds.py",
            ("tests/reconciliation/test_providers.py",),
            ("tests/payouts/test_reconcile.py", "tests/console/test_platform_pages.py"),
        ),
        ModuleTests(
            "manilla/ledger/reader.py",
            ("tests/api/test_lists.py",),
            ("tests/payouts/test_verify.py", "tests/lists/test_transactions.py"),
        ),
        ModuleTests(
            "manilla/ledger/timeline.py",
            ("tests/payments/test_completion.py",),
            ("tests/payouts/test_states.py", "tests/web/test_plain_events.py"),
        ),
        ModuleTests("manilla/ledger/*.py", LISTS, ("tests/ledger", "tests/lists")),
    ),
    "states": (
        ModuleTests("manilla/payouts/states.py", TRANSFERS, TRANSFERS_WIDE),
        ModuleTests(
            "manilla/payments/states.py",
            ("tests/payments/test_completion.py", "tests/payments/test_late_and_wrong_payments.py"),
            (
                "tests/payments/payment_links/test_paying.py",
                "tests/payments/test_wrong_amounts.py",
                "tests/payments/test_declines.py",
                "tests/payments/test_overdue.py",
                "tests/payments/test_batch_credit.py",
                "tests/payments/test_gateways.py",
                "tests/payments/test_sandbox.py",
                "tests/faults/test_payment_reports.py",
                "tests/faults/test_payments.py",
                "tests/operating/test_traces.py",
                "tests/faults/test_wrong_reports.py",
            ),
        ),
        ModuleTests(
            "manilla/refunds/states.py",
            ("tests/refunds/test_refunds.py",),
            (
                "tests/refunds",
                "tests/faults/test_wrong_reports.py",
                "tests/operating/test_traces.py",
            ),
        ),
    ),
    "transfers": (
        ModuleTests("manilla/transfers/*.py", TRANSFERS, TRANSFERS_WIDE),
        ModuleTests("manilla/payouts/batch_delivery.py", TRANSFERS, TRANSFERS_WIDE),
        ModuleTests(
            "manilla/payouts/failover.py", (f"{ROUTING}/test_failover.py",), TRANSFERS_WIDE
        ),
    ),
    "routing": (
        ModuleTests("manilla/routing/choice.py", (f"{ROUTING}/test_choice.py",), ROUTING_WIDE),
        ModuleTests("manilla/routing/outcomes.py", (f"{ROUTING}/test_outcomes.py",), ROUTING_WIDE),
        ModuleTests(
            "manilla/routing/deliveries.py", (f"{ROUTING}/test_deliveries.py",), ROUTING_WIDE
        ),
        ModuleTests("manilla/routing/overview.py", (f"{ROUTING}/test_overview.py",), ROUTING_WIDE),
        ModuleTests("manilla/routing/*.py", (f"{ROUTING}/test_auto.py",), ROUTING_WIDE),
    ),
    "signing": (
        ModuleTests(
            "manilla/api/authenticate.py",
            ("tests/api/test_authentication.py", "tests/api/test_vectors.py"),
            ("tests/api",),
        ),
        ModuleTests(
            "manilla/notify/signing.py",
            ("tests/notify/test_standard_webhooks.py",),
            ("tests/notify/test_delivery.py", "tests/notify/test_endpoints.py"),
        ),
    ),
    "fencing": (
        ModuleTests(
            "manilla/kit/jobs/failed.py",
            ("tests/console/test_queue_pages.py",),
            ("tests/cli/test_commands.py", "tests/kit/test_jobs.py"),
        ),
        ModuleTests(
            "manilla/kit/jobs/*.py",
            ("tests/kit/test_jobs.py",),
            ("tests/notify/test_fairness.py", "tests/faults/test_payout_races.py"),
        ),
    ),
}

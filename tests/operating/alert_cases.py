"""For each alert: series that first do not fire it, and then do. `promtool` evaluates them."""

import msgspec

MINUTE = 1
HOUR = 60 * MINUTE
PROVIDER = {"provider": "paystack"}


class AlertCase(msgspec.Struct, frozen=True):
    """Series with one value per minute. The times are minutes after the first value."""

    alert: str
    series: dict[str, str]
    quiet_at: int
    fires_at: int
    labels: dict[str, str] = {}
    value: str = ""  # the rendered `$value` in the summary, if the summary contains it


def gauge(name: str, good: int, bad: int, *, minutes: int) -> dict[str, str]:
    """Returns a series that is good for ten minutes, and then bad."""
    return {name: f"{good}x10 {bad}x{minutes}"}


def compared_last(name: str, good: int, bad: int, *, minutes: int) -> dict[str, str]:
    """Returns the series of two workers, each with the result of its last comparison.

    The first worker has compared nothing for days, and has a bad result. In the eleventh minute,
    the second worker compares again, and its result becomes bad.
    """
    first, second = (
        '{instance="first",provider="paystack"}',
        '{instance="second",provider="paystack"}',
    )
    return {
        f"{name}{first}": f"{bad}x{10 + minutes}",
        f"manilla_reconciled_at_seconds{first}": f"1x{10 + minutes}",
        f"{name}{second}": f"{good}x10 {bad}x{minutes}",
        f"manilla_reconciled_at_seconds{second}": f"2x10 660x{minutes}",
    }


def counter(name: str, *, step: int, minutes: int) -> dict[str, str]:
    """Returns a counter that stands still for ten minutes, and then grows every minute."""
    return {name: f"0x10 0+{step}x{minutes}"}


CASES = (
    # The money alerts
    AlertCase("BooksBroken", gauge("manilla_books_broken", 0, 1, minutes=5), 10, 11),
    AlertCase(
        "ProviderBalanceDiffers",
        gauge(
            'manilla_clearing_difference{provider="paystack",currency="NGN"}', 0, -5, minutes=140
        ),
        2 * HOUR,
        2 * HOUR + 12,
        {**PROVIDER, "currency": "NGN"},
    ),
    AlertCase(
        "TransfersDiffer",
        compared_last("manilla_transfers_differ", 0, 1, minutes=5),
        10,
        11,
        PROVIDER,
    ),
    AlertCase(
        "CaseOpen",
        gauge('manilla_cases_open{kind="no_answer"}', 0, 1, minutes=20),
        20,
        21,
        {"kind": "no_answer"},
    ),
    *(
        AlertCase(
            alert,
            gauge(f'manilla_disputes_ending{{waits_for="{who}"}}', 0, 1, minutes=5),
            *(10, 11),
        )
        for alert, who in (("DisputesToSend", "operator"), ("DisputesEnding", "merchant"))
    ),
    AlertCase(
        "DisputeRateHigh",
        gauge("manilla_dispute_rates_high", 0, 2, minutes=80),
        HOUR,
        HOUR + 12,
        value="2",
    ),
    AlertCase(
        "WaysAtLoss",
        gauge("manilla_ways_at_loss", 0, 1, minutes=80),
        HOUR,
        HOUR + 12,
        value="1",
    ),
    AlertCase(
        "CasesMany",
        {
            **gauge('manilla_cases_open{kind="no_answer"}', 20, 21, minutes=5),
            # Cases of this kind are not counted.
            'manilla_cases_open{kind="still_open"}': "100x15",
        },
        10,
        11,
    ),
    AlertCase(
        "WebhooksIgnored",
        counter('manilla_webhooks_total{provider="paystack",outcome="ignored"}', step=1, minutes=5),
        10,
        13,
        PROVIDER,
    ),
    AlertCase(
        "MailsNotSent", counter('manilla_mails_total{result="refused"}', step=4, minutes=5), 12, 15
    ),
    AlertCase(
        "PayoutsHeld", gauge("manilla_payouts_held", 0, 1, minutes=2 * HOUR), HOUR + 10, HOUR + 11
    ),
    AlertCase(
        "NotReconciled",
        {
            'manilla_reconciliation_expected{provider="paystack"}': f"1x{4 * HOUR}",
            'manilla_reconciled_at_seconds{provider="paystack"}': f"0x{4 * HOUR}",
        },
        3 * HOUR - 1,
        3 * HOUR,
        PROVIDER,
    ),
    AlertCase(
        "ProviderBalanceUnknown",
        compared_last("manilla_reconciliation_answered", 1, 0, minutes=3 * HOUR + 10),
        3 * HOUR + 10,
        3 * HOUR + 11,
        PROVIDER,
    ),
    AlertCase(
        "BooksNotProved",
        {"manilla_books_proved_at_seconds": f"0x{4 * HOUR}"},
        3 * HOUR,
        3 * HOUR + 1,
    ),
    # After a check that took 12 minutes, the next check starts four hours later.
    AlertCase(
        "BooksNotProved",
        {
            "manilla_books_proved_at_seconds": f"0x{9 * HOUR}",
            "manilla_books_proof_seconds": f"720x{9 * HOUR}",
        },
        8 * HOUR,
        8 * HOUR + 1,
    ),
    # The work alerts
    AlertCase("NoWorker", {"manilla_measured_at_seconds": "0x10"}, 3, 4),
    AlertCase(
        "JobsLate",
        {
            **gauge('manilla_jobs_oldest_seconds{kind="transfer"}', 120, 121, minutes=10),
            # Notifications have an alert of their own.
            'manilla_jobs_oldest_seconds{kind="notify"}': "9999x20",
        },
        15,
        16,
        {"kind": "transfer"},
    ),
    AlertCase(
        "JobsParked",
        gauge('manilla_jobs_parked{kind="transfer"}', 0, 1, minutes=5),
        10,
        11,
        {"kind": "transfer"},
    ),
    AlertCase(
        "PayoutsNotSent",
        {
            **gauge('manilla_payouts_open{provider="paystack",state="unsent"}', 0, 3, minutes=20),
            "manilla_payouts_held": "0x30",
        },
        25,
        26,
    ),
    AlertCase(
        "NotificationsLate",
        gauge("manilla_notifications_oldest_seconds", 600, 601, minutes=15),
        20,
        21,
    ),
    AlertCase(
        "RailDown",
        gauge('manilla_rail_down{provider="paystack",direction="pay_out"}', 0, 1, minutes=5),
        12,
        13,
        {**PROVIDER, "direction": "pay_out"},
    ),
    AlertCase(
        "PayoutsWithoutRail",
        gauge("manilla_payouts_without_rail", 0, 7, minutes=10),
        15,
        16,
        value="7",
    ),
    AlertCase(
        "RailFailing",
        {'manilla_rail_failed_share{provider="paystack"}': "0.5x10 0.51x10"},
        15,
        16,
        PROVIDER,
    ),
    AlertCase(
        "RailFailsForBanks",
        gauge('manilla_rail_failing_banks{provider="paystack"}', 0, 2, minutes=20),
        25,
        26,
        PROVIDER,
        value="2",
    ),
    AlertCase(
        "RailDrained",
        gauge('manilla_rail_drained{provider="paystack"}', 0, 1, minutes=25 * HOUR),
        24 * HOUR + 10,
        24 * HOUR + 11,
        PROVIDER,
    ),
    # The alerts about people
    AlertCase(
        "SignInsFail",
        {
            **counter(
                'manilla_security_events_total{realm="dashboard",event="sign_in",outcome="wrong"}',
                step=10,
                minutes=10,
            ),
            # Successful sign-ins are not counted.
            'manilla_security_events_total{realm="dashboard",event="sign_in",outcome="done"}': (
                "0+100x20"
            ),
        },
        12,
        18,
        {"realm": "dashboard"},
    ),
    AlertCase(
        "ConsoleSignInsFail",
        counter(
            'manilla_security_events_total{realm="console",event="step_up",outcome="wrong"}',
            step=3,
            minutes=10,
        ),
        12,
        17,
    ),
    AlertCase(
        "PermissionsRefused",
        counter(
            'manilla_security_events_total{realm="dashboard",event="permission"}',
            step=20,
            minutes=10,
        ),
        12,
        18,
        {"realm": "dashboard"},
    ),
    AlertCase(
        "BreakGlassUsed",
        {'manilla_security_events_total{realm="console",outcome="break_glass"}': "0x10 1x20"},
        9,
        12,
        {"realm": "console"},
    ),
    AlertCase(
        "AuditStreamLags", gauge("manilla_audit_stream_lag_seconds", 0, 1000, minutes=10), 10, 12
    ),
    AlertCase(
        "ManyExports",
        counter(
            'manilla_security_events_total{realm="dashboard",event="export"}', step=20, minutes=10
        ),
        12,
        18,
        {"realm": "dashboard"},
    ),
    # The alerts about the API and the database
    AlertCase(
        "ApiDown",
        gauge('up{job="manilla",instance="db1:8000"}', 1, 0, minutes=5),
        11,
        12,
        {"job": "manilla", "instance": "db1:8000"},
    ),
    AlertCase(
        "ApiFails",
        {
            'manilla_requests_total{status="200"}': "0+1000x30",
            'manilla_requests_total{status="503"}': "0+5x10 50+50x20",
        },
        10,
        25,
    ),
    AlertCase(
        "ApiSlow",
        {
            'manilla_request_seconds_bucket{le="1"}': "0+100x10 1000+50x30",
            'manilla_request_seconds_bucket{le="2.5"}': "0+100x10 1000+100x30",
            'manilla_request_seconds_bucket{le="+Inf"}': "0+100x10 1000+100x30",
        },
        10,
        35,
    ),
    AlertCase(
        "ManyUnauthorized",
        {'manilla_requests_total{status="401"}': "0+60x10 600+900x30"},
        10,
        35,
    ),
    AlertCase(
        "RequestLinesDropped",
        counter("manilla_request_lines_dropped_total", step=1, minutes=5),
        10,
        13,
    ),
    AlertCase(
        "DatabaseConnectionsShort",
        {
            **gauge("manilla_database_connections", 85, 86, minutes=10),
            "manilla_database_connections_max": "100x20",
        },
        15,
        16,
    ),
    AlertCase(
        "ReplicationInterrupted",
        gauge("manilla_replication_inactive", 0, 1, minutes=10),
        15,
        16,
        value="1",
    ),
    AlertCase(
        "ReplicationLag",
        gauge("manilla_replication_behind_bytes", 2**28, 2**29, minutes=10),
        15,
        16,
        value="512Mi",
    ),
    AlertCase("StandbyAway", gauge("manilla_standby_up", 1, 0, minutes=10), 15, 16),
    AlertCase("StandbyBehind", gauge("manilla_standby_age_seconds", 60, 61, minutes=10), 15, 16),
    AlertCase(
        "ArchiveNotVerified",
        {
            **gauge("manilla_archive_problems", 0, 1, minutes=5),
            "manilla_archive_checked_at_seconds": "0x20",
        },
        10,
        11,
    ),
    # The first worker stopped before a month was archived, so its value stays 0.
    AlertCase(
        "ArchiveNotVerified",
        {
            "manilla_archive_problems": f"0x{41 * 24 * HOUR}",
            'manilla_archive_checked_at_seconds{instance="first"}': f"0x{41 * 24 * HOUR}",
            'manilla_archive_checked_at_seconds{instance="second"}': f"60x{41 * 24 * HOUR}",
        },
        40 * 24 * HOUR + 1,
        40 * 24 * HOUR + 2,
    ),
    AlertCase(
        "MoveInterrupted",
        gauge("manilla_fenced_seconds", 100, 130, minutes=10),
        9,
        11,
        value="2m 10s",
    ),
    AlertCase(
        "PartitionsNotCreated",
        gauge('manilla_partition_days_ahead{table="api_request"}', 35, 34, minutes=200),
        3 * HOUR,
        3 * HOUR + 12,
        labels={"table": "api_request"},
    ),
)

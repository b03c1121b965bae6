"""All metrics of Manilla. Each process on a machine updates them, and `/metrics` serves them."""

from manilla.kit.prometheus import Counter, Histogram, RequestTimes, gauge

requests = Counter(
    "manilla_requests", "Merchant API requests that got a response.", ["endpoint", "status"]
)
request_seconds = Histogram(
    "manilla_request_seconds",
    "Duration of merchant API requests.",
    ["endpoint"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
request_times = RequestTimes(requests, request_seconds)
request_lines_dropped = Counter(
    "manilla_request_lines_dropped",
    "Requests that got a response but were not written to the merchants' request log.",
)
webhooks = Counter(
    "manilla_webhooks",
    "Webhooks from providers, by outcome. Ignored webhooks concern another provider's transaction.",
    ["provider", "outcome"],
)
reads = Counter(
    "manilla_reads",
    "SQL statements of reads that may use the standby, by the server that ran them and the reason.",
    ["outcome"],
)
standby_up = gauge(
    "manilla_standby_up",
    "Whether the standby for reads responds and is a standby of this database: 1 or 0.",
)
standby_age_seconds = gauge(
    "manilla_standby_age_seconds",
    "How old the data of the standby for reads are; 0 if the standby has replayed all commits.",
)
security_events = Counter(
    "manilla_security_events",
    "Sign-ins, step-ups, second-factor changes, denied permissions and exports, by outcome.",
    ["event", "realm", "outcome"],
)
audit_stream_lag_seconds = gauge(
    "manilla_audit_stream_lag_seconds",
    "Age of the oldest audit entry that a target of the audit stream has not received; 0 if none.",
)
notifications = Counter(
    "manilla_notifications", "Attempts to deliver a notification, by result.", ["state"]
)
notifications_waiting = gauge(
    "manilla_notifications_waiting", "Notifications that have not been delivered yet."
)
notifications_oldest_seconds = gauge(
    "manilla_notifications_oldest_seconds",
    "How long the oldest undelivered notification has waited.",
)
mails = Counter(
    "manilla_mails", "Attempts to send an email, by kind and result.", ["kind", "result"]
)
reconciled_at = gauge(
    "manilla_reconciled_at_seconds",
    "When our ledger was last compared with a provider, in Unix seconds.",
    "provider",
)
reconciliation_expected = gauge(
    "manilla_reconciliation_expected",
    "Whether our ledger must be compared with a provider every hour: 1 or 0.",
    "provider",
)
reconciliation_answered = gauge(
    "manilla_reconciliation_answered",
    "Whether the provider reported its balance in the last comparison: 1 or 0.",
    "provider",
)
clearing_difference = gauge(
    "manilla_clearing_difference",
    "Unexplained difference between a provider's balance and our ledger, in major units.",
    "provider",
    "currency",
)
transfers_differ = gauge(
    "manilla_transfers_differ",
    "Payouts whose status at the provider differs from ours.",
    "provider",
)
payouts_decided = Counter(
    "manilla_payouts_decided", "Transitions of payouts to a final status, by event.", ["event"]
)
payouts_open = gauge(
    "manilla_payouts_open",
    "Production payouts without a final status, by whether they were sent.",
    "provider",
    "state",
)
payouts_without_rail = gauge(
    "manilla_payouts_without_rail",
    "Unsent production payouts whose rail is down and that no other rail can send.",
)
payouts_held = gauge("manilla_payouts_held", "Whether payouts and refunds are on hold: 1 or 0.")
jobs_due = gauge("manilla_jobs_due", "Jobs that are due and not yet claimed by any worker.", "kind")
jobs_oldest_seconds = gauge(
    "manilla_jobs_oldest_seconds", "How long the oldest due job has waited.", "kind"
)
jobs_parked = gauge(
    "manilla_jobs_parked",
    "Jobs that have failed after all their attempts.",
    "kind",
)
cases_open = gauge("manilla_cases_open", "Cases that await an administrator's decision.", "kind")
disputes_ending = gauge(
    "manilla_disputes_ending",
    "Unanswered production disputes with less than 4 hours left, by who must act.",
    "waits_for",
)
dispute_rates_high = gauge(
    "manilla_dispute_rates_high",
    "Merchants whose dispute rate of this or the previous month is above the threshold.",
)
ways_at_loss = gauge(
    "manilla_ways_at_loss",
    "Ways to pay that cost more than they earned. 0 if the setting margin_alert_days is 0.",
)
rail_down = gauge(
    "manilla_rail_down",
    "Whether the circuit breaker stops calls to a provider in a direction: 1 or 0.",
    "provider",
    "direction",
)
rail_answered_share = gauge(
    "manilla_rail_answered_share",
    "Share of calls to a provider in the last 15 minutes that got a usable response.",
    "provider",
    "direction",
)
rail_drained = gauge(
    "manilla_rail_drained",
    "Whether an administrator has stopped new payouts through a provider account: 1 or 0.",
    "provider",
)
rail_failed_share = gauge(
    "manilla_rail_failed_share",
    "Share of a rail's payouts that failed in the last 30 minutes; 0 if fewer than 3 failed.",
    "provider",
)
rail_failing_banks = gauge(
    "manilla_rail_failing_banks",
    "Banks to which most of a rail's payouts failed in the last 30 minutes.",
    "provider",
)
books_broken = gauge(
    "manilla_books_broken", "Ledger invariants that the last check found violated."
)
books_proved_at = gauge(
    "manilla_books_proved_at_seconds",
    "When the last check of the ledger invariants ended, in Unix seconds.",
)
books_proof_seconds = gauge(
    "manilla_books_proof_seconds", "Duration of the last check of the ledger invariants."
)
archive_problems = gauge(
    "manilla_archive_problems", "Archived months whose files were missing or changed when verified."
)
archive_checked_at = gauge(
    "manilla_archive_checked_at_seconds",
    "When the archived month that was verified longest ago was verified, in Unix seconds. "
    "0 if no month is archived.",
)
fenced_seconds = gauge(
    "manilla_fenced_seconds",
    "How long a merchant's requests have been rejected because the merchant is being moved. "
    "The longest such time, and 0 if there is no such merchant.",
)
partition_days_ahead = gauge(
    "manilla_partition_days_ahead",
    "In how many days a table's last partition ends. New rows fail if there is no partition.",
    "table",
)
database_connections = gauge(
    "manilla_database_connections", "Connections to the database server, from all clients."
)
database_connections_max = gauge(
    "manilla_database_connections_max", "Maximum number of connections of the database server."
)
database_bytes = gauge("manilla_database_bytes", "Size of the database.")
replication_inactive = gauge(
    "manilla_replication_inactive",
    "Replication slots whose standby, archive or subscriber is not connected.",
)
replication_behind_bytes = gauge(
    "manilla_replication_behind_bytes",
    "WAL that the slowest replication slot's standby, archive or subscriber has not confirmed.",
)
measured_at = gauge(
    "manilla_measured_at_seconds", "When a worker last updated these gauges, in Unix seconds."
)

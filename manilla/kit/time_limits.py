"""All time limits that a slow machine can reach.

Code reads a limit when it needs it: `time_limits.current.request_seconds`. Only tests use values
other than the defaults, because a busy machine must not change a test's result. Poll intervals,
retry schedules and retention periods are not limits. They are constants in the modules that use
them.
"""

import msgspec


class TimeLimits(msgspec.Struct, frozen=True):
    # Connections to the database
    host_connect_seconds: float = 1  # the limit for each host, if the URL names several hosts
    only_host_connect_seconds: float = 2
    start_connect_seconds: float = 10  # the limit for a single session when a process starts
    acquire_seconds: float = 2  # how long to wait for a free connection in the pool
    database_close_seconds: float = 10
    # A standby that has not returned a read's rows after this time is not used for this read.
    # This limit leaves the primary enough of the request's time to run the statement again.
    standby_seconds: float = 1.2
    # How long a read waits until the standby has replayed everything that the primary has written.
    standby_wait_seconds: float = 0.2
    # How long `manilla prove` waits for the same before it reads from the primary.
    standby_proof_seconds: float = 10

    # PostgreSQL enforces the statement timeouts, which are whole seconds.
    statement_seconds: int = 5
    web_statement_seconds: int = 2  # the limit for SQL statements of the web process
    start_statement_seconds: int = 10  # the limit for SQL statements when a process starts
    reconcile_statement_seconds: int = 20
    # The limit for a whole transaction of an API process or a worker. PostgreSQL ends the session.
    # Without this limit, nothing ends a transaction whose process stalls while it sends SQL.
    transaction_seconds: int = 30
    # The server has this additional time to enforce its limit. A slower server counts as hanging.
    statement_grace_seconds: float = 1

    # Requests to Manilla
    request_seconds: float = 2.5  # total time that a request may wait for the database
    # If the database is slow, an optional part of a page is omitted after this time.
    # This limit is lower than the request's limit, because the rest of the page needs time too.
    optional_seconds: float = 1.2
    # A new item is rejected if the first item in the queue has waited this long.
    # Items then arrive faster than they are processed, so a new item would wait even longer.
    batch_wait_seconds: float = 1
    # If the first request in the queue has waited this long, new requests are rejected.
    queue_wait_seconds: float = 0.5
    head_seconds: float = 15
    body_seconds: float = 10  # for each part of the body
    unread_seconds: float = 60  # how long a client may read nothing of a response
    web_stop_seconds: int = 10  # the limit for requests in progress when the web process stops

    # A file that an isolated process has not parsed after this time is rejected.
    isolated_call_seconds: float = 30

    # The following limits are for pages that take longer than others.
    lookup_seconds: float = 5
    audit_verify_seconds: float = 20
    compare_seconds: float = 25
    import_seconds: int = 25
    endpoint_test_seconds: float = 12  # how long to wait until a test event is delivered

    # Jobs
    lease_seconds: float = 30
    # After this time we assume that the job hangs, and stop renewing its lease.
    work_seconds: float = 180
    jobs_stop_seconds: float = 10  # the limit for jobs in progress when the worker stops

    # Calls to providers
    provider_connect_seconds: float = 3
    provider_call_seconds: float = 15
    provider_upload_seconds: float = 60  # for a call that uploads a file
    # The total time for sending a transfer, which can take several calls. A worker renews its lease
    # every few seconds. This limit leaves time for that: it must end before the lease does, because
    # the next worker may send the transfer again.
    transfer_send_seconds: float = 25
    route_seconds: float = 20
    bank_list_seconds: float = 5
    payouts_query_seconds: float = 45  # after this time, the current run queries no more payouts
    charge_seconds: float = 20  # the total time for trying gateways while the customer waits
    gateway_seconds_min: float = 4  # do not try a gateway if less time than this is left
    cancel_seconds: float = 8  # for asking providers before the API cancels a payment
    charge_save_seconds: float = 6  # how long to retry if the database is briefly unavailable
    # This limit must exceed the sum of `charge_seconds` and `charge_save_seconds`.
    charge_opening_seconds: float = 30

    # Notifications and emails
    notification_seconds: float = 10  # for one attempt
    host_wait_seconds: float = 0.5  # how long a notification waits for a host at its limit
    # The limit for the whole SMTP session, because the server can hang at every step.
    smtp_seconds: float = 30
    smtp_step_seconds: float = 15
    mail_hook_seconds: float = 10

    cell_seconds: float = 3  # for one call to another cell
    sign_in_provider_seconds: float = 5  # for one call to the provider of a company sign-in
    audit_target_seconds: float = 30  # for sending one batch of audit events

    # Spans that are sent to a collector of traces
    trace_export_seconds: float = 5

    # A command that prints a secret when a process starts
    secret_command_seconds: float = 20

    # `manilla up`
    postgres_ready_seconds: float = 60
    # How long the server may take to stop after a signal. Then a stronger signal is sent.
    postgres_stop_seconds: float = 20
    # This limit is high because initdb writes about 40 MB, possibly to a slow disk.
    postgres_command_seconds: float = 120
    postgres_shutdown_seconds: float = 30
    # This limit must exceed the time that a program waits for requests and jobs in progress.
    program_stop_seconds: float = 20
    api_ready_seconds: float = 90
    api_probe_seconds: float = 2


current = TimeLimits()


def use(limits: TimeLimits) -> None:
    global current  # noqa: PLW0603 - a process has one set of limits
    current = limits

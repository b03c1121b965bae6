"""The time limits that a slow machine can reach, in one place.

Code reads a limit when it needs it: `time_limits.current.request_seconds`. Only tests use other
values than the defaults, because a busy machine must not change a test's result.

Poll intervals, retry schedules and retention periods are not limits. They are constants beside the
code that uses them.
"""

import msgspec


class TimeLimits(msgspec.Struct, frozen=True):
    # Connections to the database
    host_connect_seconds: float = 1  # per host, if the URL names several
    only_host_connect_seconds: float = 2
    start_connect_seconds: float = 10  # for a single session, when a process starts
    acquire_seconds: float = 2  # until a connection of the pool is free
    database_close_seconds: float = 10

    # Statements. The server enforces these limits, and takes whole seconds.
    statement_seconds: int = 5
    web_statement_seconds: int = 2  # in the web process
    start_statement_seconds: int = 10  # of a single session, when a process starts
    reconcile_statement_seconds: int = 20
    # Additional time for the server to enforce its own limit. A server that has not done so by then
    # hangs.
    statement_grace_seconds: float = 1

    # Requests to Manilla
    request_seconds: float = 2.5  # total time that a request may wait for the database
    # For an optional part of a page, which is omitted if the database is slow. It is lower than the
    # request's limit, because the rest of the page needs time too.
    optional_seconds: float = 1.2
    # A new item is rejected if the first item in the queue has waited this long: items arrive
    # faster than the database processes them, so the new item would wait even longer.
    batch_wait_seconds: float = 1
    # If the first request in the queue has waited this long, new requests are rejected.
    queue_wait_seconds: float = 0.5
    head_seconds: float = 15
    body_seconds: float = 10  # for each part of the body
    web_stop_seconds: int = 10  # for requests in progress, when the web process stops

    # Pages that take longer than others
    lookup_seconds: float = 5
    audit_verify_seconds: float = 20
    compare_seconds: float = 25
    import_seconds: int = 25
    endpoint_test_seconds: float = 12  # until a test event has been delivered

    # Jobs
    lease_seconds: float = 30
    work_seconds: float = 180  # a job that takes longer hangs: its lease is no longer renewed
    jobs_stop_seconds: float = 10  # for jobs in progress, when the worker stops

    # Calls to providers
    provider_connect_seconds: float = 3
    provider_call_seconds: float = 15
    route_seconds: float = 20
    bank_list_seconds: float = 5
    payouts_query_seconds: float = 45  # after which no more payouts are queried in one run
    charge_seconds: float = 20  # to try the gateways, while the customer waits
    gateway_seconds_min: float = 4  # do not try a gateway if less time than this is left
    charge_opening_seconds: float = 30  # longer than any call to a provider takes

    # Notifications and emails
    notification_seconds: float = 10  # for one attempt
    smtp_seconds: float = 30  # for the whole exchange; a server can hang at every step of it
    smtp_step_seconds: float = 15
    mail_hook_seconds: float = 10

    # `manilla up`
    postgres_ready_seconds: float = 60
    postgres_stop_seconds: float = 20  # for each signal, if a server is still running
    # Generous, because initdb writes about 40 MB to a possibly slow disk.
    postgres_command_seconds: float = 120
    postgres_shutdown_seconds: float = 30
    program_stop_seconds: float = 20  # longer than a program waits for requests and jobs
    api_ready_seconds: float = 90
    api_probe_seconds: float = 2


current = TimeLimits()


def use(limits: TimeLimits) -> None:
    global current  # noqa: PLW0603 - a process has one set of limits
    current = limits

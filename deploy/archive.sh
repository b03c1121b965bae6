#!/bin/sh
# Copies the database's WAL into ARCHIVE while it is written, until the script is stopped.
#
#   PGHOST=db.internal PGUSER=manilla_archive PGPASSWORD=... deploy/archive.sh ARCHIVE
#
# Run it on another site than the database. See docs/operating/recovery.md.
set -eu

archive=${1:?usage: archive.sh ARCHIVE}
PATH=${PG_BIN:+$PG_BIN:}$PATH
umask 077
mkdir -p "$archive/wal"

# The primary keeps all WAL that this replication slot has not received yet.
pg_receivewal --slot=manilla_archive --create-slot --if-not-exists
exec pg_receivewal --slot=manilla_archive --synchronous --directory="$archive/wal"

#!/bin/sh
# Restores a backup into an empty database, holds payouts there before any worker can send them, and
# runs all checks. Use it for drills and for real restores: docs/operating/backup.md.
#
#   MANILLA_MIGRATION_URL=postgresql://manilla_owner:...@db.internal/manilla_restored \
#   MANILLA_DATABASE_URL=postgresql://manilla_app:...@db.internal/manilla_restored \
#   MANILLA_MASTER_KEY=... [AUDIT_KEPT=ID:HASH] deploy/drill.sh FILE
#
# Exits with 0 if the database is restored, payouts are held and no payout is in doubt. Otherwise
# exits with 1; the last lines of the output say why. recovered.sh explains AUDIT_KEPT.
set -eu

file=${1:?usage: drill.sh FILE}
: "${MANILLA_MIGRATION_URL:?must be the URL of the owner of the database to restore into}"
: "${MANILLA_DATABASE_URL:?must be the URL of the application role for the same database}"
: "${MANILLA_MASTER_KEY:?must be the master key that encrypts the secrets in the backup}"
PATH=${PG_BIN:+$PG_BIN:}$PATH
. "$(dirname "$0")/connection.sh"

step() { printf '\n== %s\n' "$*"; }

step "Restore $file"
# One transaction: if the database already has tables, nothing is restored.
pg_restore --exit-on-error --single-transaction --no-owner \
  --dbname="$database" "$file"

step "Collect planner statistics: without them, the first queries read far more rows than they need"
vacuumdb --analyze-only --quiet --dbname="$database"

"$(dirname "$0")/recovered.sh"

cat <<'NEXT'

The database is restored and payouts are held. If this was a drill, drop the database now and start
no process on it: a worker would send merchants notifications that they already have.

If this is a real restore, continue with "Restoring" in docs/operating/backup.md, at step "Start".
NEXT

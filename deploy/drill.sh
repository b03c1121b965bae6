#!/bin/sh
# Restores a backup into an empty database, holds payouts there before any worker can send them, and
# runs all checks. Use it for drills and for real restores: docs/operating/backup.md.
#
#   MANILLA_MIGRATION_URL=postgresql://manilla_owner:...@db.internal/manilla_restored \
#   MANILLA_DATABASE_URL=postgresql://manilla_app:...@db.internal/manilla_restored \
#   MANILLA_MASTER_KEY=... [AUDIT_KEPT=ID:HASH] deploy/drill.sh FILE
#
# AUDIT_KEPT is the `last id` and `last hash` that `manilla audit verify` printed before the backup.
# Exits with 0 if the database is restored, payouts are held and no payout is in doubt. Otherwise
# exits with 1; the last lines of the output say why.
set -eu

file=${1:?usage: drill.sh FILE}
: "${MANILLA_MIGRATION_URL:?must be the URL of the owner of the database to restore into}"
: "${MANILLA_DATABASE_URL:?must be the URL of the application role for the same database}"
: "${MANILLA_MASTER_KEY:?must be the master key that encrypts the secrets in the backup}"
export MANILLA_BASE_URL="${MANILLA_BASE_URL:-http://127.0.0.1}"
PATH=${PG_BIN:+$PG_BIN:}$PATH
. "$(dirname "$0")/connection.sh"
manilla=${MANILLA:-manilla}

step() { printf '\n== %s\n' "$*"; }

step "Restore $file"
# One transaction: if the database already has tables, nothing is restored.
pg_restore --exit-on-error --single-transaction --no-owner \
  --dbname="$database" "$file"

step "Collect planner statistics: without them, the first queries read far more rows than they need"
vacuumdb --analyze-only --quiet --dbname="$database"

step "Migrate to this version and grant the application's rights"
$manilla migrate

step "Hold payouts and refunds: no worker sends any until they are released"
$manilla payout hold

step "Check the ledger"
$manilla ledger check

step "Verify the audit log${AUDIT_KEPT:+, and that it still contains the entry stored elsewhere}"
$manilla audit verify ${AUDIT_KEPT:+--kept "$AUDIT_KEPT"}

step "Ask the providers about all open payouts and refunds"
$manilla restore-check || {
  echo "drill: the restore check did not pass, see above. Payouts stay held." >&2
  exit 1
}

cat <<'NEXT'

The database is restored and payouts are held. If this was a drill, drop the database now and start
no process on it: a worker would send merchants notifications that they already have.

If this is a real restore, continue with "Restoring" in docs/operating/backup.md, at step "Start".
NEXT

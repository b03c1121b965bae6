#!/bin/sh
# Restores a backup into an empty database, holds payouts there before anything can send them, and
# proves what it can. Rehearse with it, and restore with it: docs/operating/backup.md.
#
#   MANILLA_MIGRATION_URL=postgresql://manilla_owner:...@db.internal/manilla_restored \
#   MANILLA_DATABASE_URL=postgresql://manilla_app:...@db.internal/manilla_restored \
#   MANILLA_MASTER_KEY=... [AUDIT_KEPT=ID:HASH] deploy/drill.sh FILE
#
# AUDIT_KEPT is `last id` and `last hash` of a `manilla audit verify` of before the backup.
# Exit 0: restored, held, and nothing is in doubt. 1: see what was said last.
set -eu

file=${1:?usage: drill.sh FILE}
: "${MANILLA_MIGRATION_URL:?is the owner of the database to restore into}"
: "${MANILLA_DATABASE_URL:?is the application, of the same database}"
: "${MANILLA_MASTER_KEY:?is the key that the secrets of the backup are sealed with}"
export MANILLA_BASE_URL="${MANILLA_BASE_URL:-http://127.0.0.1}"
PATH=${PG_BIN:+$PG_BIN:}$PATH
. "$(dirname "$0")/connection.sh"
manilla=${MANILLA:-manilla}

step() { printf '\n== %s\n' "$*"; }

step "restore $file"
# All of it or nothing: into a database that has tables already, nothing.
pg_restore --exit-on-error --single-transaction --no-owner \
  --dbname="$database" "$file"

step "gather statistics: without them the first statements read far more than they need"
vacuumdb --analyze-only --quiet --dbname="$database"

step "bring it to this version, and grant the application's rights"
$manilla migrate

step "hold payouts and refunds: no worker sends until they are released"
$manilla payout hold

step "prove the books"
$manilla ledger check

step "prove the audit log${AUDIT_KEPT:+, and that it still has the line that was kept elsewhere}"
$manilla audit verify ${AUDIT_KEPT:+--kept "$AUDIT_KEPT"}

step "ask the providers about everything that was open"
$manilla restore-check || {
  echo "drill: something is in doubt: see above. Payouts stay held." >&2
  exit 1
}

cat <<'NEXT'

Restored, and held. In a rehearsal, drop the database now and start nothing on it: a worker would
tell merchants again what they know.

In earnest, go on with "Restoring" in docs/operating/backup.md, from the step "Start".
NEXT

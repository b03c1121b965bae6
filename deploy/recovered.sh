#!/bin/sh
# Holds payouts in a database that lacks the latest transactions, and runs all checks. Run it after a
# restore, a recovery or a promotion, before any API or worker process starts.
#
#   MANILLA_MIGRATION_URL=postgresql://manilla_owner:...@db.internal/manilla \
#   MANILLA_DATABASE_URL=postgresql://manilla_app:...@db.internal/manilla \
#   MANILLA_MASTER_KEY=... [AUDIT_KEPT=ID:HASH] deploy/recovered.sh
#
# AUDIT_KEPT is the `last id` and `last hash` that `manilla audit verify` printed before the backup.
# Exits with 0 if payouts are held, the checks passed and no payout is in doubt. Otherwise exits with
# 1; the last lines of the output say why.
set -eu

: "${MANILLA_MIGRATION_URL:?must be the URL of the role that owns the database}"
: "${MANILLA_DATABASE_URL:?must be the URL of the application role for the same database}"
: "${MANILLA_MASTER_KEY:?must be the master key that encrypts the secrets in the database}"
export MANILLA_BASE_URL="${MANILLA_BASE_URL:-http://127.0.0.1}"
PATH=${PG_BIN:+$PG_BIN:}$PATH
. "$(dirname "$0")/connection.sh"
manilla=${MANILLA:-manilla}

step() { printf '\n== %s\n' "$*"; }

step "Wait until the database has recovered and accepts writes"
while [ "$(psql -XAtc 'SELECT pg_is_in_recovery()' "$database")" = t ]; do sleep 1; done

# This entry shows the live instance which backup was restored: the steps below add more entries.
head=$(psql -XAtc "SELECT id || ':' || encode(hash, 'hex') FROM audit_head" "$database")

step "Migrate to this version and grant the application's rights"
$manilla migrate

step "Hold payouts and refunds: no worker sends any until they are released"
$manilla payout hold

step "Reject new payouts: wallets may still contain money that was already paid out"
$manilla setting set withdrawals_enabled false

step "Check the ledger"
$manilla ledger check

step "Verify the audit log${AUDIT_KEPT:+, and that it still contains the entry stored elsewhere}"
$manilla audit verify ${AUDIT_KEPT:+--kept "$AUDIT_KEPT"}

step "Ask the providers about all open payouts and refunds"
$manilla restore-check || {
  echo "recovered: the restore check did not pass, see above. Payouts stay held." >&2
  exit 1
}

cat <<END

All checks passed. If this was a drill, record it in the live instance, with the live environment:

  manilla audit drill $head
END

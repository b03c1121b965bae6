#!/bin/sh
# Writes one logical backup of the database, whole or not at all.
#
#   MANILLA_MIGRATION_URL=postgresql://manilla_owner:...@db.internal/manilla deploy/backup.sh FILE
#
# The master key is not in it, on purpose: keep that elsewhere. Without it the secrets in a backup
# cannot be opened. See docs/operating/backup.md.
set -eu

file=${1:?usage: backup.sh FILE}
: "${MANILLA_MIGRATION_URL:?is the connection of the role that owns the database}"
PATH=${PG_BIN:+$PG_BIN:}$PATH
. "$(dirname "$0")/connection.sh"

# Rate windows are unlogged, and worth nothing tomorrow.
pg_dump --format=custom --no-unlogged-table-data --lock-wait-timeout=60s \
  --dbname="$database" --file="$file.part"
pg_restore --list "$file.part" >/dev/null
mv "$file.part" "$file"
echo "backed up: $file ($(wc -c <"$file") bytes)"

#!/bin/sh
# Creates one logical backup of the database. The file is written completely or not at all.
#
#   MANILLA_MIGRATION_URL=postgresql://manilla_owner:...@db.internal/manilla deploy/backup.sh FILE
#
# MANILLA_MIGRATION_URL_FILE can name a file that contains the URL.
#
# The backup deliberately does not contain the master key: store the key elsewhere. Without it, the
# secrets in a backup cannot be decrypted. See docs/operating/backup.md.
set -eu

file=${1:?usage: backup.sh FILE}
PATH=${PG_BIN:+$PG_BIN:}$PATH
. "$(dirname "$0")/connection.sh"

# Rate limit counters are in an unlogged table and are not worth backing up.
pg_dump --format=custom --no-unlogged-table-data --lock-wait-timeout=60s \
  --dbname="$database" --file="$file.part"
pg_restore --list "$file.part" >/dev/null
mv "$file.part" "$file"
echo "backed up: $file ($(wc -c <"$file") bytes)"

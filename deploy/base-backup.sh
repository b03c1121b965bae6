#!/bin/sh
# Creates a base backup in ARCHIVE, which archive.sh fills with WAL, and deletes old backups and WAL.
#
#   PGHOST=db.internal PGUSER=manilla_archive PGPASSWORD=... deploy/base-backup.sh ARCHIVE
#
# KEEP_DAYS is how many days base backups are kept, 35 by default. See docs/operating/recovery.md.
set -eu

archive=${1:?usage: base-backup.sh ARCHIVE}
PATH=${PG_BIN:+$PG_BIN:}$PATH
umask 077
part=$archive/base/part
mkdir -p "$archive/base"

# An interrupted backup leaves an incomplete directory.
rm -rf "$part"
pg_basebackup --checkpoint=fast --pgdata="$part"
pg_verifybackup --quiet "$part"
# The name is the time at which the backup ended, which is the first moment to recover to.
backup=$archive/base/$(date -u +%Y%m%dT%H%M%SZ)
touch "$part"
mv -T "$part" "$backup"
echo "backed up: $backup ($(du -sh "$backup" | cut -f1))"

# Recovery needs WAL only from the start of the oldest base backup.
find "$archive/base" -mindepth 1 -maxdepth 1 -mtime "+${KEEP_DAYS:-35}" -exec rm -rf {} +
oldest=$(find "$archive/base" -mindepth 1 -maxdepth 1 -name '*Z' | sort | head -n 1)
pg_archivecleanup "$archive/wal" \
  "$(sed -n 's/^START WAL LOCATION: .* (file \(.*\))$/\1/p' "$oldest/backup_label")"

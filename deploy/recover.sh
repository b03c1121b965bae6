#!/bin/sh
# Prepares the empty directory DATA, so that PostgreSQL recovers the database in ARCHIVE to a moment.
#
#   deploy/recover.sh ARCHIVE DATA ['2026-11-15 12:00:00+00']
#
# Without a moment, PostgreSQL recovers everything in the archive. Run the script as the user that
# runs PostgreSQL. Until hba_file is reset, PostgreSQL accepts only connections from its own host, so
# that no process sends payouts before they are held. See docs/operating/recovery.md.
set -eu

archive=$(realpath "${1:?usage: recover.sh ARCHIVE DATA [MOMENT]}")
data=$(realpath "${2:?usage: recover.sh ARCHIVE DATA [MOMENT]}")
moment=${3:-}
umask 077

if [ -n "$(ls -A "$data" 2>/dev/null)" ]; then
  echo "recover: $data is not empty" >&2
  exit 1
fi
before=$(date -u -d "${moment:-tomorrow}" +%Y%m%dT%H%M%SZ)
backup=$(find "$archive/base" -mindepth 1 -maxdepth 1 -name '*Z' -printf '%f\n' | sort |
  awk -v before="$before" '$0 < before' | tail -n 1)
: "${backup:?there is no base backup from before this moment}"

mkdir -p "$data"
cp -a "$archive/base/$backup/." "$data"
chmod 0700 "$data"
cp "$(dirname "$0")/closed_hba.conf" "$data/closed_hba.conf"
# The last WAL file is a .partial file. The new server has no standbys that could confirm commits.
cat >>"$data/postgresql.auto.conf" <<END
restore_command = 'cp "$archive/wal/%f" "%p" || cp "$archive/wal/%f.partial" "%p"'
recovery_target_time = '$moment'
recovery_target_action = 'promote'
synchronous_standby_names = ''
hba_file = '$data/closed_hba.conf'
END
touch "$data/recovery.signal"
echo "prepared: $data, from the base backup $backup"

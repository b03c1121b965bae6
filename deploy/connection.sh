# Sourced by the scripts in this directory. Every user of a host can read the arguments of its
# processes. So the password in MANILLA_MIGRATION_URL is passed to the PostgreSQL programs in a
# password file, and `database` is set to the URL without it. If the URL has no password, PGPASSFILE
# or ~/.pgpass applies.
umask 077

if [ -z "${MANILLA_MIGRATION_URL:-}" ] && [ -n "${MANILLA_MIGRATION_URL_FILE:-}" ]; then
  MANILLA_MIGRATION_URL=$(cat "$MANILLA_MIGRATION_URL_FILE")
fi
: "${MANILLA_MIGRATION_URL:?must be the URL of the role that owns the database}"

_password() {
  printf '%s\n' "$MANILLA_MIGRATION_URL" | sed -nE \
    -e 's#^[^:/]*://[^:/@]*:([^@/]+)@.*#\1#p' -e t -e 's#^[^?]*[?](.*&)?password=([^&]+).*#\2#p'
}

_without_password() {
  printf '%s\n' "$MANILLA_MIGRATION_URL" | sed -E \
    -e 's#^([^:/]*://[^:/@]*):[^@/]*@#\1@#' -e 's#([?&])password=[^&]*&?#\1#' -e 's#[?&]$##'
}

# A URL percent-encodes some characters (%40 for @); a password file escapes : and \ with a backslash.
_decoded() {
  LC_ALL=C awk '
    function digit(c) { return index("0123456789abcdef", tolower(c)) - 1 }
    {
      while (match($0, /%[0-9A-Fa-f][0-9A-Fa-f]/)) {
        code = digit(substr($0, RSTART + 1, 1)) * 16 + digit(substr($0, RSTART + 2, 1))
        out = out substr($0, 1, RSTART - 1) sprintf("%c", code)
        $0 = substr($0, RSTART + 3)
      }
      print out $0
    }'
}

database=$MANILLA_MIGRATION_URL
if [ -n "$(_password)" ]; then
  PGPASSFILE=$(mktemp)
  export PGPASSFILE
  trap 'rm -f "$PGPASSFILE"' EXIT
  trap 'exit 1' HUP INT TERM
  printf '*:*:*:*:%s\n' "$(_password | _decoded | sed 's/[\\:]/\\&/g')" >"$PGPASSFILE"
  database=$(_without_password)
fi

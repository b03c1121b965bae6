#!/bin/sh
# Creates the secrets of deploy/compose/compose.yaml in a new directory, as root:
#   deploy/compose/secrets.sh /etc/manilla/compose https://pay.example.com
# Then put the certificate and its key into the file certificate.pem of the directory.
set -eu
umask 077
directory=$1
base_url=$2
mkdir -p "$directory"
if [ -e "$directory/master_key" ]; then
    echo "secrets.sh: $directory already has a master key, which must not be replaced." >&2
    exit 1
fi

random() { head -c 32 /dev/urandom | base64 | tr -d '=+/\n'; }
# Writes standard input to a file that only one user of a container can read.
write() { cat >"$directory/$2" && chown "$1:$1" "$directory/$2" && chmod 0400 "$directory/$2"; }

owner=$(random)
application=$(random)
manilla=10001
postgres=999
head -c 32 /dev/urandom | base64 | write "$manilla" master_key
echo "postgresql://manilla_app:$application@database/manilla" | write "$manilla" database_url
echo "postgresql://manilla_owner:$owner@database/manilla" | write "$manilla" migration_url
random | write "$postgres" superuser_password
write "$postgres" roles.sql <<SQL
CREATE ROLE manilla_owner LOGIN PASSWORD '$owner';
CREATE ROLE manilla_app LOGIN PASSWORD '$application';
CREATE DATABASE manilla OWNER manilla_owner ENCODING 'UTF8' LOCALE_PROVIDER builtin
  BUILTIN_LOCALE 'C.UTF-8' TEMPLATE template0;
SQL
random | write 472 grafana_password
write 99 certificate.pem </dev/null
cat >"$directory/compose.env" <<ENV
MANILLA_SECRETS=$directory
MANILLA_BASE_URL=$base_url
# The addresses that HAProxy listens on. The defaults are 127.0.0.1:8080 and 127.0.0.1:8443.
#HTTP_LISTEN=80
#HTTPS_LISTEN=443
ENV
echo "Store a copy of $directory/master_key separately from the backups."

#!/bin/sh
# Verifies a notification: verify_ipn.sh BODYFILE SIGNATURE. For debugging only, because a shell
# does not compare in constant time.
set -eu
[ -n "$MANILLA_API_SECRET" ] || exit 1
expected=$(openssl dgst -sha256 -hmac "$MANILLA_API_SECRET" <"$1" | sed 's/^.*= //')
[ "$expected" = "${2#sha256=}" ]

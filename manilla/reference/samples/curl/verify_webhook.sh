#!/bin/sh
# Verifies a webhook: verify_webhook.sh BODYFILE ID TIMESTAMP SIGNATURES. For debugging only: a shell
# does not compare in constant time, and other users can see the arguments of openssl.
set -eu
key=$(printf '%s' "${MANILLA_WEBHOOK_SECRET#whsec_}" | openssl base64 -d -A |
  od -An -v -tx1 | tr -d ' \n')
[ -n "$key" ] || exit 1
expected=v1,$({ printf '%s.%s.' "$2" "$3"; cat "$1"; } |
  openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | openssl base64 -A)
case " $4 " in *" $expected "*) ;; *) exit 1 ;; esac
# A webhook that is older than five minutes could be a recording.
age=$(($(date +%s) - $3))
[ "${age#-}" -le 300 ]

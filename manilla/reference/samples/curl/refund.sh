#!/bin/sh
# Refunds a payment and verifies the refund: refund.sh TRX_ID. Needs curl (7.76 or newer), openssl.
set -eu
ref_trx="REFUND-$1"  # one for each refund: with the same reference, a retry never refunds twice

call() {  # call METHOD TARGET BODY [more options of curl]
  method=$1 target=$2 body=$3
  shift 3
  timestamp=$(date +%s)
  signature=$(printf '%s.%s.%s.%s' "$timestamp" "$method" "$target" "$body" |
    openssl dgst -sha256 -hmac "$MANILLA_API_SECRET" | sed 's/^.*= //')
  if [ -n "$body" ]; then
    set -- "$@" -H 'Content-Type: application/json' --data-binary "$body"
  fi
  curl -sS --fail-with-body -X "$method" "$MANILLA_URL$target" \
    -H 'Accept: application/json' \
    -H 'X-Environment: sandbox' \
    -H "X-Merchant-Key: $MANILLA_MERCHANT_KEY" \
    -H "X-API-Key: $MANILLA_API_KEY" \
    -H "X-Timestamp: $timestamp" \
    -H "X-Signature: $signature" \
    "$@"
}

# If `amount` is omitted, the remaining amount is refunded.
refund=$(call POST /api/v1/initiate-refund "{\"trx_id\": \"$1\", \"ref_trx\": \"$ref_trx\"}" \
  -H "Idempotency-Key: $ref_trx") || { echo "$refund" >&2; exit 1; }
trx_id=$(printf '%s' "$refund" | sed -n 's/.*"trx_id":"\([^"]*\)".*/\1/p')

answer=$(call GET "/api/v1/verify-refund/$trx_id" '') || { echo "$answer" >&2; exit 1; }
echo "$answer"
# If the refund is still pending, wait for the notification, or verify it again later.
case $answer in *'"status":"failed"'*) exit 1 ;; esac

#!/bin/sh
# Verifies a payment: verify_payment.sh TRX_ID. Needs curl (7.76 or newer) and openssl.
set -eu
target=/api/v1/verify-payment/$1

# A GET has no body, so the signed string ends with a dot.
timestamp=$(date +%s)
signature=$(printf '%s.GET.%s.' "$timestamp" "$target" |
  openssl dgst -sha256 -hmac "$MANILLA_API_SECRET" | sed 's/^.*= //')

answer=$(curl -sS --fail-with-body "$MANILLA_URL$target" \
  -H 'Accept: application/json' \
  -H 'X-Environment: sandbox' \
  -H "X-Merchant-Key: $MANILLA_MERCHANT_KEY" \
  -H "X-API-Key: $MANILLA_API_KEY" \
  -H "X-Timestamp: $timestamp" \
  -H "X-Signature: $signature") || { echo "$answer" >&2; exit 1; }
echo "$answer"
# Fulfill the order only on success, and only if amount and currency match your order.
case $answer in *'"status":"success"'*) ;; *) exit 1 ;; esac

#!/bin/sh
# Lists payments page by page: list_payments.sh QUERY, such as limit=100. Needs curl (7.76 or newer)
# and openssl.
set -eu
list="/api/v1/payments?$1"

get() {
  timestamp=$(date +%s)
  signature=$(printf '%s.GET.%s.' "$timestamp" "$1" |
    openssl dgst -sha256 -hmac "$MANILLA_API_SECRET" | sed 's/^.*= //')
  curl -sS --fail-with-body "$MANILLA_URL$1" \
    -H 'Accept: application/json' \
    -H 'X-Environment: sandbox' \
    -H "X-Merchant-Key: $MANILLA_MERCHANT_KEY" \
    -H "X-API-Key: $MANILLA_API_KEY" \
    -H "X-Timestamp: $timestamp" \
    -H "X-Signature: $signature"
}

target=$list
while [ -n "$target" ]; do
  page=$(get "$target") || { echo "$page" >&2; exit 1; }
  echo "$page"
  # On the last page, next_cursor is null. With jq: .next_cursor
  cursor=$(printf '%s' "$page" | sed -n 's/.*"next_cursor":"\([^"]*\)".*/\1/p')
  target=${cursor:+$list&cursor=$cursor}
done

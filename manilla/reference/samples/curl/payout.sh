#!/bin/sh
# Finds a method and sends a payout. Needs curl (7.76 or newer) and openssl.
set -eu
shop=${SHOP_URL:-https://shop.example}
ref_trx="PAYOUT-$(openssl rand -hex 8)"

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

# Identify methods by their code, because ids differ between installations. With jq:
# .methods[] | select(.method_code == "providera_ngn_transfer") | .id
methods=$(call GET '/api/v1/payout-methods?currency=NGN' '') || { echo "$methods" >&2; exit 1; }
method_id=$(printf '%s' "$methods" |
  sed -n 's/.*"id":\([0-9]*\),"name":"[^"]*","method_code":"providera_ngn_transfer".*/\1/p')

# The Idempotency-Key makes it safe to retry this request after a timeout.
call POST /api/v1/initiate-payout "{
  \"payout_amount\": 5000.25,
  \"currency_code\": \"NGN\",
  \"ref_trx\": \"$ref_trx\",
  \"ipn_url\": \"$shop/ipn\",
  \"withdraw_method_id\": $method_id,
  \"beneficiary\": {\"bank_code\": \"058\", \"account_number\": \"0000000000\"}
}" -H "Idempotency-Key: $ref_trx"

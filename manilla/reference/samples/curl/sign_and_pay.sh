#!/bin/sh
# Signs a request and creates a payment. Needs curl (7.76 or newer) and openssl.
set -eu
shop=${SHOP_URL:-https://shop.example}
ref_trx="ORDER-$(openssl rand -hex 8)"
target=/api/v1/initiate-payment
body=$(cat <<END
{
  "payment_amount": 1500.50,
  "currency_code": "NGN",
  "ref_trx": "$ref_trx",
  "success_redirect": "$shop/paid",
  "cancel_redirect": "$shop/basket",
  "ipn_url": "$shop/ipn"
}
END
)

timestamp=$(date +%s)
signature=$(printf '%s.POST.%s.%s' "$timestamp" "$target" "$body" |
  openssl dgst -sha256 -hmac "$MANILLA_API_SECRET" | sed 's/^.*= //')

# The Idempotency-Key makes it safe to retry this request after a timeout.
curl -sS --fail-with-body "$MANILLA_URL$target" \
  -H 'Content-Type: application/json' \
  -H 'Accept: application/json' \
  -H 'X-Environment: sandbox' \
  -H "X-Merchant-Key: $MANILLA_MERCHANT_KEY" \
  -H "X-API-Key: $MANILLA_API_KEY" \
  -H "X-Timestamp: $timestamp" \
  -H "X-Signature: $signature" \
  -H "Idempotency-Key: $ref_trx" \
  --data-binary "$body"

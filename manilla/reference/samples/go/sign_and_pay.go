//go:build ignore

// Signs a request and creates a payment. Needs the standard library only.
package main

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

func sign(timestamp, method, target string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(os.Getenv("MANILLA_API_SECRET")))
	fmt.Fprintf(mac, "%s.%s.%s.%s", timestamp, method, target, body)
	return hex.EncodeToString(mac.Sum(nil))
}

func post(target string, body []byte, idempotencyKey string) (string, error) {
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	request, err := http.NewRequest("POST", os.Getenv("MANILLA_URL")+target, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("X-Environment", "sandbox")
	request.Header.Set("X-Merchant-Key", os.Getenv("MANILLA_MERCHANT_KEY"))
	request.Header.Set("X-API-Key", os.Getenv("MANILLA_API_KEY"))
	request.Header.Set("X-Timestamp", timestamp)
	request.Header.Set("X-Signature", sign(timestamp, "POST", target, body))
	request.Header.Set("Idempotency-Key", idempotencyKey) // makes a retry safe
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return string(answer), err
}

func main() {
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		log.Fatal(err)
	}
	shop := cmp.Or(os.Getenv("SHOP_URL"), "https://shop.example")
	reference := "ORDER-" + hex.EncodeToString(random)
	body, err := json.Marshal(map[string]any{
		"payment_amount":   json.Number("1500.50"), // a float would round large amounts
		"currency_code":    "NGN",
		"ref_trx":          reference,
		"success_redirect": shop + "/paid",
		"cancel_redirect":  shop + "/basket",
		"ipn_url":          shop + "/ipn",
	})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := post("/api/v1/initiate-payment", body, reference)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
}

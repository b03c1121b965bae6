//go:build ignore

// Refunds a payment and verifies the refund: refund.go TRX_ID. Needs the standard library only.
package main

import (
	"bytes"
	"crypto/hmac"
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

func call(method, target string, body []byte, idempotencyKey string) ([]byte, error) {
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	request, err := http.NewRequest(method, os.Getenv("MANILLA_URL")+target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("X-Environment", "sandbox")
	request.Header.Set("X-Merchant-Key", os.Getenv("MANILLA_MERCHANT_KEY"))
	request.Header.Set("X-API-Key", os.Getenv("MANILLA_API_KEY"))
	request.Header.Set("X-Timestamp", timestamp)
	request.Header.Set("X-Signature", sign(timestamp, method, target, body))
	if idempotencyKey != "" {
		request.Header.Set("Idempotency-Key", idempotencyKey)
	}
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return answer, err
}

type refund struct {
	ID     string `json:"trx_id"`
	Status string `json:"status"`
}

func main() {
	payment := os.Args[1]
	reference := "REFUND-" + payment // unique per refund, so a retry does not refund twice
	// If `amount` is omitted, the remaining amount is refunded.
	body, err := json.Marshal(map[string]any{"trx_id": payment, "ref_trx": reference})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := call("POST", "/api/v1/initiate-refund", body, reference)
	if err != nil {
		log.Fatal(err)
	}
	var made refund
	if err := json.Unmarshal(answer, &made); err != nil {
		log.Fatal(err)
	}
	answer, err = call("GET", "/api/v1/verify-refund/"+made.ID, nil, "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(answer))
	// If the refund is still pending, wait for the notification, or verify it again later.
	if err := json.Unmarshal(answer, &made); err != nil || made.Status == "failed" {
		os.Exit(1)
	}
}

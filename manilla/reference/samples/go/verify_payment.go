//go:build ignore

// Verifies a payment: verify_payment.go TRX_ID. Needs the standard library only.
package main

import (
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

func get(target string) ([]byte, error) {
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	request, err := http.NewRequest("GET", os.Getenv("MANILLA_URL")+target, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("X-Environment", "sandbox")
	request.Header.Set("X-Merchant-Key", os.Getenv("MANILLA_MERCHANT_KEY"))
	request.Header.Set("X-API-Key", os.Getenv("MANILLA_API_KEY"))
	request.Header.Set("X-Timestamp", timestamp)
	request.Header.Set("X-Signature", sign(timestamp, "GET", target, nil))
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

func main() {
	answer, err := get("/api/v1/verify-payment/" + os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	// For amounts, use json.Number: a float would round large ones.
	var payment struct {
		Status string      `json:"status"`
		Amount json.Number `json:"amount"`
	}
	if err := json.Unmarshal(answer, &payment); err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(answer))
	// Fulfill the order only on success, and only if amount and currency match your order.
	if payment.Status != "success" {
		os.Exit(1)
	}
}

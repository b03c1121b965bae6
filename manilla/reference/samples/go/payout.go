//go:build ignore

// Finds a method and sends a payout. Needs the standard library only.
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

// methodID finds a method by its code, because ids differ between installations.
func methodID(code string) (int, error) {
	answer, err := call("GET", "/api/v1/payout-methods?currency=NGN", nil, "")
	if err != nil {
		return 0, err
	}
	var offered struct {
		Methods []struct {
			ID   int    `json:"id"`
			Code string `json:"method_code"`
		}
	}
	if err := json.Unmarshal(answer, &offered); err != nil {
		return 0, err
	}
	for _, method := range offered.Methods {
		if method.Code == code {
			return method.ID, nil
		}
	}
	return 0, fmt.Errorf("%s is not offered", code)
}

func main() {
	id, err := methodID("providera_ngn_transfer")
	if err != nil {
		log.Fatal(err)
	}
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		log.Fatal(err)
	}
	reference := "PAYOUT-" + hex.EncodeToString(random)
	body, err := json.Marshal(map[string]any{
		"payout_amount":      json.Number("5000.25"), // a float would round large amounts
		"currency_code":      "NGN",
		"ref_trx":            reference,
		"ipn_url":            cmp.Or(os.Getenv("SHOP_URL"), "https://shop.example") + "/ipn",
		"withdraw_method_id": id,
		"beneficiary":        map[string]string{"bank_code": "058", "account_number": "0000000000"},
	})
	if err != nil {
		log.Fatal(err)
	}
	// The Idempotency-Key makes it safe to retry this request after a timeout.
	answer, err := call("POST", "/api/v1/initiate-payout", body, reference)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(answer))
}

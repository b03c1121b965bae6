//go:build ignore

// Lists payments page by page: list_payments.go QUERY, such as limit=100. Needs the standard library
// only.
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
	target := "/api/v1/payments?" + os.Args[1]
	for next := target; next != ""; {
		answer, err := get(next)
		if err != nil {
			log.Fatal(err)
		}
		var page struct {
			Data []struct {
				ID        string `json:"trx_id"`
				Status    string `json:"status"`
				CreatedAt string `json:"created_at"`
			} `json:"data"`
			Cursor string `json:"next_cursor"` // null on the last page
		}
		if err := json.Unmarshal(answer, &page); err != nil {
			log.Fatal(err)
		}
		for _, payment := range page.Data {
			fmt.Println(payment.CreatedAt, payment.ID, payment.Status)
		}
		next = ""
		if page.Cursor != "" {
			next = target + "&cursor=" + page.Cursor
		}
	}
}

//go:build ignore

package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// verify reports whether a webhook is from Manilla. Pass the raw body and the three webhook- headers.
func verify(rawBody []byte, id, timestamp, signatures, secret string) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, rawBody)
	expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, given := range strings.Split(signatures, " ") { // there are two after a rotation
		if hmac.Equal([]byte(expected), []byte(given)) {
			sent, err := strconv.ParseInt(timestamp, 10, 64)
			// A webhook that is older than five minutes could be a recording.
			return err == nil && time.Since(time.Unix(sent, 0)).Abs() <= 5*time.Minute
		}
	}
	return false
}

func main() {
	body, err := os.ReadFile(os.Args[1])
	secret := os.Getenv("MANILLA_WEBHOOK_SECRET")
	if err != nil || !verify(body, os.Args[2], os.Args[3], os.Args[4], secret) {
		os.Exit(1)
	}
}

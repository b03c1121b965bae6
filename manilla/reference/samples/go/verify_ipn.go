//go:build ignore

package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
)

// verify reports whether a notification is from Manilla. Pass the result of io.ReadAll(request.Body).
func verify(rawBody []byte, signatureHeader, secret string) bool {
	if secret == "" {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(rawBody)
	expected := hex.EncodeToString(mac.Sum(nil))
	given := strings.TrimPrefix(signatureHeader, "sha256=")
	return hmac.Equal([]byte(expected), []byte(given))
}

func main() {
	body, err := os.ReadFile(os.Args[1])
	if err != nil || !verify(body, os.Args[2], os.Getenv("MANILLA_API_SECRET")) {
		os.Exit(1)
	}
}

import java.math.BigDecimal;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.HexFormat;
import java.util.UUID;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Signs a request and creates a payment. Needs Java 17 or newer. */
public class SignAndPay {
    // Without TLS, Java would try to upgrade to HTTP/2, which Manilla does not support.
    static final HttpClient CLIENT =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    static String sign(String timestamp, String method, String target, String body) throws Exception {
        byte[] secret = System.getenv("MANILLA_API_SECRET").getBytes(StandardCharsets.UTF_8);
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret, "HmacSHA256"));
        String signed = String.join(".", timestamp, method, target, body);
        return HexFormat.of().formatHex(mac.doFinal(signed.getBytes(StandardCharsets.UTF_8)));
    }

    static HttpResponse<String> post(String target, String body, String idempotencyKey)
            throws Exception {
        String timestamp = Long.toString(Instant.now().getEpochSecond());
        HttpRequest request = HttpRequest.newBuilder(URI.create(System.getenv("MANILLA_URL") + target))
                .timeout(Duration.ofSeconds(30))
                .header("Content-Type", "application/json")
                .header("Accept", "application/json")
                .header("X-Environment", "sandbox")
                .header("X-Merchant-Key", System.getenv("MANILLA_MERCHANT_KEY"))
                .header("X-API-Key", System.getenv("MANILLA_API_KEY"))
                .header("X-Timestamp", timestamp)
                .header("X-Signature", sign(timestamp, "POST", target, body))
                .header("Idempotency-Key", idempotencyKey) // makes a retry safe
                .POST(HttpRequest.BodyPublishers.ofString(body))
                .build();
        return CLIENT.send(request, HttpResponse.BodyHandlers.ofString());
    }

    public static void main(String[] arguments) throws Exception {
        String shop = System.getenv().getOrDefault("SHOP_URL", "https://shop.example");
        String reference = "ORDER-" + UUID.randomUUID();
        BigDecimal amount = new BigDecimal("1500.50"); // a double would round large amounts
        // With a JSON library, pass the BigDecimal.
        String body = """
                {"payment_amount": %s, "currency_code": "NGN", "ref_trx": "%s",
                 "success_redirect": "%3$s/paid", "cancel_redirect": "%3$s/basket",
                 "ipn_url": "%3$s/ipn"}""".formatted(amount.toPlainString(), reference, shop);
        HttpResponse<String> answer = post("/api/v1/initiate-payment", body, reference);
        System.out.println(answer.body());
        System.exit(answer.statusCode() == 200 ? 0 : 1);
    }
}

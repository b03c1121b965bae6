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
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Finds a method and sends a payout. Needs Java 17 or newer. */
public class Payout {
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

    static HttpResponse<String> call(String method, String target, String body, String... more)
            throws Exception {
        String timestamp = Long.toString(Instant.now().getEpochSecond());
        HttpRequest.Builder request = HttpRequest
                .newBuilder(URI.create(System.getenv("MANILLA_URL") + target))
                .timeout(Duration.ofSeconds(30))
                .header("Content-Type", "application/json")
                .header("Accept", "application/json")
                .header("X-Environment", "sandbox")
                .header("X-Merchant-Key", System.getenv("MANILLA_MERCHANT_KEY"))
                .header("X-API-Key", System.getenv("MANILLA_API_KEY"))
                .header("X-Timestamp", timestamp)
                .header("X-Signature", sign(timestamp, method, target, body))
                .method(method, HttpRequest.BodyPublishers.ofString(body));
        if (more.length > 0) {
            request.headers(more);
        }
        return CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofString());
    }

    public static void main(String[] arguments) throws Exception {
        // Identify methods by their code, because ids differ between installations. With a JSON
        // library, read `methods` and find the one with this `method_code`.
        String methods = call("GET", "/api/v1/payout-methods?currency=NGN", "").body();
        Matcher found = Pattern
                .compile("\"id\":(\\d+),\"name\":\"[^\"]*\",\"method_code\":\"providera_ngn_transfer\"")
                .matcher(methods);
        if (!found.find()) {
            System.err.println(methods);
            System.exit(1);
        }
        String shop = System.getenv().getOrDefault("SHOP_URL", "https://shop.example");
        String reference = "PAYOUT-" + UUID.randomUUID();
        BigDecimal amount = new BigDecimal("5000.25"); // a double would round large amounts
        String body = """
                {"payout_amount": %s, "currency_code": "NGN", "ref_trx": "%s", "ipn_url": "%s/ipn",
                 "withdraw_method_id": %s,
                 "beneficiary": {"bank_code": "058", "account_number": "0000000000"}}"""
                .formatted(amount.toPlainString(), reference, shop, found.group(1));
        // The Idempotency-Key makes it safe to retry this request after a timeout.
        HttpResponse<String> answer =
                call("POST", "/api/v1/initiate-payout", body, "Idempotency-Key", reference);
        System.out.println(answer.body());
        System.exit(answer.statusCode() == 200 ? 0 : 1);
    }
}

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.HexFormat;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Refunds a payment and verifies the refund: Refund.java TRX_ID. Needs Java 17 or newer. */
public class Refund {
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
        String payment = arguments[0];
        String reference = "REFUND-" + payment; // one for each refund: a retry never refunds twice
        // If `amount` is omitted, the remaining amount is refunded.
        String body = "{\"trx_id\": \"%s\", \"ref_trx\": \"%s\"}".formatted(payment, reference);
        String refund =
                call("POST", "/api/v1/initiate-refund", body, "Idempotency-Key", reference).body();
        // Use a JSON library to read the fields.
        Matcher found = Pattern.compile("\"trx_id\":\"(\\w+)\".*\"info\"").matcher(refund);
        if (!found.find()) {
            System.err.println(refund);
            System.exit(1);
        }
        HttpResponse<String> answer = call("GET", "/api/v1/verify-refund/" + found.group(1), "");
        System.out.println(answer.body());
        // If the refund is still pending, wait for the notification, or verify it again later.
        boolean hasFailed = answer.body().contains("\"status\":\"failed\"");
        System.exit(answer.statusCode() == 200 && !hasFailed ? 0 : 1);
    }
}

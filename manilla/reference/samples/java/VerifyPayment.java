import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Verifies a payment: VerifyPayment.java TRX_ID. Needs Java 17 or newer. */
public class VerifyPayment {
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

    static HttpResponse<String> get(String target) throws Exception {
        String timestamp = Long.toString(Instant.now().getEpochSecond());
        HttpRequest request = HttpRequest.newBuilder(URI.create(System.getenv("MANILLA_URL") + target))
                .timeout(Duration.ofSeconds(30))
                .header("Accept", "application/json")
                .header("X-Environment", "sandbox")
                .header("X-Merchant-Key", System.getenv("MANILLA_MERCHANT_KEY"))
                .header("X-API-Key", System.getenv("MANILLA_API_KEY"))
                .header("X-Timestamp", timestamp)
                .header("X-Signature", sign(timestamp, "GET", target, ""))
                .build();
        return CLIENT.send(request, HttpResponse.BodyHandlers.ofString());
    }

    public static void main(String[] arguments) throws Exception {
        HttpResponse<String> answer = get("/api/v1/verify-payment/" + arguments[0]);
        System.out.println(answer.body());
        // Fulfill the order only on success, and only if amount and currency match your order.
        // Use a JSON library to read the fields.
        boolean isPaid = answer.statusCode() == 200 && answer.body().contains("\"status\":\"success\"");
        System.exit(isPaid ? 0 : 1);
    }
}

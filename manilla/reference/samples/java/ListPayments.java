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

/** Lists payments page by page: ListPayments.java QUERY, such as limit=100. Needs Java 17 or newer. */
public class ListPayments {
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
        Pattern cursor = Pattern.compile("\"next_cursor\":\"([^\"]+)\"");
        String target = "/api/v1/payments?" + arguments[0];
        String next = target;
        while (next != null) {
            HttpResponse<String> page = get(next);
            System.out.println(page.body());
            if (page.statusCode() != 200) {
                System.exit(1);
            }
            // Use a JSON library to read `data`. On the last page, next_cursor is null.
            Matcher found = cursor.matcher(page.body());
            next = found.find() ? target + "&cursor=" + found.group(1) : null;
        }
    }
}

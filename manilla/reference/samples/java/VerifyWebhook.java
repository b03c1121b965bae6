import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.Base64;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class VerifyWebhook {
    /** Verifies that a webhook is from Manilla. Pass the raw body and the three webhook- headers. */
    static boolean verify(
            byte[] rawBody, String id, String timestamp, String signatures, String secret)
            throws GeneralSecurityException {
        byte[] key = Base64.getDecoder().decode(secret.replaceFirst("^whsec_", ""));
        if (key.length == 0) {
            return false;
        }
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        mac.update((id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
        byte[] expected = ("v1," + Base64.getEncoder().encodeToString(mac.doFinal(rawBody)))
                .getBytes(StandardCharsets.UTF_8);
        for (String given : signatures.split(" ")) { // there are two after a rotation
            if (MessageDigest.isEqual(expected, given.getBytes(StandardCharsets.UTF_8))) {
                long age = Instant.now().getEpochSecond() - Long.parseLong(timestamp);
                return Math.abs(age) <= 300; // an older webhook may be a replay
            }
        }
        return false;
    }

    public static void main(String[] arguments) throws Exception {
        byte[] body = Files.readAllBytes(Path.of(arguments[0]));
        String secret = System.getenv("MANILLA_WEBHOOK_SECRET");
        System.exit(verify(body, arguments[1], arguments[2], arguments[3], secret) ? 0 : 1);
    }
}

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HexFormat;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class VerifyIpn {
    /** Verifies that a notification is from Manilla. Pass the raw bytes of the body. */
    static boolean verify(byte[] rawBody, String signatureHeader, String secret)
            throws GeneralSecurityException {
        if (secret.isEmpty() || signatureHeader == null) {
            return false;
        }
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
        String expected = HexFormat.of().formatHex(mac.doFinal(rawBody));
        String given = signatureHeader.replaceFirst("^sha256=", "");
        return MessageDigest.isEqual(
                expected.getBytes(StandardCharsets.UTF_8), given.getBytes(StandardCharsets.UTF_8));
    }

    public static void main(String[] arguments) throws Exception {
        byte[] body = Files.readAllBytes(Path.of(arguments[0]));
        System.exit(verify(body, arguments[1], System.getenv("MANILLA_API_SECRET")) ? 0 : 1);
    }
}

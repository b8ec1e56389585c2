package io.zlayout.iceberg;

import java.net.URI;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.apache.iceberg.rest.HTTPClient;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.rest.RESTUtil;

/**
 * Iceberg's REST catalog, whose server chooses no other address, proxy, class or kind of login for the catalog.
 *
 * Iceberg merges the response to /v1/config into the properties of the catalog. Then it makes a second client, to which it
 * gives the tokens of the catalog. Here this client is made only if the server has not changed what decides where its
 * requests go, except to another path of a declared address.
 */
public class ClosedRestCatalog extends RESTCatalog {
    public ClosedRestCatalog() {
        super(new Clients());
    }

    public static class Clients implements Function {
        private static final String URI_KEY = "uri";
        private static final String TOKENS_KEY = "oauth2-server-uri";
        private static final Pattern DECISIVE = Pattern.compile(
            "rest\\.(?:client\\.proxy|auth|sig).*|ssl.*|(?:.*[.-])?(?:impl|class|factory|provider|proxy)(?:[.-].*)?");

        private Map declared;

        public Object apply(Object given) {
            Map properties = (Map) given;
            if (declared == null) {
                declared = new HashMap(properties);
            }
            for (Iterator entries = properties.entrySet().iterator(); entries.hasNext();) {
                Map.Entry entry = (Map.Entry) entries.next();
                String key = (String) entry.getKey();
                String value = (String) entry.getValue();
                if (!value.equals(declared.get(key)) && !isHarmless(key, value)) {
                    throw new IllegalArgumentException(
                        "the server of the catalog sets " + key + ", which zlayout does not accept from a server");
                }
            }
            String uri = (String) properties.get(URI_KEY);
            return HTTPClient.builder(properties).uri(uri).withHeaders(RESTUtil.configHeaders(properties)).build();
        }

        private boolean isHarmless(String key, String value) {
            if (key.equals(URI_KEY)) {
                return isDeclared(value);
            }
            if (key.equals(TOKENS_KEY)) {
                return isDeclared(value) || !value.contains(":") && !value.startsWith("//");
            }
            return !DECISIVE.matcher(key).matches() || key.equals("io-impl") && value.startsWith("org.apache.iceberg.");
        }

        private boolean isDeclared(String address) {
            String origin = origin(address);
            return origin.equals(origin(declared.get(URI_KEY))) || origin.equals(origin(declared.get(TOKENS_KEY)));
        }

        private static String origin(Object address) {
            if (address == null) {
                return "";
            }
            URI uri = URI.create(address.toString());
            String scheme = String.valueOf(uri.getScheme()).toLowerCase(Locale.ROOT);
            int port = uri.getPort() >= 0 ? uri.getPort() : scheme.equals("https") ? 443 : 80;
            String host = uri.getUserInfo() == null && uri.getHost() != null ? uri.getHost() : uri.getRawAuthority();
            return scheme + "://" + String.valueOf(host).toLowerCase(Locale.ROOT) + ":" + port;
        }
    }
}

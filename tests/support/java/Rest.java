import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Iceberg's own REST catalog of its tests on the loopback address. Arguments: port, then KEY=VALUE of its catalog. */
public class Rest {
  public static void main(String[] arguments) throws Exception {
    Map properties = new HashMap();
    for (int i = 1; i < arguments.length; i++) {
      int at = arguments[i].indexOf('=');
      properties.put(arguments[i].substring(0, at), arguments[i].substring(at + 1));
    }
    RESTCatalogAdapter adapter =
        new RESTCatalogAdapter(CatalogUtil.buildIcebergCatalog("backend", properties, new Configuration()));
    ServletContextHandler handler = new ServletContextHandler();
    handler.addServlet(new ServletHolder(new RESTCatalogServlet(adapter)), "/*");
    Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    server.setHandler(handler);
    server.start();
    server.join();
  }
}

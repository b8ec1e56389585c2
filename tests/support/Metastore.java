import java.net.InetSocketAddress;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** A Hive metastore that listens on the loopback address alone; HiveMetaStore.main listens on every address. */
public class Metastore {
    public static void main(String[] args) throws Exception {
        HiveConf conf = new HiveConf(HiveMetaStore.class);
        TServerSocket socket = new TServerSocket(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])));
        TSetIpAddressProcessor processor =
            new TSetIpAddressProcessor(HiveMetaStore.newRetryingHMSHandler("metastore", conf, false));
        new TThreadPoolServer((TThreadPoolServer.Args) new TThreadPoolServer.Args(socket).processor(processor)).serve();
    }
}

import java.net.InetSocketAddress;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.MetaStoreUtils;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.hadoop.hive.shims.ShimLoader;
import org.apache.hadoop.hive.thrift.HadoopThriftAuthBridge;
import org.apache.thrift.server.TServer;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** A Hive metastore: HiveMetaStore.main has no tables of locks in a new database, and listens on every address. */
public class Metastore {
  public static void main(String[] port) throws Exception {
    HiveConf conf = new HiveConf();
    TxnDbUtil.prepDb(conf);
    HiveMetaStore.HMSHandler handler = new HiveMetaStore.HMSHandler("metastore", conf, false);
    IHMSHandler retrying = RetryingHMSHandler.getProxy(conf, handler, true);
    TServerSocket socket = new TServerSocket(new InetSocketAddress("127.0.0.1", Integer.parseInt(port[0])));
    TThreadPoolServer.Args arguments = new TThreadPoolServer.Args(socket);
    if (conf.getBoolVar(HiveConf.ConfVars.METASTORE_USE_THRIFT_SASL)) {
      HadoopThriftAuthBridge.Server kerberos = ShimLoader.getHadoopThriftAuthBridge().createServer(
          conf.getVar(HiveConf.ConfVars.METASTORE_KERBEROS_KEYTAB_FILE),
          conf.getVar(HiveConf.ConfVars.METASTORE_KERBEROS_PRINCIPAL));
      arguments.processor(kerberos.wrapProcessor(new ThriftHiveMetastore.Processor(retrying)));
      arguments.transportFactory(kerberos.createTransportFactory(MetaStoreUtils.getMetaStoreSaslProperties(conf)));
    } else {
      arguments.processor(new TSetIpAddressProcessor(retrying));
    }
    TServer server = new TThreadPoolServer(arguments);
    server.serve();
  }
}

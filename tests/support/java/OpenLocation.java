import java.net.URI;
import org.apache.hadoop.fs.FileSystem;
import org.apache.spark.SparkConf;
import org.apache.spark.deploy.SparkHadoopUtil;

/** Opens the file system of a location with Spark settings, as Spark does: LOCATION KEY VALUE KEY VALUE ... */
public class OpenLocation {
  public static void main(String[] arguments) {
    SparkConf conf = new SparkConf(false);
    for (int i = 1; i < arguments.length; i += 2) {
      conf.set(arguments[i], arguments[i + 1]);
    }
    try {
      System.out.println(FileSystem.get(new URI(arguments[0]), SparkHadoopUtil.get().newConfiguration(conf)));
    } catch (Throwable error) {
      System.out.println(error);
    }
    System.exit(0);
  }
}

import java.io.File;
import java.nio.file.Files;
import java.util.Map;
import org.codehaus.janino.SimpleCompiler;

/** Writes the class file of a class that, when it is loaded, makes a folder: CompileCanary CLASS FOLDER FILE. */
public class CompileCanary {
    public static void main(String[] args) throws Exception {
        int dot = args[0].lastIndexOf('.');
        SimpleCompiler compiler = new SimpleCompiler();
        compiler.cook(
            "package " + args[0].substring(0, dot) + "; public class " + args[0].substring(dot + 1)
            + " { static { new java.io.File(\"" + args[1] + "\").mkdirs(); } }"
        );
        Map compiled = compiler.getBytecodes();
        Files.write(new File(args[2]).toPath(), (byte[]) compiled.get(args[0]));
    }
}

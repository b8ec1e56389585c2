package io.zlayout.delta;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.FileNotFoundException;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.actions.Action$;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.DeletionVectorDescriptor;

/**
 * Operations on lists of AddFile. From Python, each of them would take several calls through py4j for every file. Arrays of
 * numbers are passed as bytes, 8 bytes per number, big-endian. Strings are joined by the character 0, which none of them
 * contains.
 */
public class AddFiles {
    private static final char SEPARATOR = 0;
    private final ObjectMapper mapper = new ObjectMapper();

    /**
     * Returns the joined paths (field `path`), statistics (`stats`) or unique ids of deletion vectors (`vector`) of the
     * files from one position up to, but not including, another one. After the given number of characters, no further one
     * is added. A file that is null has the text "".
     */
    public String texts(List files, String field, int from, int to, int characters) {
        StringBuilder joined = new StringBuilder();
        for (int at = from; at < to && (at == from || joined.length() < characters); at++) {
            if (at > from) {
                joined.append(SEPARATOR);
            }
            String text = text((AddFile) files.get(at), field);
            if (text.indexOf(SEPARATOR) >= 0) {
                throw new IllegalArgumentException("a file has the character 0 in its " + field);
            }
            joined.append(text);
        }
        return joined.toString();
    }

    private static String text(AddFile file, String field) {
        if (file == null) {
            return "";
        }
        if (field.equals("path")) {
            return file.path();
        }
        if (field.equals("stats")) {
            return file.stats() == null ? "" : file.stats();
        }
        return file.getDeletionVectorUniqueId().isDefined() ? (String) file.getDeletionVectorUniqueId().get() : "";
    }

    public byte[] sizes(List files) {
        long[] sizes = new long[files.size()];
        for (int at = 0; at < sizes.length; at++) {
            sizes[at] = ((AddFile) files.get(at)).size();
        }
        return bytes(sizes);
    }

    public List select(List files, byte[] positions) {
        LongBuffer at = numbers(positions);
        List selected = new ArrayList(at.remaining());
        while (at.hasRemaining()) {
            selected.add(files.get(Math.toIntExact(at.get())));
        }
        return selected;
    }

    /** Returns a copy of `files` with the files of `others` at these positions. */
    public List replaced(List files, byte[] positions, List others) {
        LongBuffer at = ownersOf(others, positions);
        List replaced = new ArrayList(files);
        for (int n = 0; n < others.size(); n++) {
            replaced.set(Math.toIntExact(at.get(n)), others.get(n));
        }
        return replaced;
    }

    /** Returns whether every file n has the same partition values as the file owner[n] of `others`. */
    public boolean partitionedAs(List files, List others, byte[] owner) {
        LongBuffer at = ownersOf(files, owner);
        for (int n = 0; n < files.size(); n++) {
            Object values = ((AddFile) others.get(Math.toIntExact(at.get(n)))).partitionValues();
            if (!((AddFile) files.get(n)).partitionValues().equals(values)) {
                return false;
            }
        }
        return true;
    }

    /**
     * Adds copies of the files to `result`, with the fields of the JSON object in line owner[n] of `changes` for file n.
     * File tags are added to the tags that the file has, other fields are replaced.
     */
    public void change(List files, byte[] owner, String changes, List result) throws Exception {
        String[] lines = changes.split("\n");
        JsonNode[] objects = new JsonNode[lines.length];
        for (int at = 0; at < lines.length; at++) {
            objects[at] = mapper.readTree(lines[at]);
        }
        LongBuffer at = ownersOf(files, owner);
        for (int n = 0; n < files.size(); n++) {
            ObjectNode action = (ObjectNode) mapper.readTree(((AddFile) files.get(n)).json());
            replaceFields((ObjectNode) action.get("add"), (ObjectNode) objects[Math.toIntExact(at.get(n))]);
            result.add(Action$.MODULE$.fromJson(mapper.writeValueAsString(action)));
        }
    }

    private static void replaceFields(ObjectNode add, ObjectNode change) {
        Iterator fields = change.fields();
        while (fields.hasNext()) {
            Map.Entry entry = (Map.Entry) fields.next();
            String name = (String) entry.getKey();
            JsonNode value = (JsonNode) entry.getValue();
            JsonNode tags = add.get("tags");
            if (name.equals("tags") && tags != null && tags.isObject()) {
                ((ObjectNode) tags).setAll((ObjectNode) value);
            } else {
                add.set(name, value);
            }
        }
    }

    /** Returns the actions that replace the removed files by the added files. */
    public List replacing(List added, List removed, long timestamp, boolean dataChange) {
        List actions = new ArrayList(added);
        for (int at = 0; at < removed.size(); at++) {
            actions.add(((AddFile) removed.get(at)).removeWithTimestamp(timestamp, dataChange));
        }
        return actions;
    }

    public List locations(List files, DeltaLog log) {
        List paths = new ArrayList(files.size());
        for (int at = 0; at < files.size(); at++) {
            paths.add(((AddFile) files.get(at)).absolutePath(log));
        }
        return paths;
    }

    /** Returns the paths of the files that contain the deletion vectors of the AddFiles. */
    public List vectorLocations(List files, Path table) {
        LinkedHashSet paths = new LinkedHashSet();
        for (int at = 0; at < files.size(); at++) {
            DeletionVectorDescriptor vector = ((AddFile) files.get(at)).deletionVector();
            if (vector != null && vector.isOnDisk()) {
                paths.add(vector.absolutePath(table));
            }
        }
        return new ArrayList(paths);
    }

    /** Returns the sizes in bytes of the files on storage, -1 for a file that does not exist. */
    public byte[] stored(List paths, final Configuration conf, int threads) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List requests = new ArrayList(paths.size());
            for (int at = 0; at < paths.size(); at++) {
                final Path path = (Path) paths.get(at);
                requests.add(pool.submit(new Callable() {
                    public Object call() throws Exception {
                        try {
                            return Long.valueOf(path.getFileSystem(conf).getFileStatus(path).getLen());
                        } catch (FileNotFoundException missing) {
                            return Long.valueOf(-1L);
                        }
                    }
                }));
            }
            long[] sizes = new long[paths.size()];
            for (int at = 0; at < sizes.length; at++) {
                sizes[at] = ((Long) ((Future) requests.get(at)).get()).longValue();
            }
            return bytes(sizes);
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof Exception) {
                throw (Exception) failed.getCause();
            }
            throw failed;
        } finally {
            pool.shutdownNow();
        }
    }

    private static LongBuffer ownersOf(List files, byte[] owner) {
        LongBuffer at = numbers(owner);
        if (at.remaining() != files.size()) {
            throw new IllegalArgumentException(files.size() + " files have " + at.remaining() + " owners");
        }
        return at;
    }

    private static LongBuffer numbers(byte[] bytes) {
        return ByteBuffer.wrap(bytes).asLongBuffer();
    }

    private static byte[] bytes(long[] numbers) {
        ByteBuffer buffer = ByteBuffer.allocate(8 * numbers.length);
        buffer.asLongBuffer().put(numbers);
        return buffer.array();
    }
}

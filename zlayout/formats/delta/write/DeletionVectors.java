package io.zlayout.delta;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.delta.actions.Action$;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.DeletionVectorDescriptor;
import org.apache.spark.sql.delta.actions.DeletionVectorDescriptor$;
import org.apache.spark.sql.delta.actions.RemoveFile;
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray;
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArrayFormat$;
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStoreUtils;
import org.apache.spark.sql.delta.storage.dv.HadoopFileSystemDVStore;
import scala.Function1;
import scala.None$;
import scala.Option;
import scala.Some;
import scala.Tuple2;
import scala.collection.Iterable;
import scala.collection.Iterator;

/**
 * Reads and writes the deletion vectors of AddFiles by Delta's own classes. Positions of rows are passed as bytes, 8 bytes
 * per number, big-endian: for each file the number of its positions, followed by the positions.
 */
public class DeletionVectors {
    private final ObjectMapper mapper = new ObjectMapper();

    /** Keeps every digit of the bounds, which by default become doubles. */
    public DeletionVectors() {
        mapper.configure(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS, true);
        mapper.setNodeFactory(JsonNodeFactory.withExactBigDecimals(true));
    }

    /**
     * Returns the files as some commits left them, in the same order, null for a file that is not live any more. The list is
     * empty if a path is written in another form: Delta compares the paths in a transaction as strings.
     * Actions are replayed as by Delta's InMemoryLogReplay.
     *
     * @param files the files before the commits
     * @param commits pairs of the version and the actions of each commit, from `first` on
     * @param last the version of the last commit to replay
     * @param canonical returns one form of equal paths
     */
    public List after(List files, Iterator commits, long first, long last, Function1 canonical) throws Exception {
        Map live = new HashMap();
        List keys = new ArrayList(files.size());
        for (int at = 0; at < files.size(); at++) {
            keys.add(new URI((String) canonical.apply(((AddFile) files.get(at)).path())));
            live.put(keys.get(at), files.get(at));
        }
        for (long version = first; version <= last; version++) {
            Tuple2 commit = commits.hasNext() ? (Tuple2) commits.next() : null;
            if (commit == null || ((Long) commit._1()).longValue() != version) {
                throw new IllegalStateException("the log does not have version " + version);
            }
            replay((Iterable) commit._2(), canonical, live);
        }
        List now = new ArrayList(files.size());
        for (int at = 0; at < files.size(); at++) {
            AddFile file = (AddFile) live.get(keys.get(at));
            if (file != null && !file.path().equals(((AddFile) files.get(at)).path())) {
                return new ArrayList();
            }
            now.add(file);
        }
        return now;
    }

    /** Replays one commit. `live` has a key for each file that matters, with null for a file that is not live. */
    private static void replay(Iterable actions, Function1 canonical, Map live) throws Exception {
        List added = new ArrayList();
        Iterator each = actions.iterator();
        while (each.hasNext()) {
            Object action = each.next();
            if (action instanceof RemoveFile) {
                RemoveFile removed = (RemoveFile) action;
                URI key = new URI((String) canonical.apply(removed.path()));
                AddFile known = (AddFile) live.get(key);
                if (known != null && known.getDeletionVectorUniqueId().equals(removed.getDeletionVectorUniqueId())) {
                    live.put(key, null);
                }
            } else if (action instanceof AddFile) {
                added.add(action);
            }
        }
        for (int at = 0; at < added.size(); at++) {
            AddFile file = (AddFile) added.get(at);
            URI key = new URI((String) canonical.apply(file.path()));
            if (live.containsKey(key)) {
                live.put(key, file);
            }
        }
    }

    public byte[] missing(List files) {
        ByteBuffer missing = ByteBuffer.allocate(8 * files.size());
        for (int at = 0; at < files.size(); at++) {
            missing.putLong(files.get(at) == null ? 1 : 0);
        }
        return missing.array();
    }

    /**
     * Returns how many more rows are deleted in `after`, summed over the files of which more rows are deleted. Of a file
     * that is null in `after`, all rows are deleted.
     */
    public long deletedSince(List before, List after) throws Exception {
        long sum = 0;
        for (int at = 0; at < after.size(); at++) {
            AddFile old = (AddFile) before.get(at);
            AddFile now = (AddFile) after.get(at);
            sum += Math.max(0L, (now == null ? rows(old) : deleted(now)) - deleted(old));
        }
        return sum;
    }

    private long rows(AddFile file) throws Exception {
        JsonNode rows = file.stats() == null ? null : mapper.readTree(file.stats()).get("numRecords");
        if (rows == null || !rows.isNumber()) {
            throw new IllegalStateException("the log does not have the number of rows of " + file.path());
        }
        return rows.asLong();
    }

    private static long deleted(AddFile file) {
        return file.deletionVector() == null ? 0 : file.deletionVector().cardinality();
    }

    /** Returns whether all rows have the same ids and commit versions, as far as the log has them, but for nulls. */
    public boolean sameIds(List before, List after) {
        for (int at = 0; at < after.size(); at++) {
            AddFile old = (AddFile) before.get(at);
            AddFile now = (AddFile) after.get(at);
            if (now == null) {
                continue;
            }
            if (!old.baseRowId().equals(now.baseRowId())
                    || !old.defaultRowCommitVersion().equals(now.defaultRowCommitVersion())) {
                return false;
            }
        }
        return true;
    }

    /**
     * Returns the positions of the rows that are deleted from each file of `after`, but not from the file at the same
     * position of `before`; all rows of a file that is null in `after`. The number of positions is -1 if a row that was
     * deleted before is not deleted after.
     */
    public byte[] newlyDeleted(final List before, final List after, final Path table, final Configuration conf, int threads)
            throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List requests = new ArrayList(after.size());
            for (int at = 0; at < after.size(); at++) {
                final DeletionVectorDescriptor old = ((AddFile) before.get(at)).deletionVector();
                final AddFile file = (AddFile) after.get(at);
                final DeletionVectorDescriptor now = file == null ? null : file.deletionVector();
                final long rows = file == null ? rows((AddFile) before.get(at)) : 0;
                requests.add(pool.submit(new Callable() {
                    public Object call() throws Exception {
                        HadoopFileSystemDVStore store = new HadoopFileSystemDVStore(conf);
                        RoaringBitmapArray restored = read(old, table, store);
                        RoaringBitmapArray deleted = read(now, table, store);
                        for (long position = 0; position < rows; position++) {
                            deleted.add(position);
                        }
                        RoaringBitmapArray known = restored.copy();
                        restored.diff(deleted);
                        if (!restored.isEmpty()) {
                            return null;
                        }
                        deleted.diff(known);
                        return deleted.toArray();
                    }
                }));
            }
            List found = new ArrayList(after.size());
            long count = after.size();
            for (int at = 0; at < after.size(); at++) {
                long[] positions = (long[]) ((Future) requests.get(at)).get();
                found.add(positions);
                count += positions == null ? 0 : positions.length;
            }
            return bytes(found, Math.toIntExact(count));
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof Exception) {
                throw (Exception) failed.getCause();
            }
            throw failed;
        } finally {
            pool.shutdownNow();
        }
    }

    /**
     * Returns copies of the files from which the rows at these positions are deleted too. Their vectors are written to one
     * new file in the folder of the table, as Delta's own DELETE does. Bounds of their statistics are no longer tight.
     */
    public List marked(List files, byte[] positions, Path table, Configuration conf) throws Exception {
        HadoopFileSystemDVStore store = new HadoopFileSystemDVStore(conf);
        UUID id = UUID.randomUUID();
        LongBuffer numbers = ByteBuffer.wrap(positions).asLongBuffer();
        List result = new ArrayList(files.size());
        DeletionVectorStoreUtils.Writer writer =
                store.createWriter(store.generateFileNameInTable(store.pathWithFileSystem(table), id, ""));
        try {
            for (int at = 0; at < files.size(); at++) {
                AddFile file = (AddFile) files.get(at);
                RoaringBitmapArray deleted = read(file.deletionVector(), table, store);
                ObjectNode action = (ObjectNode) mapper.readTree(file.json());
                ObjectNode add = (ObjectNode) action.get("add");
                ObjectNode stats = (ObjectNode) mapper.readTree(add.get("stats").asText());
                long rows = stats.get("numRecords").asLong();
                for (long left = numbers.get(); left > 0; left--) {
                    long position = numbers.get();
                    if (position < 0 || position >= rows || deleted.contains(position)) {
                        throw new IllegalArgumentException("row " + position + " of " + file.path() + " is not live");
                    }
                    deleted.add(position);
                }
                deleted.runOptimize();
                byte[] data = deleted.serializeAsByteArray(RoaringBitmapArrayFormat$.MODULE$.Portable());
                Option offset = new Some(Integer.valueOf(writer.write(data).offset()));
                DeletionVectorDescriptor vector = DeletionVectorDescriptor$.MODULE$.onDiskWithRelativePath(
                        id, "", data.length, deleted.cardinality(), offset, (Option) None$.MODULE$);
                ObjectNode described = mapper.createObjectNode();
                described.put("storageType", vector.storageType());
                described.put("pathOrInlineDv", vector.pathOrInlineDv());
                described.put("offset", (Integer) offset.get());
                described.put("sizeInBytes", vector.sizeInBytes());
                described.put("cardinality", vector.cardinality());
                add.set("deletionVector", described);
                stats.put("tightBounds", false);
                add.put("stats", mapper.writeValueAsString(stats));
                result.add(Action$.MODULE$.fromJson(mapper.writeValueAsString(action)));
            }
        } finally {
            writer.close();
        }
        return result;
    }

    private static RoaringBitmapArray read(DeletionVectorDescriptor vector, Path table, HadoopFileSystemDVStore store) {
        return vector == null ? new RoaringBitmapArray() : store.read(vector, table);
    }

    private static byte[] bytes(List found, int count) {
        ByteBuffer buffer = ByteBuffer.allocate(8 * count);
        LongBuffer numbers = buffer.asLongBuffer();
        for (int at = 0; at < found.size(); at++) {
            long[] positions = (long[]) found.get(at);
            numbers.put(positions == null ? -1 : positions.length);
            if (positions != null) {
                numbers.put(positions);
            }
        }
        return buffer.array();
    }
}

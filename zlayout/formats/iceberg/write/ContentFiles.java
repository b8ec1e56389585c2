package io.zlayout.iceberg;

import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.iceberg.BaseFileScanTask;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.ContentFileParser;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.expressions.ResidualEvaluator;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.util.ContentFileUtil;
import org.apache.iceberg.util.Tasks;

/**
 * Operations on lists of DataFile (`files`) and of FileScanTask (`tasks`), each of which would take several calls through
 * py4j for every file. Numbers are passed as byte arrays with 8 bytes for each, big-endian. Strings are joined by the
 * character 0.
 */
public class ContentFiles {
    private static final char SEPARATOR = 0;
    private static final Long PLACEHOLDER = Long.valueOf(1L << 40);

    /** Adds the parts of a joined string to a list. */
    public void split(String joined, List result) {
        int from = 0;
        for (int end = joined.indexOf(SEPARATOR); end >= 0; end = joined.indexOf(SEPARATOR, from)) {
            result.add(joined.substring(from, end));
            from = end + 1;
        }
        result.add(joined.substring(from));
    }

    /** Returns the scan task of each path, null for a path that the scan does not have, and closes the scan. */
    public List tasks(CloseableIterable scan, List paths) throws IOException {
        try {
            Map positions = new HashMap();
            for (int at = 0; at < paths.size(); at++) {
                if (positions.put(paths.get(at), Integer.valueOf(at)) != null) {
                    throw new IllegalArgumentException("duplicate path " + paths.get(at));
                }
            }
            FileScanTask[] tasks = new FileScanTask[paths.size()];
            Iterator live = scan.iterator();
            while (live.hasNext()) {
                FileScanTask task = (FileScanTask) live.next();
                Integer at = (Integer) positions.get(((ContentFile) task.file()).location());
                if (at != null) {
                    if (tasks[at.intValue()] != null) {
                        throw new IllegalArgumentException("duplicate file in the scan: " + paths.get(at.intValue()));
                    }
                    tasks[at.intValue()] = task;
                }
            }
            return Arrays.asList((Object[]) tasks);
        } finally {
            scan.close();
        }
    }

    /** Returns the data file of each task. */
    public List files(List tasks) {
        List files = new ArrayList(tasks.size());
        for (int at = 0; at < tasks.size(); at++) {
            files.add(((FileScanTask) tasks.get(at)).file());
        }
        return files;
    }

    /** Returns 1 for each position at which both lists have a task, and these have the same delete files; else 0. */
    public byte[] sameDeletes(List before, List after) {
        long[] same = new long[before.size()];
        for (int at = 0; at < same.length; at++) {
            FileScanTask old = (FileScanTask) before.get(at);
            FileScanTask task = (FileScanTask) after.get(at);
            same[at] = old != null && task != null && deletesOf(old).equals(deletesOf(task)) ? 1 : 0;
        }
        return bytes(same);
    }

    private static Set deletesOf(FileScanTask task) {
        Set deletes = new HashSet();
        for (int at = 0; at < task.deletes().size(); at++) {
            deletes.add(identity((DeleteFile) task.deletes().get(at)));
        }
        return deletes;
    }

    /** Returns path and offset, because one Puffin file contains many deletion vectors. */
    private static List identity(DeleteFile delete) {
        return Arrays.asList(new Object[] {delete.location(), delete.contentOffset()});
    }

    /** Returns whether all delete files of the tasks are deletion vectors. */
    public boolean hasOnlyVectors(List tasks) {
        for (int at = 0; at < tasks.size(); at++) {
            List deletes = ((FileScanTask) tasks.get(at)).deletes();
            for (int n = 0; n < deletes.size(); n++) {
                if (!ContentFileUtil.isDV((DeleteFile) deletes.get(n))) {
                    return false;
                }
            }
        }
        return true;
    }

    /** Returns the highest data sequence number of the equality deletes among delete files, 0 if there is none. */
    public long newestEqualityDelete(Iterable files) {
        long newest = 0;
        for (Iterator deletes = files.iterator(); deletes.hasNext();) {
            DeleteFile delete = (DeleteFile) deletes.next();
            if (delete.content() == FileContent.EQUALITY_DELETES) {
                newest = Math.max(newest, delete.dataSequenceNumber().longValue());
            }
        }
        return newest;
    }

    /** Returns the items at these positions. */
    public List select(List items, byte[] positions) {
        LongBuffer at = ByteBuffer.wrap(positions).asLongBuffer();
        List selected = new ArrayList(at.remaining());
        while (at.hasRemaining()) {
            selected.add(items.get(Math.toIntExact(at.get())));
        }
        return selected;
    }

    /**
     * Returns the joined paths of the files at the positions from `from` to `to` (exclusive). Ends early after the path
     * with which the result has `characters` characters or more.
     */
    public String paths(List files, int from, int to, int characters) {
        StringBuilder joined = new StringBuilder();
        for (int at = from; at < to && (at == from || joined.length() < characters); at++) {
            String path = ((ContentFile) files.get(at)).location();
            if (path.indexOf(SEPARATOR) >= 0) {
                throw new IllegalArgumentException("a file has the character 0 in its path");
            }
            joined.append(at > from ? String.valueOf(SEPARATOR) : "").append(path);
        }
        return joined.toString();
    }

    /** Returns files as JSON without statistics, joined and limited as by `paths`. spec: that of all these files. */
    public String documents(List files, PartitionSpec spec, int from, int to, int characters) {
        StringBuilder joined = new StringBuilder();
        for (int at = from; at < to && (at == from || joined.length() < characters); at++) {
            ContentFile file = (ContentFile) ((ContentFile) files.get(at)).copyWithoutStats();
            joined.append(at > from ? String.valueOf(SEPARATOR) : "").append(ContentFileParser.toJson(file, spec));
        }
        return joined.toString();
    }

    /** Returns one number of each file. field: one of the names in `number`. */
    public byte[] numbers(List files, String field) {
        long[] numbers = new long[files.size()];
        for (int at = 0; at < numbers.length; at++) {
            numbers[at] = number((ContentFile) files.get(at), field);
        }
        return bytes(numbers);
    }

    private static long number(ContentFile file, String field) {
        if (field.equals("bytes")) {
            return file.fileSizeInBytes();
        }
        if (field.equals("rows")) {
            return file.recordCount();
        }
        if (field.equals("data sequence number")) {
            return file.dataSequenceNumber().longValue();
        }
        if (field.equals("file sequence number")) {
            Long number = file.fileSequenceNumber(); // Iceberg before 1.1 did not store it with every file
            return number == null ? -1 : number.longValue();
        }
        throw new IllegalArgumentException("unknown field " + field);
    }

    /** Returns the null counts of a column, -1 where unknown. */
    public byte[] nullCounts(List files, int fieldId) {
        long[] counts = new long[files.size()];
        for (int at = 0; at < counts.length; at++) {
            Map known = ((ContentFile) files.get(at)).nullValueCounts();
            Long count = known == null ? null : (Long) known.get(Integer.valueOf(fieldId));
            counts[at] = count == null ? -1 : count.longValue();
        }
        return bytes(counts);
    }

    /** Returns the length of the bound of a column in each file, -1 for none, and then all serialized bounds. */
    public byte[] bounds(List files, int fieldId, boolean upper) {
        long[] lengths = new long[files.size()];
        ByteBuffer[] bounds = new ByteBuffer[files.size()];
        long whole = 8L * lengths.length;
        for (int at = 0; at < lengths.length; at++) {
            ContentFile file = (ContentFile) files.get(at);
            Map known = upper ? file.upperBounds() : file.lowerBounds();
            bounds[at] = known == null ? null : (ByteBuffer) known.get(Integer.valueOf(fieldId));
            lengths[at] = bounds[at] == null ? -1 : bounds[at].remaining();
            whole += Math.max(0, lengths[at]);
        }
        ByteBuffer content = ByteBuffer.allocate(Math.toIntExact(whole));
        content.put(bytes(lengths));
        for (int at = 0; at < bounds.length; at++) {
            if (bounds[at] != null) {
                content.put((ByteBuffer) bounds[at].duplicate());
            }
        }
        return content.array();
    }

    /**
     * Returns scan tasks for new files. The reader ignores stored row ids of a file that has no first row id. Therefore
     * `rowIds` gives each file a first row id and sequence numbers, which the reader uses only for rows without their own.
     */
    public List newTasks(List files, boolean rowIds, String schema, String spec, ResidualEvaluator residuals)
            throws Exception {
        List tasks = new ArrayList(files.size());
        for (int at = 0; at < files.size(); at++) {
            DataFile file = (DataFile) files.get(at);
            if (rowIds) {
                file = (DataFile) file.copy();
                set(file, "setFirstRowId");
                set(file, "setDataSequenceNumber");
                set(file, "setFileSequenceNumber"); // Iceberg before 1.12 reads this one instead
            }
            tasks.add(new BaseFileScanTask(file, (DeleteFile[]) null, schema, spec, residuals));
        }
        return tasks;
    }

    /** Calls a public method of DataFile's class, which is not public, with the placeholder. */
    private static void set(DataFile file, String name) throws Exception {
        Method setter = file.getClass().getMethod(name, new Class[] {Long.class});
        setter.setAccessible(true);
        setter.invoke(file, new Object[] {PLACEHOLDER});
    }

    /**
     * Adds to a rewrite the removal of the files of the `removed` tasks, and the `added` files. With `deletes`, the
     * rewrite also removes the delete files that apply to a single file.
     */
    public void replace(RewriteFiles change, List removed, List added, boolean deletes) {
        Set known = new HashSet();
        for (int at = 0; at < removed.size(); at++) {
            FileScanTask task = (FileScanTask) removed.get(at);
            change.deleteFile((DataFile) task.file());
            List applied = deletes ? task.deletes() : Collections.EMPTY_LIST;
            for (int n = 0; n < applied.size(); n++) {
                DeleteFile delete = (DeleteFile) applied.get(n);
                if (ContentFileUtil.isFileScoped(delete) && known.add(identity(delete))) {
                    change.deleteFile(delete);
                }
            }
        }
        for (int at = 0; at < added.size(); at++) {
            change.addFile((DataFile) added.get(at));
        }
    }

    /** Returns the sizes of files on storage, -1 for a file that does not exist. */
    public byte[] stored(final List paths, final FileIO io, int threads) {
        final long[] sizes = new long[paths.size()];
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            Tasks.range(sizes.length).executeWith(pool).stopOnFailure().run(new Tasks.Task() {
                public void run(Object at) {
                    int n = ((Integer) at).intValue();
                    InputFile file = io.newInputFile((String) paths.get(n));
                    sizes[n] = file.exists() ? file.getLength() : -1;
                }
            });
        } finally {
            pool.shutdownNow();
        }
        return bytes(sizes);
    }

    private static byte[] bytes(long[] numbers) {
        ByteBuffer buffer = ByteBuffer.allocate(8 * numbers.length);
        buffer.asLongBuffer().put(numbers);
        return buffer.array();
    }
}

package io.zlayout.iceberg;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import java.util.function.LongConsumer;
import java.util.function.Supplier;
import org.apache.iceberg.BaseFileScanTask;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.encryption.EncryptingFileIO;
import org.apache.iceberg.expressions.ResidualEvaluator;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.util.ContentFileUtil;

/**
 * Reads and writes position deletes, by Iceberg's own classes: deletion vectors in tables of format version 3, and
 * files with positions in tables of version 2. Numbers are passed as by ContentFiles.
 */
public class DeleteFiles {
    // of delete files whose content is kept, about 500 bytes for each row: at most about 100 MB
    private static final int MAX_KNOWN_ROWS = 100;
    private static final int MAX_KNOWN_FILES = 2000;

    /**
     * Compares the deletes of files at two versions.
     *
     * @param known the content of small files of position deletes by their location, which is read once
     * @return for each file the number of its rows that are deleted by position only in `after`, and their ascending
     *     positions. Empty if there is none, if there are more than `limit`, or if anything else was changed: if a row
     *     was restored, if other equality deletes apply, or if a file that lost rows has none of its deletes for itself.
     *     An Iceberg rewrite must remove a delete file to add others.
     */
    public byte[] newlyDeleted(List before, List after, Table table, long limit, Map known, int threads)
            throws Exception {
        final EncryptingFileIO io = EncryptingFileIO.combine(table.io(), table.encryption());
        final BaseDeleteLoader loader = new Loader(new Function() {
            public Object apply(Object file) {
                return io.newInputFile((DeleteFile) file);
            }
        }, known);
        for (int at = 0; at < before.size(); at++) { // before any delete file is read
            if (!equalityDeletes((FileScanTask) before.get(at)).equals(equalityDeletes((FileScanTask) after.get(at)))) {
                return new byte[0];
            }
        }
        final AtomicLong left = new AtomicLong(limit);
        List positions = new ArrayList(before.size());
        long rows = 0;
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List requests = new ArrayList(before.size());
            for (int at = 0; at < before.size(); at++) {
                final FileScanTask old = (FileScanTask) before.get(at);
                final FileScanTask task = (FileScanTask) after.get(at);
                requests.add(pool.submit(new Callable() {
                    public Object call() {
                        return compared(old, task, loader, left);
                    }
                }));
            }
            for (int at = 0; at < before.size(); at++) {
                long[] found = (long[]) ((Future) requests.get(at)).get();
                if (found == null) {
                    return new byte[0];
                }
                rows += found.length;
                positions.add(found);
            }
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof Exception) {
                throw (Exception) failed.getCause();
            }
            throw failed;
        } finally {
            pool.shutdownNow();
        }
        if (rows == 0) {
            return new byte[0];
        }
        ByteBuffer buffer = ByteBuffer.allocate(Math.toIntExact(8 * (positions.size() + rows)));
        for (int at = 0; at < positions.size(); at++) {
            long[] found = (long[]) positions.get(at);
            buffer.putLong(found.length);
            for (int n = 0; n < found.length; n++) {
                buffer.putLong(found[n]);
            }
        }
        return buffer.array();
    }

    static long[] compared(FileScanTask before, FileScanTask after, BaseDeleteLoader loader, AtomicLong left) {
        Newly newly = new Newly(positions(loader, before), left);
        positions(loader, after).forEach(newly);
        if (newly.tooMany || newly.kept != newly.known.cardinality() || newly.count > 0 && !hasOwnDeletes(after)) {
            return null;
        }
        return Arrays.copyOf(newly.positions, newly.count);
    }

    /** Returns the locations of the equality deletes of a task. */
    private static Set equalityDeletes(FileScanTask task) {
        Set found = new HashSet();
        Iterator deletes = deletes(task, true).iterator();
        while (deletes.hasNext()) {
            found.add(((DeleteFile) deletes.next()).location());
        }
        return found;
    }

    private static List deletes(FileScanTask task, boolean equality) {
        List found = new ArrayList();
        for (int at = 0; at < task.deletes().size(); at++) {
            DeleteFile delete = (DeleteFile) task.deletes().get(at);
            if ((delete.content() == FileContent.EQUALITY_DELETES) == equality) {
                found.add(delete);
            }
        }
        return found;
    }

    private static boolean hasOwnDeletes(FileScanTask task) {
        for (int at = 0; at < task.deletes().size(); at++) {
            if (ContentFileUtil.isFileScoped((DeleteFile) task.deletes().get(at))) {
                return true;
            }
        }
        return false;
    }

    private static PositionDeleteIndex positions(BaseDeleteLoader loader, FileScanTask task) {
        List deletes = deletes(task, false);
        return loader.loadPositionDeletes(deletes, ((ContentFile) task.file()).location());
    }

    /** Keeps what it has read. Files never change. */
    private static class Loader extends BaseDeleteLoader {
        final Map known;

        Loader(Function input, Map known) {
            super(input);
            this.known = known;
        }

        protected boolean canCache(long rows) {
            return rows <= MAX_KNOWN_ROWS && known.size() < MAX_KNOWN_FILES;
        }

        protected Object getOrLoad(String location, Supplier supplier, long rows) {
            Object found = known.get(location);
            if (found == null) {
                found = supplier.get();
                known.put(location, found);
            }
            return found;
        }
    }

    /** Collects the positions that are not known. */
    private static class Newly implements LongConsumer {
        final PositionDeleteIndex known;
        final AtomicLong left;
        long[] positions = new long[16];
        int count = 0;
        long kept = 0;
        boolean tooMany = false;

        /** @param left the number of rows that may still be found in any file */
        Newly(PositionDeleteIndex known, AtomicLong left) {
            this.known = known;
            this.left = left;
        }

        public void accept(long position) {
            if (known.isDeleted(position)) {
                kept++;
            } else if (left.decrementAndGet() < 0) {
                tooMany = true;
            } else {
                if (count == positions.length) {
                    positions = Arrays.copyOf(positions, 2 * count);
                }
                positions[count++] = position;
            }
        }
    }

    /**
     * Writes deletes of rows of new files.
     *
     * @param tasks scan tasks of the files
     * @param positions for each file the number of its deleted rows, and their ascending positions
     * @param vectors whether the table has deletion vectors
     * @return scan tasks of the same files with these deletes only
     */
    public List marked(
            List tasks, byte[] positions, Table table, boolean vectors, String schema, String spec, ResidualEvaluator residuals)
            throws IOException {
        LongBuffer numbers = ByteBuffer.wrap(positions).asLongBuffer();
        Map deletes = vectors ? vectors(tasks, numbers, table) : files(tasks, numbers, table);
        List marked = new ArrayList(tasks.size());
        for (int at = 0; at < tasks.size(); at++) {
            DataFile file = (DataFile) ((FileScanTask) tasks.get(at)).file();
            DeleteFile delete = (DeleteFile) deletes.get(((ContentFile) file).location());
            if (delete == null) {
                throw new IllegalStateException("no deletes were written for a file");
            }
            marked.add(new BaseFileScanTask(file, new DeleteFile[] {delete}, schema, spec, residuals));
        }
        return marked;
    }

    private static Map vectors(List tasks, LongBuffer numbers, Table table) throws IOException {
        OutputFileFactory files = OutputFileFactory.builderFor(table, 0, 0L).format(FileFormat.PUFFIN).build();
        BaseDVFileWriter writer = new BaseDVFileWriter(files, new Function() {
            public Object apply(Object path) {
                return null; // the positions are all that are deleted
            }
        });
        try {
            for (int at = 0; at < tasks.size(); at++) {
                ContentFile file = (ContentFile) ((FileScanTask) tasks.get(at)).file();
                PartitionSpec spec = (PartitionSpec) table.specs().get(Integer.valueOf(file.specId()));
                for (long left = numbers.get(); left > 0; left--) {
                    writer.delete(file.location(), numbers.get(), spec, file.partition());
                }
            }
        } finally {
            writer.close();
        }
        Map written = new HashMap();
        Iterator deletes = writer.result().deleteFiles().iterator();
        while (deletes.hasNext()) {
            DeleteFile delete = (DeleteFile) deletes.next();
            written.put(delete.referencedDataFile(), delete);
        }
        return written;
    }

    private static Map files(List tasks, LongBuffer numbers, Table table) throws IOException {
        Map metrics = new HashMap();
        metrics.put("write.metadata.metrics.default", "full"); // by the whole path, a reader knows the only file
        OutputFileFactory files = OutputFileFactory.builderFor(table, 0, 0L)
                .format(FileFormat.PARQUET).suffix("deletes").build();
        Map written = new HashMap();
        for (int at = 0; at < tasks.size(); at++) {
            ContentFile file = (ContentFile) ((FileScanTask) tasks.get(at)).file();
            PartitionSpec spec = (PartitionSpec) table.specs().get(Integer.valueOf(file.specId()));
            EncryptedOutputFile output =
                    spec.isUnpartitioned() ? files.newOutputFile() : files.newOutputFile(spec, file.partition());
            PositionDeleteWriter writer = Parquet.writeDeletes(output)
                    .setAll(table.properties())
                    .metricsConfig(MetricsConfig.fromProperties(metrics))
                    .withSpec(spec)
                    .withPartition(file.partition())
                    .withKeyMetadata(output.keyMetadata())
                    .overwrite()
                    .buildPositionWriter();
            try {
                PositionDelete delete = PositionDelete.create();
                for (long left = numbers.get(); left > 0; left--) {
                    writer.write(delete.set(file.location(), numbers.get()));
                }
            } finally {
                writer.close();
            }
            written.put(file.location(), writer.toDeleteFile());
        }
        return written;
    }

    /** Returns a list of items with others at these positions. */
    public List replaced(List items, byte[] positions, List others) {
        LongBuffer at = ByteBuffer.wrap(positions).asLongBuffer();
        List replaced = new ArrayList(items);
        for (int n = 0; n < others.size(); n++) {
            replaced.set(Math.toIntExact(at.get()), others.get(n));
        }
        return replaced;
    }

    /** Returns the delete files of all tasks. */
    public List deletes(List tasks) {
        List found = new ArrayList();
        for (int at = 0; at < tasks.size(); at++) {
            found.addAll(((FileScanTask) tasks.get(at)).deletes());
        }
        return found;
    }

    /** Adds delete files to a rewrite. */
    public void add(RewriteFiles change, List deletes) {
        for (int at = 0; at < deletes.size(); at++) {
            change.addFile((DeleteFile) deletes.get(at));
        }
    }
}

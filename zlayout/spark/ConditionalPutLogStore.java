package io.zlayout.delta;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.AWSServiceIOException;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;

/**
 * Writes the commit files of Delta tables on S3. A commit file is created by a PUT with the condition that it does not
 * exist, so that no writer can replace the commit of another writer. S3A of Hadoop 3.4.2 or newer sends such a PUT only for
 * files that are created with the option CONDITIONAL. Delta's own S3SingleDriverLogStore does not use this option.
 */
public class ConditionalPutLogStore extends io.delta.storage.S3SingleDriverLogStore {
    private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";

    private static final int CONFLICT = 409;
    private static final long PAUSE_MILLIS = 100;

    public ConditionalPutLogStore(Configuration conf) {
        super(conf);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, conf);
            return;
        }
        FileSystem files = path.getFileSystem(conf);
        FSDataOutputStreamBuilder builder = files.createFile(path);
        builder.create();
        builder.must(CONDITIONAL, true);
        FSDataOutputStream stream = (FSDataOutputStream) builder.build();
        boolean complete = false;
        try {
            while (actions.hasNext()) {
                stream.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
            }
            complete = true;
        } finally {
            if (!complete) {
                stream.abort();  // without this, close() would store a part of the commit
            }
        }
        try {
            stream.close();
        } catch (RemoteFileChangedException exists) {
            throw new FileAlreadyExistsException(path.toString());
        } catch (org.apache.hadoop.fs.FileAlreadyExistsException exists) {
            throw new FileAlreadyExistsException(path.toString());
        } catch (AWSServiceIOException refused) {
            if (refused.statusCode() != CONFLICT) {
                throw refused;
            }
            // S3 asks the client to repeat the request. Delta searches for the commit, and repeats it if it is not there.
            pause();
            throw new FileAlreadyExistsException(path.toString());
        }
    }

    private static void pause() throws IOException {
        try {
            Thread.sleep(PAUSE_MILLIS);
        } catch (InterruptedException interrupted) {
            throw new InterruptedIOException(interrupted.getMessage());
        }
    }
}

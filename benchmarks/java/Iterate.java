// Kafka's own iterator over the first batches of a segment: every batch's CRC is checked, and of
// every record offset, timestamp, key and value are found. It warms up, says `ready`, and then runs
// one round for each line it reads, answering `RECORDS CPU_NS WALL_NS SUM`. The sum is of offsets,
// timestamps, key and value sizes: it keeps the compiler from leaving work out, and shows that the
// other side has read the same.
// Run as: java -cp JARS Iterate.java memory|file SEGMENT BYTES WARM_ROUNDS
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;

public class Iterate {
    private static long records;
    private static long sum;

    public static void main(String[] arguments) throws Exception {
        var inMemory = arguments[0].equals("memory");
        var path = new File(arguments[1]);
        var size = Integer.parseInt(arguments[2]);
        var data = inMemory ? read(path, size) : null;
        for (int round = 0; round < Integer.parseInt(arguments[3]); round++) {
            run(data, path, size);
        }
        System.out.println("ready");
        System.out.flush();
        var clock = ManagementFactory.getThreadMXBean();
        var in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null) {
            var wall = System.nanoTime();
            var cpu = clock.getCurrentThreadCpuTime();
            run(data, path, size);
            cpu = clock.getCurrentThreadCpuTime() - cpu;
            wall = System.nanoTime() - wall;
            System.out.println(records + " " + cpu + " " + wall + " " + sum);
            System.out.flush();
        }
    }

    private static byte[] read(File path, int size) throws Exception {
        var data = new byte[size];
        try (var file = new RandomAccessFile(path, "r")) {
            file.readFully(data);
        }
        return data;
    }

    private static void run(byte[] data, File path, int size) throws Exception {
        records = 0;
        sum = 0;
        if (data != null) {
            walk(MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches());
            return;
        }
        try (var file = FileRecords.open(path, false)) {
            walk(file.slice(0, size).batches());
        }
    }

    private static void walk(Iterable<? extends RecordBatch> batches) {
        for (var batch : batches) {
            batch.ensureValid();
            for (var record : batch) {
                records++;
                sum += record.offset() + record.timestamp() + record.keySize() + record.valueSize();
            }
        }
    }
}

// Kafka's own Java client at any cluster, warm: it says `ready`, and then does what each line tells
// it, answering `RECORDS CPU_NS WALL_NS BYTES` (the CPU time is this whole client's).
//   produce BOOTSTRAP TOPIC PARTITIONS RECORDS BYTES ACKS
//   consume BOOTSTRAP TOPIC PARTITIONS RECORDS
//   transact BOOTSTRAP TOPIC PARTITIONS TRANSACTIONS RECORDS BYTES
// Clients are connected before the clock starts. Apart from acks they have their own defaults.
// Run as: java -cp JARS Client.java
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Properties;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Client {
    private static final int CHUNK = 1000; // records to one partition before the next has its turn
    private static final Duration MOST = Duration.ofSeconds(60);

    private static long records;
    private static long bytes;
    private static long cpu;
    private static long wall;

    public static void main(String[] arguments) throws Exception {
        System.out.println("ready");
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (var line = in.readLine(); line != null; line = in.readLine()) {
            var told = line.split(" ");
            records = 0;
            bytes = 0;
            switch (told[0]) {
                case "produce" -> produce(told);
                case "consume" -> consume(told);
                case "transact" -> transact(told);
                default -> throw new IllegalArgumentException(line);
            }
            System.out.println(records + " " + cpu + " " + wall + " " + bytes);
            System.out.flush();
        }
    }

    private static void produce(String[] told) throws Exception {
        var properties = to(told[1]);
        properties.put("acks", told[6]);
        var size = Integer.parseInt(told[5]);
        try (var producer = new Writer(properties, told[2], Integer.parseInt(told[3]), size)) {
            start();
            producer.send(Long.parseLong(told[4]));
            producer.flush();
            stop();
        }
    }

    private static void transact(String[] told) throws Exception {
        var properties = to(told[1]);
        properties.put("transactional.id", UUID.randomUUID().toString());
        var size = Integer.parseInt(told[6]);
        try (var producer = new Writer(properties, told[2], Integer.parseInt(told[3]), size)) {
            producer.kafka.initTransactions();
            start();
            for (int i = 0; i < Integer.parseInt(told[4]); i++) {
                producer.kafka.beginTransaction();
                producer.send(Long.parseLong(told[5]));
                producer.kafka.commitTransaction();
            }
            stop();
        }
    }

    private static void consume(String[] told) {
        var partitions = new ArrayList<TopicPartition>();
        for (int i = 0; i < Integer.parseInt(told[3]); i++) {
            partitions.add(new TopicPartition(told[2], i));
        }
        var properties = to(told[1]);
        try (var consumer = new KafkaConsumer<byte[], byte[]>(properties)) {
            consumer.assign(partitions);
            consumer.partitionsFor(told[2]);
            start();
            consumer.seekToBeginning(partitions);
            var deadline = System.nanoTime() + MOST.toNanos();
            while (records < Long.parseLong(told[4])) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    records++;
                    bytes += record.value().length;
                }
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(records + " records came in time");
                }
            }
            stop();
        }
    }

    private static Properties to(String bootstrap) {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (var what : new String[] {"key", "value"}) {
            properties.put(what + ".serializer", ByteArraySerializer.class.getName());
            properties.put(what + ".deserializer", ByteArrayDeserializer.class.getName());
        }
        return properties;
    }

    private static void start() {
        cpu = cpuNow();
        wall = System.nanoTime();
    }

    private static void stop() {
        wall = System.nanoTime() - wall;
        cpu = cpuNow() - cpu;
    }

    private static long cpuNow() {
        var system = (com.sun.management.OperatingSystemMXBean)
            ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime();
    }

    /** Sends to the partitions in turn and remembers the first failure. */
    private static class Writer implements AutoCloseable {
        final KafkaProducer<byte[], byte[]> kafka;
        private final String topic;
        private final int partitions;
        private final byte[] value;
        private final AtomicReference<Exception> failure = new AtomicReference<>();

        Writer(Properties properties, String topic, int partitions, int size) {
            kafka = new KafkaProducer<>(properties);
            kafka.partitionsFor(topic);
            this.topic = topic;
            this.partitions = partitions;
            value = new byte[size];
            new Random(1).nextBytes(value);
        }

        void send(long count) {
            var chunk = Math.min(CHUNK, Math.max(1, (count + partitions - 1) / partitions));
            for (long i = 0; i < count; i++) {
                var partition = (int) (i / chunk % partitions);
                kafka.send(new ProducerRecord<>(topic, partition, null, value),
                    (metadata, error) -> failure.compareAndSet(null, error));
                records++;
                bytes += value.length;
            }
        }

        void flush() throws Exception {
            kafka.flush();
            if (failure.get() != null) {
                throw failure.get();
            }
        }

        @Override
        public void close() {
            kafka.close(MOST);
        }
    }
}

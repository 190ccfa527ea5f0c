// Fills a topic the way kafka-producer-perf-test does, with keys: Kafka's own producer with its own
// defaults (batches of 16 KiB, idempotent, acks=all), as fast as the broker takes them. A record has
// a key of 16 digits out of a million, and one of 200,000 values of 100 bytes that look like JSON:
// kafka-producer-perf-test's random letters would leave lz4 nothing to do.
// Run as: java -cp JARS Fill.java BOOTSTRAP TOPIC CODEC RECORDS
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Fill {
    private static final int KEYS = 1_000_000;
    private static final int VALUES = 200_000;
    private static final String[] STATES = {"active", "closed", "pending"};
    private static final String[] CITIES = {"Springfield", "Riverside", "Georgetown"};

    public static void main(String[] arguments) throws Exception {
        var topic = arguments[1];
        var records = Long.parseLong(arguments[3]);
        var properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("compression.type", arguments[2]);
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        var random = new Random(1);
        var values = new byte[VALUES][];
        for (int i = 0; i < VALUES; i++) {
            values[i] = value(random);
        }
        var failure = new AtomicReference<Exception>();
        try (var producer = new KafkaProducer<byte[], byte[]>(properties)) {
            for (long i = 0; i < records && failure.get() == null; i++) {
                var value = values[random.nextInt(VALUES)];
                producer.send(new ProducerRecord<>(topic, 0, key(random.nextInt(KEYS)), value),
                    (metadata, error) -> failure.compareAndSet(null, error));
            }
        }
        if (failure.get() != null) {
            throw failure.get();
        }
    }

    private static byte[] key(int number) {
        var key = new byte[16];
        for (int i = key.length - 1; i >= 0; i--) {
            key[i] = (byte) ('0' + number % 10);
            number /= 10;
        }
        return key;
    }

    private static byte[] value(Random random) {
        var text = String.format(
            "{\"user\":%d,\"state\":\"%s\",\"balance\":%d.%02d,\"city\":\"%s\",\"updated\":%d}",
            random.nextInt(10_000_000), STATES[random.nextInt(3)], random.nextInt(100_000),
            random.nextInt(100), CITIES[random.nextInt(3)], 1_700_000_000 + random.nextInt(100_000_000));
        var value = new byte[100];
        Arrays.fill(value, (byte) ' ');
        var bytes = text.getBytes(StandardCharsets.UTF_8);
        System.arraycopy(bytes, 0, value, 0, Math.min(bytes.length, value.length));
        return value;
    }
}

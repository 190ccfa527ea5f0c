// Writes 0, 1, 2, ... to partition 0 of a topic, with Kafka's own defaults (idempotent, acks=all),
// until its input ends; then prints how many there are, all of them acknowledged.
// Run as: java -cp JARS Numbers.java BOOTSTRAP TOPIC
import java.util.ArrayList;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

public class Numbers {
    private static final int MOST = 50_000;

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = Map.of("bootstrap.servers", arguments[0]);
        var waiting = new ArrayList<Future<RecordMetadata>>();
        try (var producer = new KafkaProducer<>(
                properties, new StringSerializer(), new StringSerializer())) {
            var enough = new Thread(() -> {
                try {
                    while (System.in.read() >= 0) {
                        // Nothing is said to us but the end.
                    }
                } catch (java.io.IOException error) {
                    throw new IllegalStateException(error);
                }
            });
            enough.start();
            while (enough.isAlive() && waiting.size() < MOST) {
                for (int i = 0; i < 20; i++) {
                    waiting.add(producer.send(
                        new ProducerRecord<>(arguments[1], 0, null, "" + waiting.size())));
                }
                enough.join(10);
            }
        }
        for (var each : waiting) {
            each.get(30, TimeUnit.SECONDS);
        }
        System.out.println(waiting.size());
        System.exit(0); // whether or not somebody still holds the other end of our input
    }
}

// Kafka's own producers, told what to do by one JSON object a line; each line is answered by `ok` or
// by `error WHY`. Records are only sent at a flush, so one flush is one batch: linger is an hour.
// Run as: java -cp JARS ScriptedProducer.java BOOTSTRAP
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class ScriptedProducer {
    private static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();
    private static final Map<String, List<Future<RecordMetadata>>> SENT = new HashMap<>();

    private static Admin admin;

    public static void main(String[] arguments) throws Exception {
        admin = Admin.create(Map.of("bootstrap.servers", arguments[0]));
        var mapper = new ObjectMapper();
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            String answer;
            try {
                carryOut(arguments[0], mapper.readTree(line));
                answer = "ok";
            } catch (Exception e) {
                answer = "error " + e.toString().replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
        System.exit(0); // not close(): that would abort what is to stay open
    }

    private static void carryOut(String bootstrap, JsonNode step) throws Exception {
        var name = step.get("producer").asText();
        var producer = PRODUCERS.get(name);
        switch (step.get("do").asText()) {
            case "open" -> open(bootstrap, name, step.get("options"));
            case "begin" -> producer.beginTransaction();
            case "send" -> SENT.get(name).add(producer.send(record(step)));
            case "flush" -> flush(name);
            case "commit" -> {
                producer.commitTransaction();
                awaitMarkers(name);
            }
            case "abort" -> {
                producer.abortTransaction();
                awaitMarkers(name);
            }
            case "close" -> producer.close();
            default -> throw new IllegalArgumentException(step.toString());
        }
    }

    private static void open(String bootstrap, String name, JsonNode options) {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        properties.put("linger.ms", "3600000");
        properties.put("delivery.timeout.ms", "3700000");
        properties.put("batch.size", "1000000");
        options.fieldNames().forEachRemaining(n -> properties.put(n, options.get(n).asText()));
        var producer = new KafkaProducer<byte[], byte[]>(properties);
        if (options.has("transactional.id")) {
            producer.initTransactions();
        }
        PRODUCERS.put(name, producer);
        SENT.put(name, new ArrayList<>());
    }

    // A coordinator answers when it has decided; the markers follow, and other records may overtake
    // them. They are all written once it calls the transaction complete. A producer's name is its
    // transactional id.
    private static void awaitMarkers(String name) throws Exception {
        while (true) {
            var description = admin.describeTransactions(List.of(name)).description(name).get();
            var state = description.state();
            if (state == TransactionState.COMPLETE_COMMIT || state == TransactionState.COMPLETE_ABORT) {
                return;
            }
            Thread.sleep(2);
        }
    }

    private static ProducerRecord<byte[], byte[]> record(JsonNode step) {
        var timestamp = step.get("timestamp");
        var record = new ProducerRecord<byte[], byte[]>(
            step.get("topic").asText(),
            0,
            timestamp.isNull() ? null : timestamp.asLong(),
            bytes(step.get("key")),
            bytes(step.get("value")));
        for (var header : step.get("headers")) {
            record.headers().add(header.get(0).asText(), bytes(header.get(1)));
        }
        return record;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static void flush(String name) throws Exception {
        PRODUCERS.get(name).flush();
        for (var future : SENT.get(name)) {
            future.get();
        }
        SENT.get(name).clear();
    }
}

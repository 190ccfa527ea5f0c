// The counter of the report, as an instance of Kafka Streams, exactly once: each record of topic
// `numbers` adds one to its key, the sum goes to topic `sums`, the store is in RocksDB.
//
//     java -cp JARS Counter.java BOOTSTRAP STATE_DIRECTORY
//
// It prints what it does, one line each (`running`, `restored 104`), and stops when its input ends.
// A restore takes a rest after 104 records, as one of a large store takes its time: long enough for
// the group to move the task away meanwhile.
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

public class Counter {
    static final String STORE = "counts";
    static final long PAUSE_MS = 3500;

    public static void main(String[] arguments) throws Exception {
        var streams = new KafkaStreams(topology(), settings(arguments[0], arguments[1]));
        streams.setStateListener((now, before) -> say(now.name().toLowerCase()));
        streams.setGlobalStateRestoreListener(new Slow());
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        while (System.in.read() >= 0) {
            // Nothing is said to us but the end.
        }
        streams.close(Duration.ofSeconds(30));
        Runtime.getRuntime().halt(0); // whoever waits for a broker that is gone is not waited for
    }

    static Properties settings(String bootstrapServers, String directory) {
        var settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "counter");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrapServers);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, directory);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, "1");
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, "1");
        // A copy is warm when it lacks nothing; by default it may lack 10,000 records.
        settings.put(StreamsConfig.ACCEPTABLE_RECOVERY_LAG_CONFIG, "0");
        // Time to look at what is written and not committed yet; and a short wait for coordinators.
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "3000");
        settings.put(StreamsConfig.producerPrefix("max.block.ms"), "5000");
        settings.put(StreamsConfig.restoreConsumerPrefix("max.poll.records"), "104");
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), "2000");
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "6000");
        return settings;
    }

    static Topology topology() {
        var builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.Long()));
        builder.stream("numbers", Consumed.with(Serdes.String(), Serdes.ByteArray()))
            .process(Counting::new, STORE)
            .to("sums", Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    static class Counting implements Processor<String, byte[], String, Long> {
        private ProcessorContext<String, Long> context;
        private KeyValueStore<String, Long> store;

        @Override
        public void init(ProcessorContext<String, Long> context) {
            this.context = context;
            this.store = context.getStateStore(STORE);
        }

        @Override
        public void process(Record<String, byte[]> record) {
            Long before = store.get(record.key());
            long total = before == null ? 1 : before + 1;
            store.put(record.key(), total);
            context.forward(record.withValue(total));
        }
    }

    static class Slow implements StateRestoreListener {
        private long restored;

        @Override
        public void onRestoreStart(TopicPartition at, String store, long start, long end) {
            restored = 0;
            say("restoring " + at + " from " + start + " to " + end);
        }

        @Override
        public void onBatchRestored(TopicPartition at, String store, long end, long records) {
            restored += records;
            say("restored " + restored);
            try {
                Thread.sleep(PAUSE_MS);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }

        @Override
        public void onRestoreEnd(TopicPartition at, String store, long records) {
            say("restored all: " + records);
        }
    }

    static void say(String words) {
        System.out.println(words);
        System.out.flush();
    }
}

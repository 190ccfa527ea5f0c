// Kafka's own Java clients against a cluster: each check prints one line of JSON,
//   {"check": "...", "ok": true}  or  {"check": "...", "ok": false, "why": "..."}
// Run as: java -cp JARS ClientChecks.java BOOTSTRAP [CHECK...]
// A check has topics and groups of its own, named after it.
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.*;

public class ClientChecks {
    interface Check {
        void run(String name) throws Exception;
    }

    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final long YEAR_2001 = 978_307_200_000L;
    private static final Map<String, Check> CHECKS = new LinkedHashMap<>();
    private static String bootstrap;
    private static Admin admin;

    static {
        for (var codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            CHECKS.put("records-" + codec, name -> records(name, codec));
        }
        CHECKS.put("large-records", ClientChecks::largeRecords);
        for (var how : List.of("range", "cooperative", "consumer")) {
            CHECKS.put("rebalance-" + how, name -> rebalance(name, how));
            CHECKS.put("committed-" + how, name -> committed(name, how));
            CHECKS.put("static-" + how, name -> staticMembers(name, how));
        }
        CHECKS.put("pattern-consumer", ClientChecks::pattern);
        CHECKS.put("commit-and-abort", ClientChecks::commitAndAbort);
        CHECKS.put("open-transaction", ClientChecks::openTransaction);
        CHECKS.put("zombie", ClientChecks::zombie);
        CHECKS.put("transaction-timeout", ClientChecks::transactionTimeout);
        for (var how : List.of("range", "consumer")) {
            CHECKS.put("loop-" + how, name -> loop(name, how));
        }
        CHECKS.put("stale-member", ClientChecks::staleMember);
        CHECKS.put("topics", ClientChecks::topics);
        CHECKS.put("refused-topics", ClientChecks::refusedTopics);
        CHECKS.put("configs", ClientChecks::configs);
        CHECKS.put("records-deleted", ClientChecks::recordsDeleted);
        CHECKS.put("offsets", ClientChecks::offsets);
        CHECKS.put("groups-classic", name -> groups(name, "range"));
        CHECKS.put("groups-consumer", name -> groups(name, "consumer"));
        CHECKS.put("transactions", ClientChecks::transactions);
        CHECKS.put("fenced-by-admin", ClientChecks::fencedByAdmin);
        CHECKS.put("reassignment", ClientChecks::reassignment);
        CHECKS.put("election", ClientChecks::election);
        CHECKS.put("log-dirs", ClientChecks::logDirs);
        CHECKS.put("cluster", ClientChecks::cluster);
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        var wanted = List.of(arguments).subList(1, arguments.length);
        var json = new ObjectMapper();
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        for (var check : CHECKS.entrySet()) {
            if (!wanted.isEmpty() && !wanted.contains(check.getKey())) {
                continue;
            }
            var answer = new LinkedHashMap<String, Object>();
            answer.put("check", check.getKey());
            var began = System.nanoTime();
            try {
                check.getValue().run(check.getKey());
                answer.put("ok", true);
            } catch (Exception | AssertionError error) {
                answer.put("ok", false);
                answer.put("why", told(error));
            }
            answer.put("ms", (System.nanoTime() - began) / 1_000_000);
            System.out.println(json.writeValueAsString(answer));
            System.out.flush();
        }
        admin.close();
    }

    // ── records ──

    private static void records(String topic, String codec) throws Exception {
        create(topic, 2);
        var big = "a".repeat(50_000);
        var sent = List.of(
            record(topic, "key", "value", 0),
            record(topic, null, "no key", 1),
            record(topic, "tombstone", null, 2),
            record(topic, null, null, 3),
            record(topic, "", "", 4),
            record(topic, "with headers", "v", 5),
            record(topic, "compressible", big, 6));
        sent.get(5).headers().add(new RecordHeader("trace", new byte[] {0, -1}));
        sent.get(5).headers().add(new RecordHeader("trace", bytes("again")));
        sent.get(5).headers().add(new RecordHeader("none", (byte[]) null));
        try (var producer = producer(Map.of("compression.type", codec, "linger.ms", "50"))) {
            for (var one : sent) {
                producer.send(one);
            }
            producer.flush();
        }
        var found = everything(topic, "read_committed");
        same(sent.size(), found.size(), "records");
        for (int at = 0; at < sent.size(); at++) {
            var one = found.get(at);
            same(sent.get(at).key(), one.key(), "key");
            same(sent.get(at).value(), one.value(), "value");
            same(sent.get(at).headers(), one.headers(), "headers");
            same(YEAR_2001 + at, one.timestamp(), "timestamp");
            same(TimestampType.CREATE_TIME, one.timestampType(), "kind of timestamp");
            same((long) at, one.offset(), "offset");
        }
    }

    private static ProducerRecord<String, String> record(
            String topic, String key, String value, int at) {
        return new ProducerRecord<>(topic, 1, YEAR_2001 + at, key, value);
    }

    private static void largeRecords(String topic) throws Exception {
        var limit = 100_000;
        admin.createTopics(List.of(new NewTopic(topic, 1, (short) 3)
            .configs(Map.of("max.message.bytes", "" + limit)))).all().get();
        try (var producer = producer(Map.of("max.request.size", "10000000"))) {
            // A batch of one record: 61 bytes of batch, and around the value 6 to 10 of record.
            producer.send(new ProducerRecord<>(topic, "x".repeat(limit - 75))).get();
            refused(RecordTooLargeException.class,
                () -> producer.send(new ProducerRecord<>(topic, "x".repeat(limit - 60))).get());
        }
        same(1, everything(topic, "read_committed").size(), "records");
    }

    // ── groups ──

    private static void rebalance(String topic, String how) throws Exception {
        create(topic, 2);
        fill(topic, 10);
        try (var first = consumer(topic, how)) {
            first.subscribe(List.of(topic));
            pollUntil("one member has all", () -> first.assignment().size() == 2, first);
            try (var second = consumer(topic, how)) {
                second.subscribe(List.of(topic));
                pollUntil("each member has one",
                    () -> first.assignment().size() == 1 && second.assignment().size() == 1
                        && !first.assignment().equals(second.assignment()),
                    first, second);
            }
            pollUntil("one has all again", () -> first.assignment().size() == 2, first);
        }
    }

    private static void committed(String topic, String how) throws Exception {
        create(topic, 1);
        fill(topic, 6);
        var place = new TopicPartition(topic, 0);
        try (var consumer = consumer(topic, how)) {
            consumer.subscribe(List.of(topic));
            same(List.of("0", "1", "2"), values(take(consumer, 3)), "values");
            consumer.commitSync(Map.of(place, new OffsetAndMetadata(3, "so far")));
            var found = consumer.committed(Set.of(place)).get(place);
            same(3L, found.offset(), "committed");
            same("so far", found.metadata(), "metadata");
        }
        try (var consumer = consumer(topic, how)) {
            consumer.subscribe(List.of(topic));
            same(List.of("3", "4", "5"), values(take(consumer, 3)), "values after the commit");
        }
    }

    private static void staticMembers(String topic, String how) throws Exception {
        create(topic, 2);
        var bothered = new ArrayList<Collection<TopicPartition>>();
        try (var one = consumer(topic, how, Map.of("group.instance.id", "one"))) {
            one.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                public void onPartitionsRevoked(Collection<TopicPartition> gone) {
                    bothered.add(gone);
                }

                public void onPartitionsAssigned(Collection<TopicPartition> got) {}
            });
            var two = consumer(topic, how, Map.of("group.instance.id", "two"));
            two.subscribe(List.of(topic));
            final var before = two;
            pollUntil("each member has one",
                () -> one.assignment().size() == 1 && before.assignment().size() == 1,
                one, two);
            var had = Set.copyOf(two.assignment());
            bothered.clear();
            two.close();
            try (var again = consumer(topic, how, Map.of("group.instance.id", "two"))) {
                again.subscribe(List.of(topic));
                pollUntil("it is back", () -> again.assignment().size() == 1, one, again);
                same(had, again.assignment(), "partitions of the member that came back");
                same(List.of(), bothered, "partitions that the other one lost");
            }
        }
    }

    // A topic that is created later is found as well, but not at once: Kafka looks every 10 s.
    private static void pattern(String name) throws Exception {
        create(name + "-one", 1);
        try (var consumer = consumer(name, "consumer")) {
            consumer.subscribe(new SubscriptionPattern(name + "-.*"));
            pollUntil("the topic", () -> consumer.assignment().size() == 1, consumer);
        }
    }

    // ── transactions ──

    private static void commitAndAbort(String topic) throws Exception {
        create(topic, 1);
        try (var producer = transactional(topic)) {
            for (var value : List.of("a", "b", "c")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, value));
                if (value.equals("b")) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        same(List.of("a", "c"), values(everything(topic, "read_committed")), "committed");
        same(List.of("a", "b", "c"), values(everything(topic, "read_uncommitted")), "all");
    }

    private static void openTransaction(String topic) throws Exception {
        create(topic, 1);
        try (var producer = transactional(topic)) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "open")).get();
            fill(topic, 1);
            same(List.of(), values(everything(topic, "read_committed")), "before the commit");
            same(2, everything(topic, "read_uncommitted").size(), "uncommitted");
            producer.commitTransaction();
        }
        until("all are seen after it", () ->
            values(everything(topic, "read_committed")).equals(List.of("open", "0")));
    }

    private static void zombie(String topic) throws Exception {
        create(topic, 1);
        try (var zombie = transactional(topic)) {
            zombie.beginTransaction();
            zombie.send(new ProducerRecord<>(topic, "of the zombie")).get();
            try (var heir = transactional(topic)) {
                heir.beginTransaction();
                heir.send(new ProducerRecord<>(topic, "of the heir")).get();
                refused(InvalidProducerEpochException.class,
                    () -> zombie.send(new ProducerRecord<>(topic, "late")).get());
                refused(InvalidProducerEpochException.class, zombie::commitTransaction);
                heir.commitTransaction();
            }
        }
        same(List.of("of the heir"), values(everything(topic, "read_committed")), "committed");
    }

    private static void transactionTimeout(String topic) throws Exception {
        create(topic, 1);
        try (var producer = transactional(topic, Map.of("transaction.timeout.ms", "1000"))) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "slow")).get();
            fill(topic, 1);
            until("the coordinator aborts",
                () -> values(everything(topic, "read_committed")).equals(List.of("0")));
            refused(KafkaException.class, producer::commitTransaction);
        }
        // Whoever comes next under that name is welcome.
        try (var producer = transactional(topic)) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "next"));
            producer.commitTransaction();
        }
        same(List.of("0", "next"), values(everything(topic, "read_committed")), "committed");
    }

    // Reads, writes and commits offsets in one transaction; each third one is aborted and redone.
    private static void loop(String topic, String how) throws Exception {
        var into = topic + "-into";
        create(topic, 1);
        create(into, 1);
        fill(topic, 30);
        var place = new TopicPartition(topic, 0);
        try (var producer = transactional(topic);
                var consumer = consumer(topic, how, Map.of("max.poll.records", "5"))) {
            consumer.subscribe(List.of(topic));
            for (int round = 1, done = 0; done < 30; round++) {
                var batch = take(consumer, 1);
                producer.beginTransaction();
                for (var one : batch) {
                    producer.send(new ProducerRecord<>(into, one.value()));
                }
                var next = batch.get(batch.size() - 1).offset() + 1;
                producer.sendOffsetsToTransaction(
                    Map.of(place, new OffsetAndMetadata(next)), consumer.groupMetadata());
                if (round % 3 == 0) {
                    producer.abortTransaction();
                    var back = consumer.committed(Set.of(place)).get(place);
                    same((long) done, back.offset(), "offset after an abort");
                    consumer.seek(place, back);
                } else {
                    producer.commitTransaction();
                    done += batch.size();
                }
            }
            same(30L, consumer.committed(Set.of(place)).get(place).offset(), "offset at the end");
        }
        same(numbers(30), values(everything(into, "read_committed")), "values");
    }

    private static void staleMember(String topic) throws Exception {
        create(topic, 1);
        fill(topic, 1);
        ConsumerGroupMetadata old;
        try (var consumer = consumer(topic, "range")) {
            consumer.subscribe(List.of(topic));
            take(consumer, 1);
            old = consumer.groupMetadata();
        }
        try (var consumer = consumer(topic, "range"); var producer = transactional(topic)) {
            consumer.subscribe(List.of(topic));
            take(consumer, 1);
            producer.beginTransaction();
            refused(CommitFailedException.class, () -> {
                producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1)), old);
                producer.commitTransaction();
            });
            producer.abortTransaction();
        }
    }

    // ── administration ──

    private static void topics(String topic) throws Exception {
        var created = admin.createTopics(List.of(
            new NewTopic(topic, Optional.empty(), Optional.of((short) 3))
                .configs(Map.of("retention.ms", "1000"))));
        same(1, created.numPartitions(topic).get(), "partitions, by default");
        same(3, created.replicationFactor(topic).get(), "replicas");
        same("1000", created.config(topic).get().get("retention.ms").value(), "its option");
        refused(TopicExistsException.class, () -> create(topic, 1));
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
        refused(InvalidPartitionsException.class,
            () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all().get());
        until("all brokers know of the third", () ->
            get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic)
                .partitions().size() == 3);
        var described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        same(created.topicId(topic).get(), described.topicId(), "topic id");
        for (var partition : described.partitions()) {
            same(Set.of(1, 2, 3), ids(partition.replicas()), "replicas");
            same(Set.of(1, 2, 3), ids(partition.isr()), "isr");
        }
        check(admin.listTopics().names().get().contains(topic), "it is listed");
        admin.deleteTopics(List.of(topic)).all().get();
        until("it is gone", () -> !get(admin.listTopics().names()).contains(topic));
        refused(UnknownTopicOrPartitionException.class,
            () -> admin.describeTopics(List.of(topic)).allTopicNames().get());
    }

    private static void refusedTopics(String topic) throws Exception {
        refused(InvalidTopicException.class, () -> create("bad/name", 1));
        refused(InvalidReplicationFactorException.class, () ->
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 4))).all().get());
        refused(InvalidConfigurationException.class, () ->
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1)
                .configs(Map.of("retention.ms", "soon")))).all().get());
        refused(InvalidReplicaAssignmentException.class, () ->
            admin.createTopics(List.of(new NewTopic(topic, Map.of(0, List.of(9))))).all().get());
        var options = new CreateTopicsOptions().validateOnly(true);
        admin.createTopics(List.of(new NewTopic(topic, 1, (short) 3)), options).all().get();
        check(!admin.listTopics().names().get().contains(topic), "only tried");
    }

    private static void configs(String topic) throws Exception {
        create(topic, 1);
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        alter(resource, op("retention.ms", "1234", OpType.SET),
            op("cleanup.policy", "compact", OpType.APPEND));
        // Whoever answers may not have heard yet of what the controller has written.
        until("retention.ms", () -> "1234".equals(shown(resource).get("retention.ms").value()));
        var shown = shown(resource);
        same(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, shown.get("retention.ms").source(),
            "where it comes from");
        same("delete,compact", shown.get("cleanup.policy").value(), "cleanup.policy");
        same(ConfigEntry.ConfigType.LONG, shown.get("retention.ms").type(), "type");
        alter(resource, op("retention.ms", "", OpType.DELETE),
            op("cleanup.policy", "delete", OpType.SUBTRACT));
        until("the default again", () -> shown(resource).get("retention.ms").isDefault());
        same("compact", shown(resource).get("cleanup.policy").value(), "cleanup.policy");
        refused(InvalidConfigurationException.class,
            () -> alter(resource, op("retention.ms", "soon", OpType.SET)));
        refused(InvalidConfigurationException.class,
            () -> alter(resource, op("no.such.option", "1", OpType.SET)));

        var broker = new ConfigResource(ConfigResource.Type.BROKER, "2");
        alter(broker, op("log.retention.ms", "5000", OpType.SET));
        until("the broker's option counts",
            () -> "5000".equals(shown(broker).get("log.retention.ms").value()));
        check(shown(broker).get("broker.id").isReadOnly(), "broker.id is read-only");
        alter(broker, op("log.retention.ms", "", OpType.DELETE));
        var all = new ConfigResource(ConfigResource.Type.BROKER, "");
        alter(all, op("log.retention.ms", "7000", OpType.SET));
        until("the cluster's default counts",
            () -> "7000".equals(shown(broker).get("log.retention.ms").value()));
        alter(all, op("log.retention.ms", "", OpType.DELETE));
    }

    private static void recordsDeleted(String topic) throws Exception {
        create(topic, 1);
        fill(topic, 5);
        var place = new TopicPartition(topic, 0);
        var deleted = admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(3)));
        same(3L, deleted.lowWatermarks().get(place).get().lowWatermark(), "low watermark");
        same(List.of("3", "4"), values(everything(topic, "read_committed")), "what is left");
        refused(org.apache.kafka.common.errors.OffsetOutOfRangeException.class, () ->
            admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(6))).all().get());
        admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(-1))).all().get();
        same(List.of(), values(everything(topic, "read_committed")), "all are gone");
    }

    private static void offsets(String topic) throws Exception {
        create(topic, 1);
        try (var producer = producer(Map.of("linger.ms", "50"))) {
            for (var at : List.of(10, 30, 20)) {
                producer.send(new ProducerRecord<>(topic, 0, YEAR_2001 + at, null, "v"));
            }
        }
        try (var producer = transactional(topic)) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, YEAR_2001 + 1, null, "open")).get();
            same(0L, offset(topic, OffsetSpec.earliest()).offset(), "earliest");
            same(4L, offset(topic, OffsetSpec.latest()).offset(), "latest");
            same(1L, offset(topic, OffsetSpec.maxTimestamp()).offset(), "max timestamp");
            same(YEAR_2001 + 30, offset(topic, OffsetSpec.maxTimestamp()).timestamp(), "its time");
            same(1L, offset(topic, OffsetSpec.forTimestamp(YEAR_2001 + 11)).offset(), "by time");
            same(-1L, offset(topic, OffsetSpec.forTimestamp(YEAR_2001 + 31)).offset(), "too new");
            same(0L, offset(topic, OffsetSpec.earliestLocal()).offset(), "earliest local");
            var place = new TopicPartition(topic, 0);
            var committed = new ListOffsetsOptions(IsolationLevel.READ_COMMITTED);
            same(3L, admin.listOffsets(Map.of(place, OffsetSpec.latest()), committed)
                .partitionResult(place).get().offset(), "latest committed");
            producer.abortTransaction();
        }
    }

    private static ListOffsetsResult.ListOffsetsResultInfo offset(String topic, OffsetSpec spec)
            throws Exception {
        var place = new TopicPartition(topic, 0);
        return admin.listOffsets(Map.of(place, spec)).partitionResult(place).get();
    }

    private static void groups(String topic, String how) throws Exception {
        create(topic, 2);
        fill(topic, 3);
        var place = new TopicPartition(topic, 0);
        var kind = how.equals("consumer") ? GroupType.CONSUMER : GroupType.CLASSIC;
        try (var consumer = consumer(topic, how, Map.of("client.id", "the reader"))) {
            consumer.subscribe(List.of(topic));
            take(consumer, 3);
            pollUntil("it has both", () -> consumer.assignment().size() == 2, consumer);
            consumer.commitSync(Map.of(place, new OffsetAndMetadata(1)));
            var listed = admin.listGroups().all().get().stream()
                .filter(group -> group.groupId().equals(topic)).toList();
            same(1, listed.size(), "listed groups");
            same(Optional.of(kind), listed.get(0).type(), "its type");
            same(Optional.of(GroupState.STABLE), listed.get(0).groupState(), "its state");
            var described = admin.describeConsumerGroups(List.of(topic)).all().get().get(topic);
            same(GroupState.STABLE, described.groupState(), "state");
            same(kind, described.type(), "type");
            same(1, described.members().size(), "members");
            var member = described.members().iterator().next();
            same("the reader", member.clientId(), "client id");
            same(Set.of(place, new TopicPartition(topic, 1)),
                member.assignment().topicPartitions(), "assignment");
            refused(GroupNotEmptyException.class,
                () -> admin.deleteConsumerGroups(List.of(topic)).all().get());
            refused(GroupSubscribedToTopicException.class,
                () -> admin.deleteConsumerGroupOffsets(topic, Set.of(place)).all().get());
        }
        admin.alterConsumerGroupOffsets(topic, Map.of(place, new OffsetAndMetadata(2))).all().get();
        var found = admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get();
        same(2L, found.get(place).offset(), "altered offset");
        admin.deleteConsumerGroupOffsets(topic, Set.of(place)).all().get();
        found = admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get();
        check(found.get(place) == null, "the offset is gone");
        admin.alterConsumerGroupOffsets(topic, Map.of(place, new OffsetAndMetadata(2))).all().get();
        admin.deleteConsumerGroups(List.of(topic)).all().get();
        refused(GroupIdNotFoundException.class,
            () -> admin.deleteConsumerGroups(List.of(topic)).all().get());
        refused(GroupIdNotFoundException.class,
            () -> admin.describeConsumerGroups(List.of(topic)).all().get());
    }

    private static void transactions(String topic) throws Exception {
        create(topic, 2);
        var place = new TopicPartition(topic, 1);
        try (var producer = transactional(topic, Map.of("transaction.timeout.ms", "30000"))) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 1, null, "open")).get();
            var listed = admin.listTransactions().all().get().stream()
                .filter(one -> one.transactionalId().equals(topic)).toList();
            same(1, listed.size(), "listed");
            same(TransactionState.ONGOING, listed.get(0).state(), "state");
            var filtered = new ListTransactionsOptions()
                .filterStates(List.of(TransactionState.COMPLETE_COMMIT))
                .filterProducerIds(List.of(listed.get(0).producerId()));
            same(0, admin.listTransactions(filtered).all().get().size(), "of another state");
            var described = admin.describeTransactions(List.of(topic)).all().get().get(topic);
            same(Set.of(place), described.topicPartitions(), "its partitions");
            same(30_000L, described.transactionTimeoutMs(), "timeout");
            same(listed.get(0).producerId(), described.producerId(), "producer id");
            var seen = admin.describeProducers(Set.of(place)).partitionResult(place).get();
            same(1, seen.activeProducers().size(), "producers");
            var active = seen.activeProducers().get(0);
            same(described.producerId(), active.producerId(), "active producer");
            same(0L, active.currentTransactionStartOffset().getAsLong(), "start of its transaction");
            same(0, active.lastSequence(), "last sequence");
            producer.commitTransaction();
            until("it is complete", () ->
                get(admin.describeTransactions(List.of(topic)).all()).get(topic).state()
                    == TransactionState.COMPLETE_COMMIT);
        }
        refused(TransactionalIdNotFoundException.class,
            () -> admin.describeTransactions(List.of(topic + "-no")).all().get());
    }

    private static void fencedByAdmin(String topic) throws Exception {
        create(topic, 1);
        try (var producer = transactional(topic)) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "fenced")).get();
            admin.fenceProducers(List.of(topic)).all().get();
            refused(ProducerFencedException.class, producer::commitTransaction);
        }
        // A hanging transaction, ended by hand.
        var other = topic + "-other";
        try (var producer = transactional(other)) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "hanging")).get();
            fill(topic, 1);
            var place = new TopicPartition(topic, 0);
            var seen = admin.describeProducers(Set.of(place)).partitionResult(place).get();
            var hanging = seen.activeProducers().stream()
                .filter(one -> one.currentTransactionStartOffset().isPresent()).toList();
            same(1, hanging.size(), "hanging transactions");
            admin.abortTransaction(new AbortTransactionSpec(place, hanging.get(0).producerId(),
                (short) hanging.get(0).producerEpoch(),
                hanging.get(0).coordinatorEpoch().orElse(0))).all().get();
            same(List.of("0"), values(everything(topic, "read_committed")), "it is aborted");
            producer.close(Duration.ZERO);
        }
    }

    private static void reassignment(String topic) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, Map.of(0, List.of(1, 2))))).all().get();
        fill(topic, 10);
        var place = new TopicPartition(topic, 0);
        admin.alterPartitionReassignments(Map.of(place,
            Optional.of(new NewPartitionReassignment(List.of(3, 1))))).all().get();
        until("nothing is under way", () ->
            get(admin.listPartitionReassignments().reassignments()).isEmpty());
        until("the replicas are where they should be", () -> {
            var found = get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic)
                .partitions().get(0);
            return found.replicas().stream().map(Node::id).toList().equals(List.of(3, 1))
                && ids(found.isr()).equals(Set.of(1, 3));
        });
        same(numbers(10), values(everything(topic, "read_committed")), "records");
        refused(NoReassignmentInProgressException.class, () ->
            admin.alterPartitionReassignments(Map.of(place, Optional.empty())).all().get());
        refused(InvalidReplicaAssignmentException.class, () ->
            admin.alterPartitionReassignments(Map.of(place,
                Optional.of(new NewPartitionReassignment(List.of(1, 9))))).all().get());
    }

    private static void election(String topic) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, Map.of(0, List.of(1, 2, 3))))).all().get();
        var place = new TopicPartition(topic, 0);
        refused(ElectionNotNeededException.class, () ->
            admin.electLeaders(ElectionType.PREFERRED, Set.of(place)).all().get());
        // Another replica is preferred from now on.
        admin.alterPartitionReassignments(Map.of(place,
            Optional.of(new NewPartitionReassignment(List.of(2, 1, 3))))).all().get();
        until("nothing is under way", () ->
            get(admin.listPartitionReassignments().reassignments()).isEmpty());
        admin.electLeaders(ElectionType.PREFERRED, Set.of(place)).all().get();
        until("it leads", () -> get(admin.describeTopics(List.of(topic)).allTopicNames())
            .get(topic).partitions().get(0).leader().id() == 2);
    }

    private static void logDirs(String topic) throws Exception {
        create(topic, 2);
        fill(topic, 3);
        for (var broker : admin.describeLogDirs(List.of(1, 2, 3)).allDescriptions().get().entrySet()) {
            same(1, broker.getValue().size(), "directories");
            var replicas = broker.getValue().values().iterator().next().replicaInfos();
            check(replicas.get(new TopicPartition(topic, 0)).size() > 0, "there are bytes");
            same(0L, replicas.get(new TopicPartition(topic, 1)).size(), "there are none");
            same(false, replicas.get(new TopicPartition(topic, 0)).isFuture(), "is future");
        }
    }

    private static void cluster(String name) throws Exception {
        var described = admin.describeCluster();
        same(Set.of(1, 2, 3), ids(described.nodes().get()), "brokers");
        same(22, described.clusterId().get().length(), "length of the cluster's id");
        check(described.controller().get() != null, "someone is the controller");
        var features = admin.describeFeatures().featureMetadata().get().finalizedFeatures();
        same((short) 2, features.get("transaction.version").maxVersionLevel(), "transactions");
        same((short) 1, features.get("group.version").maxVersionLevel(), "groups");
        refused(SecurityDisabledException.class, () -> admin.describeAcls(
            org.apache.kafka.common.acl.AclBindingFilter.ANY).values().get());
    }

    // ── what the checks are made of ──

    private static void create(String topic, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 3))).all().get();
    }

    private static void fill(String topic, int count) throws Exception {
        try (var producer = producer(Map.of())) {
            for (int number = 0; number < count; number++) {
                producer.send(new ProducerRecord<>(topic, 0, null, "" + number));
            }
        }
    }

    private static KafkaProducer<String, String> producer(Map<String, String> more) {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.putAll(more);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private static KafkaProducer<String, String> transactional(String name) {
        return transactional(name, Map.of());
    }

    private static KafkaProducer<String, String> transactional(
            String name, Map<String, String> more) {
        var chosen = new HashMap<>(more);
        chosen.put("transactional.id", name);
        var producer = producer(chosen);
        producer.initTransactions();
        return producer;
    }

    private static KafkaConsumer<String, String> consumer(String group, String how) {
        return consumer(group, how, Map.of());
    }

    private static KafkaConsumer<String, String> consumer(
            String group, String how, Map<String, String> more) {
        var properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("fetch.max.wait.ms", "100");
        properties.put("metadata.max.age.ms", "1000");
        if (how.equals("consumer")) {
            properties.put("group.protocol", "consumer");
        } else {
            properties.put("heartbeat.interval.ms", "100");
            properties.put("partition.assignment.strategy", how.equals("range")
                ? RangeAssignor.class.getName() : CooperativeStickyAssignor.class.getName());
        }
        properties.putAll(more);
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    // All records, up to where a reader may read.
    private static List<ConsumerRecord<String, String>> everything(String topic, String level) {
        var found = new ArrayList<ConsumerRecord<String, String>>();
        try (var consumer = consumer("-", "range", Map.of("isolation.level", level))) {
            var places = consumer.partitionsFor(topic).stream()
                .map(each -> new TopicPartition(topic, each.partition())).toList();
            consumer.assign(places);
            consumer.seekToBeginning(places);
            var ends = consumer.endOffsets(places);
            var deadline = System.nanoTime() + PATIENCE.toNanos();
            while (places.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                check(System.nanoTime() < deadline, "the end of " + topic + " was not reached");
                consumer.poll(Duration.ofMillis(100)).forEach(found::add);
            }
        }
        return found;
    }

    private static List<ConsumerRecord<String, String>> take(
            KafkaConsumer<String, String> consumer, int count) {
        var found = new ArrayList<ConsumerRecord<String, String>>();
        var deadline = System.nanoTime() + PATIENCE.toNanos();
        while (found.size() < count) {
            check(System.nanoTime() < deadline, "only " + found.size() + " of " + count);
            for (var one : consumer.poll(Duration.ofMillis(50))) {
                if (found.size() < count || count == 1) {
                    found.add(one);
                }
            }
        }
        return found;
    }

    @SafeVarargs
    private static void pollUntil(
            String what, BooleanSupplier done, KafkaConsumer<String, String>... consumers) {
        until(what, () -> {
            for (var consumer : consumers) {
                consumer.poll(Duration.ofMillis(20));
            }
            return done.getAsBoolean();
        });
    }

    private static void until(String what, BooleanSupplier done) {
        var deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!done.getAsBoolean()) {
            check(System.nanoTime() < deadline, "not in time: " + what);
            Thread.onSpinWait();
        }
    }

    private static <T> T get(KafkaFuture<T> future) {
        try {
            return future.get();
        } catch (InterruptedException | ExecutionException error) {
            throw new IllegalStateException(error);
        }
    }

    private static AlterConfigOp op(String name, String value, OpType how) {
        return new AlterConfigOp(new ConfigEntry(name, value), how);
    }

    private static void alter(ConfigResource resource, AlterConfigOp... changes) throws Exception {
        admin.incrementalAlterConfigs(Map.of(resource, List.of(changes))).all().get();
    }

    private static Config shown(ConfigResource resource) {
        return get(admin.describeConfigs(List.of(resource)).all()).get(resource);
    }

    private static List<String> values(List<ConsumerRecord<String, String>> records) {
        return records.stream().map(ConsumerRecord::value).toList();
    }

    private static List<String> numbers(int count) {
        return IntStream.range(0, count).mapToObj(String::valueOf).toList();
    }

    private static Set<Integer> ids(Collection<Node> nodes) {
        return nodes.stream().map(Node::id).collect(Collectors.toSet());
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    interface Doing {
        void run() throws Exception;
    }

    private static void refused(Class<? extends Throwable> expected, Doing what) {
        try {
            what.run();
        } catch (Exception | AssertionError error) {
            for (Throwable each = error; each != null; each = each.getCause()) {
                if (expected.isInstance(each)) {
                    return;
                }
            }
            throw new AssertionError(
                "expected " + expected.getSimpleName() + ", not " + told(error), error);
        }
        throw new AssertionError("expected " + expected.getSimpleName() + ", but it was done");
    }

    private static void same(Object expected, Object found, String what) {
        if (!java.util.Objects.equals(expected, found)) {
            throw new AssertionError(what + ": expected " + expected + ", found " + found);
        }
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static String told(Throwable error) {
        var text = new StringBuilder(error.toString());
        for (var each : error.getStackTrace()) {
            if (each.getClassName().startsWith("ClientChecks")) {
                text.append(" at line ").append(each.getLineNumber());
            }
        }
        for (var each = error.getCause(); each != null; each = each.getCause()) {
            text.append(" <- ").append(each);
        }
        return text.toString();
    }
}

import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.KafkaSourceBuilder;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Key and value as bytes, from the source's topic to the sink's. */
final class CopyJob {
    private CopyJob() {}

    static JobClient start(Contestant task, StreamExecutionEnvironment environment) throws Exception {
        KafkaSourceBuilder<ConsumerRecord<byte[], byte[]>> source =
                KafkaSource.<ConsumerRecord<byte[], byte[]>>builder()
                        .setBootstrapServers(task.bootstrap)
                        .setTopics(task.source)
                        .setGroupId(task.id)
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setDeserializer(new Received())
                        .setProperty("isolation.level", "read_committed")
                        .setProperty("partition.discovery.interval.ms", "-1");
        task.properties("consumer").forEach(source::setProperty);
        if (task.bounded) {
            source.setBounded(OffsetsInitializer.latest());
        }
        Properties producer = new Properties();
        producer.setProperty("transaction.timeout.ms", "600000");
        producer.putAll(task.properties("producer"));
        KafkaSink<ConsumerRecord<byte[], byte[]>> sink = KafkaSink.<ConsumerRecord<byte[], byte[]>>builder()
                .setKafkaProducerConfig(producer)
                .setBootstrapServers(task.bootstrap)
                .setDeliveryGuarantee(task.guarantee)
                .setTransactionalIdPrefix(task.id)
                .setRecordSerializer(new Sent(task.sink))
                .build();
        environment.fromSource(source.build(), WatermarkStrategy.noWatermarks(), "source").sinkTo(sink);
        return environment.executeAsync("copy");
    }

    private static final class Received implements KafkaRecordDeserializationSchema<ConsumerRecord<byte[], byte[]>> {
        @Override
        public void deserialize(
                ConsumerRecord<byte[], byte[]> record, Collector<ConsumerRecord<byte[], byte[]>> out) {
            out.collect(record);
        }

        @Override
        public TypeInformation<ConsumerRecord<byte[], byte[]>> getProducedType() {
            return TypeInformation.of(new TypeHint<ConsumerRecord<byte[], byte[]>>() {});
        }
    }

    private static final class Sent implements KafkaRecordSerializationSchema<ConsumerRecord<byte[], byte[]>> {
        private final String topic;

        Sent(String topic) {
            this.topic = topic;
        }

        @Override
        public ProducerRecord<byte[], byte[]> serialize(
                ConsumerRecord<byte[], byte[]> record, KafkaSinkContext context, Long timestamp) {
            return new ProducerRecord<>(topic, null, null, record.key(), record.value());
        }
    }
}

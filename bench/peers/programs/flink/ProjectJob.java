import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/** Orders in JSON: those with a large amount, three of their columns, by Flink SQL. */
final class ProjectJob {
    private ProjectJob() {}

    static JobClient start(Contestant task, StreamExecutionEnvironment environment) {
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        tables.executeSql(table(task, "orders",
                "id BIGINT, customer STRING, country STRING, amount DOUBLE, `at` STRING, note STRING",
                task.source, source(task)));
        tables.executeSql(
                table(task, "large_orders", "id BIGINT, customer STRING, amount DOUBLE", task.sink, sink(task)));
        return tables.executeSql("INSERT INTO large_orders SELECT id, customer, amount FROM orders WHERE amount > 50.0")
                .getJobClient()
                .orElseThrow();
    }

    static String table(Contestant task, String name, String columns, String topic, String options) {
        return "CREATE TABLE " + name + " (" + columns + ") WITH ('connector' = 'kafka', 'format' = 'json'"
                + option("topic", topic) + option("properties.bootstrap.servers", task.bootstrap) + options + ")";
    }

    static String source(Contestant task) {
        StringBuilder options = new StringBuilder();
        options.append(option("properties.group.id", task.id));
        options.append(option("properties.isolation.level", "read_committed"));
        options.append(option("scan.startup.mode", "earliest-offset"));
        options.append(option("scan.topic-partition-discovery.interval", "0"));
        if (task.bounded) {
            options.append(option("scan.bounded.mode", "latest-offset"));
        }
        task.properties("consumer").forEach((name, value) -> options.append(option("properties." + name, value)));
        return options.toString();
    }

    static String sink(Contestant task) {
        StringBuilder options = new StringBuilder();
        options.append(option("sink.delivery-guarantee", task.guarantee.toString()));
        options.append(option("sink.transactional-id-prefix", task.id));
        options.append(option("properties.transaction.timeout.ms", "600000"));
        task.properties("producer").forEach((name, value) -> options.append(option("properties." + name, value)));
        return options.toString();
    }

    private static String option(String name, String value) {
        return ", '" + name + "' = '" + value + "'";
    }
}

import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/** Events in JSON: counts of windows by id, or the first event of each id, by Flink SQL with state in RocksDB. */
final class KeyedJob {
    private KeyedJob() {}

    static JobClient start(Contestant task, StreamExecutionEnvironment environment) {
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        tables.executeSql(ProjectJob.table(
                task,
                "events",
                "id BIGINT, `at` BIGINT, note STRING, ts AS TO_TIMESTAMP_LTZ(`at`, 3), proc AS PROCTIME(),"
                        + " WATERMARK FOR ts AS ts - INTERVAL '10' SECOND",
                task.source,
                ProjectJob.source(task)));
        boolean counts = task.shape.equals("count");
        String columns = counts ? "id BIGINT, `start` TIMESTAMP(3), n BIGINT" : "id BIGINT";
        tables.executeSql(ProjectJob.table(task, "results", columns, task.sink, ProjectJob.sink(task)));
        String query = counts
                ? "SELECT id, window_start, COUNT(*)"
                        + " FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
                        + " WHERE `at` < 4102444800000 GROUP BY window_start, window_end, id"
                : "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY id ORDER BY proc ASC) AS n FROM events)"
                        + " WHERE n = 1";
        return tables.executeSql("INSERT INTO results " + query).getJobClient().orElseThrow();
    }
}

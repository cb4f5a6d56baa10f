import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Flink as a contestant: a local cluster in this JVM for each task of the standard input. The line of a task is described
 * in bench/peers/program.py; further options are {@code --consumer.KEY VALUE} and {@code --producer.KEY VALUE}.
 *
 * <p>The shape "copy" is a job of the DataStream API, the others are of Flink SQL. Objects are reused, checkpoints follow
 * each other at the interval, and partitions are not discovered. With {@code --checkpoints FOLDER} and {@code --id ID}
 * the job resumes from its newest checkpoint there. With {@code --state FOLDER} state is in RocksDB, and checkpoints are
 * incremental.
 */
public final class Contestant {
    private final Map<String, String> options = new HashMap<>();
    final String bootstrap;
    final String source;
    final String sink;
    final boolean bounded;
    final DeliveryGuarantee guarantee;
    final String shape;
    final String id;

    private Contestant(String line, int number) {
        String[] words = line.trim().split("\\s+");
        for (int i = 0; i + 1 < words.length; i += 2) {
            options.put(words[i].substring(2), words[i + 1]);
        }
        bootstrap = options.get("bootstrap");
        source = options.get("source");
        sink = options.get("sink");
        shape = options.get("shape");
        bounded = Long.parseLong(options.get("records")) > 0;
        String name = options.get("delivery-guarantee");
        guarantee = switch (name) {
            case "ExactlyOnce" -> DeliveryGuarantee.EXACTLY_ONCE;
            case "AtLeastOnce" -> DeliveryGuarantee.AT_LEAST_ONCE;
            default -> throw new IllegalArgumentException(name);
        };
        id = options.getOrDefault("id", "flink-" + ProcessHandle.current().pid() + "-" + number);
    }

    /** The properties of a Kafka client: those of the options with the prefix, without it. */
    Map<String, String> properties(String prefix) {
        Map<String, String> found = new TreeMap<>();
        options.forEach((name, value) -> {
            if (name.startsWith(prefix + ".")) {
                found.put(name.substring(prefix.length() + 1), value);
            }
        });
        return found;
    }

    private StreamExecutionEnvironment environment() throws IOException {
        Configuration configuration = new Configuration();
        configuration.setString("rest.bind-port", "0");
        String state = options.get("state");
        if (state != null) {
            configuration.setString("state.backend.type", "rocksdb");
            configuration.setString("execution.checkpointing.incremental", "true");
            configuration.setString("execution.checkpointing.dir", "file://" + state);
            configuration.setString("taskmanager.memory.managed.size", options.get("state-memory"));
        }
        String checkpoints = options.get("checkpoints");
        if (checkpoints != null) {
            configuration.setString("execution.checkpointing.dir", "file://" + checkpoints);
            configuration.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
            Optional<Path> last = last(Path.of(checkpoints));
            last.ifPresent(found -> configuration.setString("execution.state-recovery.path", "file://" + found));
        }
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(
                Integer.parseInt(options.get("parallelism")), configuration);
        environment.getConfig().enableObjectReuse();
        environment.enableCheckpointing(Long.parseLong(options.get("interval-millis")));
        environment.getCheckpointConfig().setMinPauseBetweenCheckpoints(0);
        return environment;
    }

    /** The newest complete checkpoint in a folder of jobs: the file with its metadata is written last. */
    private static Optional<Path> last(Path checkpoints) throws IOException {
        try (Stream<Path> files = Files.walk(checkpoints)) {
            return files.filter(file -> file.endsWith("_metadata"))
                    .max(Comparator.comparingLong(file -> file.toFile().lastModified()))
                    .map(Path::getParent);
        }
    }

    /** Runs the task to its end, or to the next line of the input. */
    private void run(BufferedReader input) throws Exception {
        JobClient job = switch (shape) {
            case "project" -> ProjectJob.start(this, environment());
            case "count", "deduplicate" -> KeyedJob.start(this, environment());
            case "copy" -> CopyJob.start(this, environment());
            default -> throw new IllegalArgumentException(shape);
        };
        if (!bounded) {
            input.readLine();
            job.cancel().get();
            return;
        }
        job.getJobExecutionResult().get();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        int number = 0;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                new Contestant(line, number++).run(input);
            } catch (Exception failure) {
                failure.printStackTrace();
                System.exit(1);
            }
            System.out.printf(Locale.ROOT, "ANSWER {\"ended\": %.6f}%n", System.nanoTime() / 1e9);
            System.out.flush();
        }
        System.exit(0); // nothing that a local cluster leaves behind is waited for
    }
}

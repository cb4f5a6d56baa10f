/* Kafka to Kafka in C on librdkafka, without an engine: the practical limit of whatever is built on librdkafka.
 *
 * It reads tasks as bench/peers/program.py writes them. Each thread has one consumer, assigned every n-th partition,
 * and one producer. A batch of records goes to rd_kafka_produce_batch as it came; values are copied once.
 *
 * ExactlyOnce: transactions of interval-millis with the group's offsets inside. AtLeastOnce: an idempotent producer;
 * every interval-millis it flushes, then commits the offsets of the group. It stops at the end offsets of its start, or
 * with --records 0 at the next line of the standard input. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "librdkafka.h"

#define BATCH 8192
#define MAX_PARTITIONS 1024
#define MAX_THREADS 64
#define TIMEOUT_MILLIS 60000

struct task {
    const char *bootstrap, *source, *sink, *consumer_wait, *linger;
    int exactly_once, threads, bounded, partitions;
    double interval;
    int64_t low[MAX_PARTITIONS], high[MAX_PARTITIONS];
    char id[64];
};
struct worker {
    const struct task *task;
    int number;
    double ended;
};
static atomic_int stopped, undelivered;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what, const char *why) {
    fprintf(stderr, "c_loop: %s: %s\n", what, why);
    exit(1);
}

static void expect_no_error(rd_kafka_error_t *error, const char *what) {
    if (error) {
        die(what, rd_kafka_error_string(error));
    }
}

static void delivered(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err && atomic_fetch_add(&undelivered, 1) == 0) {
        fprintf(stderr, "c_loop: delivery: %s\n", rd_kafka_err2str(message->err));
    }
}

/* A client with the properties, which end with NULL. */
static rd_kafka_t *open_client(rd_kafka_type_t type, const char *const *properties) {
    char text[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    for (; *properties; properties += 2) {
        if (rd_kafka_conf_set(conf, properties[0], properties[1], text, sizeof text) != RD_KAFKA_CONF_OK) {
            die(properties[0], text);
        }
    }
    if (type == RD_KAFKA_PRODUCER) {
        rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    }
    rd_kafka_t *client = rd_kafka_new(type, conf, text, sizeof text);
    if (!client) {
        die("client", text);
    }
    return client;
}

static rd_kafka_t *open_consumer(const struct task *task) {
    const char *const properties[] = {
        "bootstrap.servers", task->bootstrap, "group.id", task->id, "isolation.level", "read_committed",
        "enable.auto.commit", "false", "enable.auto.offset.store", "false", "enable.partition.eof", "true",
        "auto.offset.reset", "error", "queued.min.messages", "20000", "queued.max.messages.kbytes", "8192",
        "fetch.queue.backoff.ms", "5", "fetch.wait.max.ms", task->consumer_wait,
        "socket.receive.buffer.bytes", "1048576", NULL};
    rd_kafka_t *consumer = open_client(RD_KAFKA_CONSUMER, properties);
    rd_kafka_poll_set_consumer(consumer);
    return consumer;
}

static rd_kafka_t *open_producer(const struct task *task, int number) {
    char name[96];
    snprintf(name, sizeof name, "%s-%d", task->id, number);
    const char *const properties[] = {
        "bootstrap.servers", task->bootstrap, "enable.idempotence", "true", "linger.ms", task->linger,
        "batch.num.messages", "10000", "batch.size", "1048576", "queue.buffering.max.messages", "100000",
        "queue.buffering.max.kbytes", "16384", "socket.send.buffer.bytes", "1048576", "partitioner", "murmur2_random",
        "delivery.report.only.error", "true", task->exactly_once ? "transactional.id" : NULL, name, NULL};
    rd_kafka_t *producer = open_client(RD_KAFKA_PRODUCER, properties);
    if (task->exactly_once) {
        expect_no_error(rd_kafka_init_transactions(producer, TIMEOUT_MILLIS), "init_transactions");
        expect_no_error(rd_kafka_begin_transaction(producer), "begin_transaction");
    }
    return producer;
}

static void commit(const struct task *task, rd_kafka_t *consumer, rd_kafka_t *producer,
                   const rd_kafka_consumer_group_metadata_t *group, const rd_kafka_topic_partition_list_t *next) {
    if (task->exactly_once) {
        expect_no_error(rd_kafka_send_offsets_to_transaction(producer, next, group, TIMEOUT_MILLIS), "send_offsets");
        expect_no_error(rd_kafka_commit_transaction(producer, TIMEOUT_MILLIS), "commit_transaction");
        return;
    }
    if (rd_kafka_flush(producer, TIMEOUT_MILLIS) || atomic_load(&undelivered)) {
        die("flush", "not every record was delivered");
    }
    rd_kafka_resp_err_t error = rd_kafka_commit(consumer, next, 0);
    if (error) {
        die("commit", rd_kafka_err2str(error));
    }
}

/* The partitions of one thread, from their first record to the last commit. */
static void *work(void *argument) {
    struct worker *worker = argument;
    const struct task *task = worker->task;
    rd_kafka_t *consumer = open_consumer(task), *producer = open_producer(task, worker->number);
    rd_kafka_topic_partition_list_t *next = rd_kafka_topic_partition_list_new(task->partitions);
    rd_kafka_topic_partition_t *of_partition[MAX_PARTITIONS] = {0};
    int left = 0; /* partitions that are not read to their end */
    for (int p = worker->number; p < task->partitions; p += task->threads) {
        rd_kafka_topic_partition_list_add(next, task->source, p)->offset = task->low[p];
        left += !task->bounded || task->low[p] < task->high[p];
    }
    for (int i = 0; i < next->cnt; i++) {
        of_partition[next->elems[i].partition] = &next->elems[i];
    }
    if (rd_kafka_assign(consumer, next)) {
        die("assign", task->source);
    }
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(consumer);
    rd_kafka_topic_t *sink = rd_kafka_topic_new(producer, task->sink, NULL);
    rd_kafka_consumer_group_metadata_t *group = rd_kafka_consumer_group_metadata(consumer);
    rd_kafka_message_t **in = malloc(BATCH * sizeof *in), *out = malloc(BATCH * sizeof *out);
    int64_t uncommitted = 0;
    double due = now() + task->interval;
    for (;;) {
        /* The call returns with a full batch or after its wait, so records of a slow source wait that long. */
        double wait = due - now(), longest = task->bounded ? 0.05 : 0.005;
        int millis = wait < 0 ? 0 : (int)((wait < longest ? wait : longest) * 1000) + 1;
        ssize_t got = left ? rd_kafka_consume_batch_queue(queue, millis, in, BATCH) : 0;
        int count = 0;
        for (ssize_t i = 0; i < got; i++) {
            const rd_kafka_message_t *record = in[i];
            if (record->err && record->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
                die("consume", rd_kafka_message_errstr(record));
            }
            int64_t end = task->high[record->partition];
            if (record->err || (task->bounded && record->offset >= end)) {
                continue;
            }
            out[count++] = (rd_kafka_message_t){
                .payload = record->payload, .len = record->len, .key = record->key, .key_len = record->key_len};
            of_partition[record->partition]->offset = record->offset + 1;
            left -= task->bounded && record->offset + 1 == end;
        }
        if (count && rd_kafka_produce_batch(sink, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY | RD_KAFKA_MSG_F_BLOCK,
                                            out, count) != count) {
            die("produce_batch", task->sink);
        }
        uncommitted += count;
        for (ssize_t i = 0; i < got; i++) {
            rd_kafka_message_destroy(in[i]);
        }
        rd_kafka_poll(producer, 0);
        int ends = !left || (!task->bounded && atomic_load(&stopped));
        if (now() < due && !ends) {
            continue;
        }
        if (uncommitted) {
            commit(task, consumer, producer, group, next);
            worker->ended = now();
            if (task->exactly_once && !ends) {
                expect_no_error(rd_kafka_begin_transaction(producer), "begin_transaction");
            }
        }
        if (ends) {
            break;
        }
        uncommitted = 0;
        due = now() + task->interval;
    }
    free(out);
    free(in);
    rd_kafka_consumer_group_metadata_destroy(group);
    rd_kafka_topic_destroy(sink);
    rd_kafka_queue_destroy(queue);
    rd_kafka_topic_partition_list_destroy(next);
    rd_kafka_destroy(producer);
    rd_kafka_destroy_flags(consumer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    return NULL;
}

static void look_up_partitions(struct task *task) {
    rd_kafka_t *consumer = open_consumer(task);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(consumer, task->source, NULL);
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t error = rd_kafka_metadata(consumer, 0, topic, &metadata, TIMEOUT_MILLIS);
    if (error || metadata->topic_cnt != 1) {
        die("metadata", task->source);
    }
    task->partitions = metadata->topics[0].partition_cnt;
    if (task->partitions < 1 || task->partitions > MAX_PARTITIONS) {
        die("partitions", task->source);
    }
    rd_kafka_metadata_destroy(metadata);
    for (int p = 0; p < task->partitions; p++) {
        error = rd_kafka_query_watermark_offsets(consumer, task->source, p, &task->low[p], &task->high[p], TIMEOUT_MILLIS);
        if (error) {
            die("offsets", rd_kafka_err2str(error));
        }
    }
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy_flags(consumer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

static void run(char *line, int number) {
    struct task task = {.consumer_wait = "50", .linger = "5", .threads = 1, .interval = 1};
    char *rest = line, *name, *value;
    while ((name = strtok_r(rest, " \n", &rest)) && (value = strtok_r(rest, " \n", &rest))) {
        if (!strcmp(name, "--bootstrap")) task.bootstrap = value;
        else if (!strcmp(name, "--source")) task.source = value;
        else if (!strcmp(name, "--sink")) task.sink = value;
        else if (!strcmp(name, "--records")) task.bounded = atoll(value) > 0;
        else if (!strcmp(name, "--delivery-guarantee")) task.exactly_once = !strcmp(value, "ExactlyOnce");
        else if (!strcmp(name, "--parallelism")) task.threads = atoi(value);
        else if (!strcmp(name, "--interval-millis")) task.interval = atof(value) / 1000;
        else if (!strcmp(name, "--fetch-wait-millis")) task.consumer_wait = value;
        else if (!strcmp(name, "--linger-millis")) task.linger = value;
    }
    if (!task.bootstrap || !task.source || !task.sink || task.threads < 1 || task.threads > MAX_THREADS) {
        die("a task needs", "--bootstrap --source --sink, and 1 to 64 as --parallelism");
    }
    snprintf(task.id, sizeof task.id, "c-loop-%d-%d-%ld", (int)getpid(), number, (long)time(NULL));
    atomic_store(&stopped, 0);
    look_up_partitions(&task);
    pthread_t threads[MAX_THREADS];
    struct worker workers[MAX_THREADS];
    for (int i = 0; i < task.threads; i++) {
        workers[i] = (struct worker){.task = &task, .number = i, .ended = now()};
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    if (!task.bounded) {
        while (getchar() != '\n' && !feof(stdin)) {
        }
        atomic_store(&stopped, 1);
    }
    double ended = 0;
    for (int i = 0; i < task.threads; i++) {
        pthread_join(threads[i], NULL);
        ended = workers[i].ended > ended ? workers[i].ended : ended;
    }
    if (atomic_load(&undelivered)) {
        die("delivery", "not every record was delivered");
    }
    printf("ANSWER {\"ended\": %.6f}\n", ended);
    fflush(stdout);
}

int main(void) {
    char *line = NULL;
    size_t size = 0;
    for (int number = 0; getline(&line, &size, stdin) > 0; number++) {
        run(line, number);
    }
    return 0;
}

/* The part of librdkafka's public C interface that the extension uses.
 *
 * The library comes with the confluent-kafka wheel and is opened at run time. The build therefore needs neither its
 * header nor its development package. These declarations are public, and their layout is stable since librdkafka 1.9
 * (sasl_background_callbacks_enable); rdkafka_load() refuses older releases. A test has the compiler compare them with
 * librdkafka's header (tests/unit/sparkapp/dataplane/test_prototypes.py). */
#ifndef KAFKASPARK_RDKAFKA_H
#define KAFKASPARK_RDKAFKA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct rd_kafka_consumer_group_metadata_s rd_kafka_consumer_group_metadata_t;
/* Enums in librdkafka's header; they have the size of int. */
typedef int rd_kafka_resp_err_t;
typedef int rd_kafka_type_t;
typedef int rd_kafka_conf_res_t;
typedef int rd_kafka_timestamp_type_t;

enum { RD_KAFKA_PRODUCER = 0, RD_KAFKA_CONSUMER = 1 };
enum { RD_KAFKA_CONF_OK = 0 };
enum { RD_KAFKA_PARTITION_UA = -1 };
enum {
    RD_KAFKA_RESP_ERR_NO_ERROR = 0,
    RD_KAFKA_RESP_ERR__FATAL = -150,
    RD_KAFKA_RESP_ERR__CONFLICT = -173,
    RD_KAFKA_RESP_ERR__QUEUE_FULL = -184,
    RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION = -190,
    RD_KAFKA_RESP_ERR__PARTITION_EOF = -191,
    RD_KAFKA_RESP_ERR__TRANSPORT = -195,
};
enum { RD_KAFKA_MSG_F_COPY = 0x2 };
enum { RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE = 0x8 };
enum { RD_KAFKA_PURGE_F_QUEUE = 1, RD_KAFKA_PURGE_F_INFLIGHT = 2, RD_KAFKA_PURGE_F_NON_BLOCKING = 4 };
enum { RD_KAFKA_TIMESTAMP_NOT_AVAILABLE = 0 };

typedef struct rd_kafka_message_s {
    rd_kafka_resp_err_t err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload; /* of an error: the error's text */
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

typedef struct rd_kafka_topic_partition_s {
    char *topic;
    int32_t partition;
    int64_t offset;
    void *metadata;
    size_t metadata_size;
    void *opaque;
    rd_kafka_resp_err_t err;
    void *_private;
} rd_kafka_topic_partition_t;

typedef struct rd_kafka_topic_partition_list_s {
    int cnt;
    int size;
    rd_kafka_topic_partition_t *elems;
} rd_kafka_topic_partition_list_t;

struct rd_kafka_metadata_broker;
struct rd_kafka_metadata_partition;
typedef struct rd_kafka_metadata_topic {
    char *topic;
    int partition_cnt;
    struct rd_kafka_metadata_partition *partitions;
    rd_kafka_resp_err_t err;
} rd_kafka_metadata_topic_t;

typedef struct rd_kafka_metadata {
    int broker_cnt;
    struct rd_kafka_metadata_broker *brokers;
    int topic_cnt;
    rd_kafka_metadata_topic_t *topics;
    int32_t orig_broker_id;
    char *orig_broker_name;
} rd_kafka_metadata_t;

typedef enum rd_kafka_vtype_t {
    RD_KAFKA_VTYPE_END,
    RD_KAFKA_VTYPE_TOPIC,
    RD_KAFKA_VTYPE_RKT,
    RD_KAFKA_VTYPE_PARTITION,
    RD_KAFKA_VTYPE_VALUE,
    RD_KAFKA_VTYPE_KEY,
    RD_KAFKA_VTYPE_OPAQUE,
    RD_KAFKA_VTYPE_MSGFLAGS,
    RD_KAFKA_VTYPE_TIMESTAMP,
    RD_KAFKA_VTYPE_HEADER,
    RD_KAFKA_VTYPE_HEADERS,
} rd_kafka_vtype_t;

typedef struct rd_kafka_vu_s {
    rd_kafka_vtype_t vtype;
    union {
        const char *cstr;
        rd_kafka_topic_t *rkt;
        int i;
        int32_t i32;
        int64_t i64;
        struct {
            void *ptr;
            size_t size;
        } mem;
        rd_kafka_headers_t *headers;
        void *ptr;
        char _pad[64];
    } u;
} rd_kafka_vu_t;

typedef void rd_kafka_error_cb(rd_kafka_t *, int err, const char *reason, void *opaque);
typedef void rd_kafka_dr_msg_cb(rd_kafka_t *, const rd_kafka_message_t *, void *opaque);
typedef void rd_kafka_event_cb(rd_kafka_t *, void *opaque);
typedef int rd_kafka_stats_cb(rd_kafka_t *, char *json, size_t json_len, void *opaque);
typedef void rd_kafka_token_refresh_cb(rd_kafka_t *, const char *oauthbearer_config, void *opaque);
typedef rd_kafka_resp_err_t rd_kafka_on_new_cb(rd_kafka_t *, const rd_kafka_conf_t *, void *opaque, char *, size_t);
typedef rd_kafka_resp_err_t rd_kafka_on_request_sent_cb(rd_kafka_t *, int socket, const char *broker_name, int32_t broker_id, int16_t api_key, int16_t api_version, int32_t correlation_id, size_t size, void *opaque);
typedef int32_t rd_kafka_partitioner_cb(const rd_kafka_topic_t *, const void *key, size_t size, int32_t partitions, void *rkt_opaque, void *msg_opaque);
typedef void rd_kafka_throttle_cb(rd_kafka_t *, const char *broker_name, int32_t broker_id, int throttle_time_ms, void *opaque);

/* X(result, name without rd_kafka_, parameters) */
#define RDKAFKA_FUNCTIONS(X)                                                                                          \
    X(int, version, (void))                                                                                          \
    X(const char *, err2str, (rd_kafka_resp_err_t))                                                                  \
    X(rd_kafka_resp_err_t, last_error, (void))                                                                       \
    X(rd_kafka_resp_err_t, fatal_error, (rd_kafka_t *, char *, size_t))                                              \
    X(rd_kafka_resp_err_t, error_code, (const rd_kafka_error_t *))                                                   \
    X(const char *, error_string, (const rd_kafka_error_t *))                                                        \
    X(int, error_is_retriable, (const rd_kafka_error_t *))                                                           \
    X(void, error_destroy, (rd_kafka_error_t *))                                                                     \
    X(rd_kafka_conf_t *, conf_new, (void))                                                                           \
    X(void, conf_destroy, (rd_kafka_conf_t *))                                                                       \
    X(rd_kafka_conf_res_t, conf_set, (rd_kafka_conf_t *, const char *, const char *, char *, size_t))                \
    X(void, conf_set_opaque, (rd_kafka_conf_t *, void *))                                                            \
    X(void, conf_set_error_cb, (rd_kafka_conf_t *, rd_kafka_error_cb *))                                             \
    X(void, conf_set_dr_msg_cb, (rd_kafka_conf_t *, rd_kafka_dr_msg_cb *))                                           \
    X(void, conf_set_stats_cb, (rd_kafka_conf_t *, rd_kafka_stats_cb *))                                             \
    X(void, conf_set_throttle_cb, (rd_kafka_conf_t *, rd_kafka_throttle_cb *))                                       \
    X(rd_kafka_topic_conf_t *, conf_get_default_topic_conf, (rd_kafka_conf_t *))                                     \
    X(void, topic_conf_set_partitioner_cb, (rd_kafka_topic_conf_t *, rd_kafka_partitioner_cb *))                     \
    X(void, conf_set_oauthbearer_token_refresh_cb, (rd_kafka_conf_t *, rd_kafka_token_refresh_cb *))                 \
    X(void, conf_enable_sasl_queue, (rd_kafka_conf_t *, int))                                                        \
    X(rd_kafka_resp_err_t, conf_interceptor_add_on_new,                                                              \
      (rd_kafka_conf_t *, const char *, rd_kafka_on_new_cb *, void *))                                               \
    X(rd_kafka_resp_err_t, interceptor_add_on_request_sent,                                                          \
      (rd_kafka_t *, const char *, rd_kafka_on_request_sent_cb *, void *))                                           \
    X(rd_kafka_error_t *, sasl_background_callbacks_enable, (rd_kafka_t *))                                          \
    X(rd_kafka_resp_err_t, oauthbearer_set_token,                                                                    \
      (rd_kafka_t *, const char *, int64_t, const char *, const char **, size_t, char *, size_t))                    \
    X(rd_kafka_resp_err_t, oauthbearer_set_token_failure, (rd_kafka_t *, const char *))                              \
    X(rd_kafka_t *, new, (rd_kafka_type_t, rd_kafka_conf_t *, char *, size_t))                                       \
    X(void, destroy_flags, (rd_kafka_t *, int))                                                                      \
    X(int, poll, (rd_kafka_t *, int))                                                                                \
    X(int, brokers_add, (rd_kafka_t *, const char *))                                                                \
    X(int, outq_len, (rd_kafka_t *))                                                                                 \
    X(void *, mem_malloc, (rd_kafka_t *, size_t))                                                                    \
    X(rd_kafka_topic_t *, topic_new, (rd_kafka_t *, const char *, rd_kafka_topic_conf_t *))                          \
    X(void, topic_destroy, (rd_kafka_topic_t *))                                                                     \
    X(const char *, topic_name, (const rd_kafka_topic_t *))                                                          \
    X(rd_kafka_resp_err_t, metadata,                                                                                 \
      (rd_kafka_t *, int, rd_kafka_topic_t *, const rd_kafka_metadata_t **, int))                                    \
    X(void, metadata_destroy, (const rd_kafka_metadata_t *))                                                         \
    X(rd_kafka_topic_partition_list_t *, topic_partition_list_new, (int))                                            \
    X(rd_kafka_topic_partition_t *, topic_partition_list_add,                                                        \
      (rd_kafka_topic_partition_list_t *, const char *, int32_t))                                                    \
    X(void, topic_partition_list_destroy, (rd_kafka_topic_partition_list_t *))                                       \
    /* consumer */                                                                                                   \
    X(rd_kafka_resp_err_t, poll_set_consumer, (rd_kafka_t *))                                                        \
    X(rd_kafka_error_t *, incremental_assign, (rd_kafka_t *, const rd_kafka_topic_partition_list_t *))               \
    X(rd_kafka_error_t *, incremental_unassign, (rd_kafka_t *, const rd_kafka_topic_partition_list_t *))             \
    X(rd_kafka_queue_t *, queue_get_consumer, (rd_kafka_t *))                                                        \
    X(rd_kafka_queue_t *, queue_get_partition, (rd_kafka_t *, const char *, int32_t))                                \
    X(void, queue_forward, (rd_kafka_queue_t *, rd_kafka_queue_t *))                                                 \
    X(void, queue_cb_event_enable, (rd_kafka_queue_t *, rd_kafka_event_cb *, void *))                                \
    X(void, queue_destroy, (rd_kafka_queue_t *))                                                                     \
    X(rd_kafka_resp_err_t, get_watermark_offsets, (rd_kafka_t *, const char *, int32_t, int64_t *, int64_t *))       \
    X(ssize_t, consume_batch_queue, (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t))                        \
    X(void, message_destroy, (rd_kafka_message_t *))                                                                 \
    X(int64_t, message_timestamp, (const rd_kafka_message_t *, rd_kafka_timestamp_type_t *))                         \
    X(rd_kafka_resp_err_t, message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **))                     \
    X(rd_kafka_resp_err_t, header_get_all,                                                                           \
      (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *))                                  \
    /* producer */                                                                                                   \
    X(int, produce,                                                                                                  \
      (rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *))                              \
    X(int, produce_batch, (rd_kafka_topic_t *, int32_t, int, rd_kafka_message_t *, int))                             \
    X(int, topic_partition_available, (const rd_kafka_topic_t *, int32_t))                                           \
    X(int32_t, msg_partitioner_random,                                                                               \
      (const rd_kafka_topic_t *, const void *, size_t, int32_t, void *, void *))                                     \
    X(int32_t, msg_partitioner_murmur2,                                                                              \
      (const rd_kafka_topic_t *, const void *, size_t, int32_t, void *, void *))                                     \
    X(rd_kafka_error_t *, produceva, (rd_kafka_t *, const rd_kafka_vu_t *, size_t))                                  \
    X(rd_kafka_headers_t *, headers_new, (size_t))                                                                   \
    X(void, headers_destroy, (rd_kafka_headers_t *))                                                                 \
    X(rd_kafka_resp_err_t, header_add,                                                                               \
      (rd_kafka_headers_t *, const char *, ssize_t, const void *, ssize_t))                                          \
    X(const char *, message_produce_errstr, (const rd_kafka_message_t *))                                            \
    X(rd_kafka_resp_err_t, flush, (rd_kafka_t *, int))                                                               \
    X(rd_kafka_resp_err_t, purge, (rd_kafka_t *, int))                                                               \
    X(rd_kafka_error_t *, init_transactions, (rd_kafka_t *, int))                                                    \
    X(rd_kafka_error_t *, begin_transaction, (rd_kafka_t *))                                                         \
    X(rd_kafka_error_t *, send_offsets_to_transaction,                                                               \
      (rd_kafka_t *, const rd_kafka_topic_partition_list_t *, const rd_kafka_consumer_group_metadata_t *, int))      \
    X(rd_kafka_error_t *, commit_transaction, (rd_kafka_t *, int))                                                   \
    X(rd_kafka_error_t *, abort_transaction, (rd_kafka_t *, int))                                                    \
    X(rd_kafka_consumer_group_metadata_t *, consumer_group_metadata_new, (const char *))                             \
    X(void, consumer_group_metadata_destroy, (rd_kafka_consumer_group_metadata_t *))

#define RDKAFKA_POINTER(result, name, parameters) result(*name) parameters;
struct rdkafka {
    RDKAFKA_FUNCTIONS(RDKAFKA_POINTER)
};
#undef RDKAFKA_POINTER

/* The functions, once rdkafka_load() has returned NULL. */
extern struct rdkafka rdkafka;

/* Opens the library at a path and finds every function; returns an error text, or NULL. A repeated call does nothing.
 * Called by the module's load(). */
const char *rdkafka_load(const char *path);

#endif

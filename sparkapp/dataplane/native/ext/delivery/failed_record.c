#include "failed_record.h"

#include <dlfcn.h>
#include <string.h>

enum { MSG_SIZE_TOO_LARGE = 10 };

/* CRC-32 as zlib's, a bit at a time: once for each failure that is kept. */
static uint32_t crc_of(Bytes bytes) {
    uint32_t crc = 0xffffffffu;
    for (size_t index = 0; index < bytes.size; index++) {
        crc ^= bytes.data[index];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (0xedb88320u & -(crc & 1));
        }
    }
    return ~crc;
}

/* librdkafka says by a constant of its own that another record is at fault. The record at fault has the broker's text.
 * Only the addresses are looked at: librdkafka has freed the broker's text by now. */
static bool is_bystander(const rd_kafka_message_t *message) {
    const char *text = rdkafka.message_produce_errstr(message);
    Dl_info place;
    return text != NULL && text != rdkafka.err2str(message->err) && dladdr(text, &place) != 0;
}

void failed_record_keep(FailedRecord *record, Bytes topic, int32_t partition, Bytes key, Bytes value) {
    memset(record, 0, sizeof *record);
    if (topic.data != NULL) {
        memcpy(record->topic, topic.data, topic.size < LONGEST_TOPIC ? topic.size : LONGEST_TOPIC);
    }
    record->partition = partition;
    record->key_size = key.data == NULL ? -1 : (int64_t)key.size;
    record->value_size = value.data == NULL ? -1 : (int64_t)value.size;
    if (key.data != NULL && key.size > 0) {
        memcpy(record->key, key.data, key.size < KEY_KEPT ? key.size : KEY_KEPT);
    }
    record->value_crc = value.data == NULL ? 0 : crc_of(value);
}

void failed_record_keep_message(FailedRecord *record, const rd_kafka_message_t *message) {
    const char *topic = rdkafka.topic_name(message->rkt);
    failed_record_keep(record, (Bytes){(const uint8_t *)topic, strlen(topic)}, message->partition,
                       (Bytes){message->key, message->key_len}, (Bytes){message->payload, message->len});
    record->is_bystander = is_bystander(message);
}

bool failed_record_is_better(const FailedRecord *kept, const rd_kafka_message_t *message) {
    if (message->err == MSG_SIZE_TOO_LARGE) {
        int64_t size = (kept->key_size > 0 ? kept->key_size : 0) + (kept->value_size > 0 ? kept->value_size : 0);
        return (int64_t)(message->key_len + message->len) > size;
    }
    return kept->is_bystander && !is_bystander(message);
}

PyObject *failed_record_take(const FailedRecord *record) {
    if (record->topic[0] == '\0') {
        Py_RETURN_NONE;
    }
    PyObject *topic = PyUnicode_DecodeUTF8(record->topic, (Py_ssize_t)strlen(record->topic), "replace");
    Py_ssize_t kept = record->key_size < KEY_KEPT ? (Py_ssize_t)record->key_size : KEY_KEPT;
    return topic == NULL ? NULL
                         : Py_BuildValue("(Niy#LLI)", topic, (int)record->partition,
                                         record->key_size < 0 ? NULL : (const char *)record->key,
                                         kept < 0 ? (Py_ssize_t)0 : kept, (long long)record->key_size,
                                         (long long)record->value_size, record->value_crc);
}

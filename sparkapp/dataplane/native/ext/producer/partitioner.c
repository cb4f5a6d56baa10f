#include "partitioner.h"

static _Thread_local Choice last = {.sticky = RD_KAFKA_PARTITION_UA};

void partitioner_move_on(void) { last.sticky = RD_KAFKA_PARTITION_UA; }

void partitioner_forget(void) { last.partitions = 0; }

Choice partitioner_choice(void) { return last; }

int32_t partitioner_call(const rd_kafka_topic_t *rkt, const void *key, size_t size, int32_t partitions,
                         void *topic_opaque, void *message_opaque) {
    last.partitions = partitions;
    /* For each record, also with a key: a later record without key takes it from the choice. */
    if (last.sticky < 0 || last.sticky >= partitions || !rdkafka.topic_partition_available(rkt, last.sticky)) {
        last.sticky = rdkafka.msg_partitioner_random(rkt, key, size, partitions, topic_opaque, message_opaque);
    }
    return partitioner_of(last, (Bytes){key, size});
}

int32_t partitioner_of(Choice choice, Bytes key) {
    return key.data == NULL ? choice.sticky
                            : rdkafka.msg_partitioner_murmur2(NULL, key.data, key.size, choice.partitions, NULL, NULL);
}

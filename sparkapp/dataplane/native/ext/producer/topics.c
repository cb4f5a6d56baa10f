#include "topics.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool is_named(const TopicHandle *handle, const void *name, size_t size) {
    return handle->size == size && memcmp(handle->name, name, size) == 0;
}

static size_t bucket_of(const uint8_t *name, size_t size) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t index = 0; index < size; index++) {
        hash = (hash ^ name[index]) * 16777619u;
    }
    return hash % TOPIC_BUCKETS;
}

rd_kafka_topic_t *topics_get(Topics *topics, rd_kafka_t *rk, const void *name, size_t size) {
    if (topics->last != NULL && is_named(topics->last, name, size)) {
        return topics->last->rkt;
    }
    size_t bucket = bucket_of(name, size);
    for (TopicHandle *handle = topics->buckets[bucket]; handle != NULL; handle = handle->next) {
        if (is_named(handle, name, size)) {
            topics->last = handle;
            return handle->rkt;
        }
    }
    if (size == 0 || size > LONGEST_TOPIC || memchr(name, '\0', size) != NULL) {
        return NULL;
    }
    TopicHandle *handle = malloc(sizeof *handle + size + 1);
    if (handle == NULL) {
        return NULL;
    }
    memcpy(handle->name, name, size);
    handle->name[size] = '\0';
    handle->size = size;
    handle->rkt = rdkafka.topic_new(rk, handle->name, NULL);
    if (handle->rkt == NULL) {
        free(handle);
        return NULL;
    }
    handle->next = topics->buckets[bucket];
    topics->buckets[bucket] = topics->last = handle;
    return handle->rkt;
}

void topics_clear(Topics *topics) {
    for (size_t bucket = 0; bucket < TOPIC_BUCKETS; bucket++) {
        for (TopicHandle *handle = topics->buckets[bucket], *next; handle != NULL; handle = next) {
            next = handle->next;
            rdkafka.topic_destroy(handle->rkt);
            free(handle);
        }
    }
    memset(topics, 0, sizeof *topics);
}

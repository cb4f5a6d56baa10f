#include "partition_set.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

/* The slot of a partition, or the free slot that it would take. */
static PartitionOfTopic *slot_of(PartitionOfTopic *slots, size_t capacity, PartitionOfTopic wanted) {
    uint64_t hash = ((uintptr_t)wanted.rkt + (uint32_t)wanted.partition) * UINT64_C(0x9E3779B97F4A7C15); /* Fibonacci */
    size_t index = (size_t)(hash >> 32) & (capacity - 1);
    while (slots[index].rkt != NULL && (slots[index].rkt != wanted.rkt || slots[index].partition != wanted.partition)) {
        index = (index + 1) & (capacity - 1);
    }
    return &slots[index];
}

static bool grow(PartitionSet *set) {
    size_t capacity = set->capacity == 0 ? FIRST_CAPACITY : 2 * set->capacity;
    PartitionOfTopic *slots = calloc(capacity, sizeof *slots);
    if (slots == NULL) {
        return false;
    }
    for (size_t index = 0; index < set->capacity; index++) {
        if (set->slots[index].rkt != NULL) {
            *slot_of(slots, capacity, set->slots[index]) = set->slots[index];
        }
    }
    free(set->slots);
    set->slots = slots;
    set->capacity = capacity;
    return true;
}

bool partition_set_insert(PartitionSet *set, PartitionOfTopic added) {
    if (2 * set->count >= set->capacity && !grow(set)) {
        return false;
    }
    PartitionOfTopic *slot = slot_of(set->slots, set->capacity, added);
    set->count += slot->rkt == NULL;
    *slot = set->last = added;
    return true;
}

void partition_set_free(PartitionSet *set) {
    free(set->slots);
    memset(set, 0, sizeof *set);
}

#include "buffer.h"

#include <stdlib.h>
#include <string.h>

enum { SMALLEST = 256 };

uint8_t *buffer_extend(Buffer *buffer, size_t more) {
    size_t wanted = buffer->length + more;
    if (wanted > buffer->capacity) {
        size_t capacity = buffer->capacity < SMALLEST ? SMALLEST : buffer->capacity;
        while (capacity < wanted) {
            capacity *= 2;
        }
        uint8_t *data = buffer->exhausted ? NULL : realloc(buffer->data, capacity);
        if (data == NULL) {
            buffer->exhausted = true;
            return NULL;
        }
        buffer->data = data;
        buffer->capacity = capacity;
    }
    uint8_t *room = buffer->data + buffer->length;
    buffer->length = wanted;
    return room;
}

void buffer_append(Buffer *buffer, const void *data, size_t size) {
    uint8_t *room = buffer_extend(buffer, size);
    if (room != NULL && size > 0) {
        memcpy(room, data, size);
    }
}

void buffer_free(Buffer *buffer) {
    free(buffer->data);
    memset(buffer, 0, sizeof *buffer);
}

void validity_append(Validity *validity, bool valid) {
    int64_t row = validity->rows++;
    if (valid && validity->nulls == 0) {
        return;
    }
    size_t needed = (size_t)(row / 8 + 1);
    if (validity->bits.length < needed) {
        size_t more = needed - validity->bits.length;
        uint8_t *room = buffer_extend(&validity->bits, more);
        if (room == NULL) {
            return;
        }
        memset(room, 0xFF, more);
    }
    if (!valid) {
        validity->bits.data[row / 8] &= (uint8_t)~(1u << (row % 8));
        validity->nulls++;
    }
}

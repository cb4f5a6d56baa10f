#include "buffer.h"

#include <stdlib.h>

enum { SMALLEST = 256 };

bool buffer_grow(Buffer *buffer, size_t wanted) {
    size_t capacity = buffer->capacity < SMALLEST ? SMALLEST : buffer->capacity;
    while (capacity < wanted) {
        capacity *= 2;
    }
    uint8_t *data = buffer->exhausted ? NULL : realloc(buffer->data, capacity);
    if (data == NULL) {
        buffer->exhausted = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void buffer_free(Buffer *buffer) {
    free(buffer->data);
    memset(buffer, 0, sizeof *buffer);
}

void validity_mark(Validity *validity, int64_t row, bool valid) {
    Buffer *bits = &validity->bits;
    size_t needed = (size_t)(row / 8 + 1);
    if (bits->length < needed) {
        if (needed > bits->capacity && !buffer_grow(bits, needed)) {
            return;
        }
        memset(bits->data + bits->length, 0xFF, needed - bits->length);
        bits->length = needed;
    }
    if (!valid) {
        bits->data[row / 8] &= (uint8_t)~(1u << (row % 8));
        validity->nulls++;
    }
}

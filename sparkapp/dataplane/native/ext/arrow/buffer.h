/* Growing memory and validity bitmaps, in which columns are built. A failed allocation sets `exhausted`; export_array()
 * checks it, not every append. The common paths are inline because they run at least once a record. */
#ifndef KAFKASPARK_BUFFER_H
#define KAFKASPARK_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint8_t *data;
    size_t length;
    size_t capacity;
    bool exhausted; /* an allocation failed; the content is invalid */
} Buffer;

/* Makes the capacity at least `wanted`; false: no memory. */
bool buffer_grow(Buffer *buffer, size_t wanted);
void buffer_free(Buffer *buffer);

static inline void buffer_append(Buffer *buffer, const void *data, size_t size) {
    size_t wanted = buffer->length + size;
    if ((wanted > buffer->capacity && !buffer_grow(buffer, wanted)) || size == 0) {
        return;
    }
    memcpy(buffer->data + buffer->length, data, size);
    buffer->length = wanted;
}

/* The bitmap exists from the first null on; until then every row is valid. */
typedef struct {
    Buffer bits;
    int64_t rows;
    int64_t nulls;
} Validity;

/* The rest of validity_append(), from the first null on. */
void validity_mark(Validity *validity, int64_t row, bool valid);

static inline void validity_append(Validity *validity, bool valid) {
    int64_t row = validity->rows++;
    if (!valid || validity->nulls > 0) {
        validity_mark(validity, row, valid);
    }
}

#endif

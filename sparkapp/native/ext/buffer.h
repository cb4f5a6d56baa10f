/* Growing memory and validity bitmaps: what columns are built in. Running out of memory is remembered, not handled at
 * every append: the one who finishes a column asks. */
#ifndef KAFKASPARK_BUFFER_H
#define KAFKASPARK_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t *data;
    size_t length;
    size_t capacity;
    bool exhausted; /* an allocation failed; the content is useless */
} Buffer;

/* Room for `more` bytes at the end, or NULL. */
uint8_t *buffer_extend(Buffer *buffer, size_t more);
void buffer_append(Buffer *buffer, const void *data, size_t size);
void buffer_free(Buffer *buffer);

/* The bitmap exists from the first null on; until then everything is valid. */
typedef struct {
    Buffer bits;
    int64_t rows;
    int64_t nulls;
} Validity;

void validity_append(Validity *validity, bool valid);

#endif

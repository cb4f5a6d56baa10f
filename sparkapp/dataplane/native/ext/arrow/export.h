/* Exports finished buffers as an array of the Arrow C data interface. */
#ifndef KAFKASPARK_EXPORT_H
#define KAFKASPARK_EXPORT_H

#include <stdbool.h>

#include "arrow_abi.h"
#include "buffer.h"

/* Fills `array`, which then owns the buffers and the children; its release frees all of them and may run in any thread.
 * Without memory, or with an exhausted buffer, this call frees everything and returns false. */
bool export_array(struct ArrowArray *array, int64_t length, int64_t nulls, const Buffer *buffers, int buffer_count,
                  const struct ArrowArray *children, int child_count);

#endif

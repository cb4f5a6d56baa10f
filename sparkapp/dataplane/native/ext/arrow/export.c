#include "export.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BUFFERS = 3, MOST_CHILDREN = 2 };

/* Owned by the array; Arrow reads buffers and children through it. */
typedef struct {
    const void *buffers[MOST_BUFFERS];
    struct ArrowArray *pointers[MOST_CHILDREN];
    struct ArrowArray children[MOST_CHILDREN];
} Holder;

static void release(struct ArrowArray *array) {
    Holder *holder = array->private_data;
    for (int index = 0; index < array->n_buffers; index++) {
        free((void *)holder->buffers[index]);
    }
    for (int index = 0; index < array->n_children; index++) {
        struct ArrowArray *child = &holder->children[index];
        if (child->release != NULL) { /* an importer may have moved it */
            child->release(child);
        }
    }
    free(holder);
    array->release = NULL;
}

bool export_array(struct ArrowArray *array, int64_t length, int64_t nulls, const Buffer *buffers, int buffer_count,
                  const struct ArrowArray *children, int child_count) {
    Holder *holder = calloc(1, sizeof *holder);
    bool exhausted = holder == NULL;
    for (int index = 0; index < buffer_count; index++) {
        exhausted |= buffers[index].exhausted;
    }
    if (exhausted) {
        for (int index = 0; index < buffer_count; index++) {
            free(buffers[index].data);
        }
        for (int index = 0; index < child_count; index++) {
            struct ArrowArray child = children[index];
            child.release(&child);
        }
        free(holder);
        return false;
    }
    for (int index = 0; index < buffer_count; index++) {
        holder->buffers[index] = buffers[index].data;
    }
    for (int index = 0; index < child_count; index++) {
        holder->children[index] = children[index];
        holder->pointers[index] = &holder->children[index];
    }
    *array = (struct ArrowArray){
        .length = length,
        .null_count = nulls,
        .n_buffers = buffer_count,
        .n_children = child_count,
        .buffers = holder->buffers,
        .children = child_count > 0 ? holder->pointers : NULL,
        .release = release,
        .private_data = holder,
    };
    return true;
}

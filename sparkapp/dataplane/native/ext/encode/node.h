/* A plan of how rows of an Arrow array are written: a tree with a node for each value, which Python has made of the
 * column's type and of the schema. The tree is bound to the arrays of a batch, and then read row by row. */
#ifndef KAFKASPARK_NODE_H
#define KAFKASPARK_NODE_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "arrow_abi.h"
#include "buffer.h"
#include "input.h"

/* How Arrow has the values; the names are those of Python's plan. */
typedef enum {
    LAYOUT_NONE, /* no column: a constant */
    LAYOUT_NULL,
    LAYOUT_BOOL,
    LAYOUT_INT8,
    LAYOUT_INT16,
    LAYOUT_INT32,
    LAYOUT_INT64,
    LAYOUT_UINT8,
    LAYOUT_UINT16,
    LAYOUT_UINT32,
    LAYOUT_UINT64,
    LAYOUT_FLOAT,
    LAYOUT_DOUBLE,
    LAYOUT_BYTES,
    LAYOUT_LARGE_BYTES,
    LAYOUT_FIXED,
    LAYOUT_DECIMAL,
    LAYOUT_LIST,
    LAYOUT_LARGE_LIST,
    LAYOUT_MAP,
    LAYOUT_STRUCT,
} Layout;

/* What is written. */
typedef enum {
    WRITE_CONSTANT,
    WRITE_BOOLEAN,
    WRITE_INTEGER,
    WRITE_FLOAT,
    WRITE_DOUBLE,
    WRITE_TEXT,
    WRITE_BYTES,
    WRITE_FIXED,
    WRITE_SYMBOL,
    WRITE_DECIMAL,
    WRITE_FIXED_DECIMAL,
    WRITE_DATE,
    WRITE_TIMESTAMP,
    WRITE_LOCAL_TIMESTAMP,
    WRITE_LIST,
    WRITE_MAP,
    WRITE_RECORD,
    WRITE_VARINT,
    WRITE_ZIGZAG,
    WRITE_FIXED32,
    WRITE_FIXED64,
    WRITE_MOMENT,
    WRITE_WRAPPED,
    WRITE_EMPTY,
    WRITE_JAVA_DOUBLE,
} Write;

enum { NO_BRANCH = -1, SAME_ARRAY = -1 };

typedef struct Node {
    Write write;
    Layout layout;
    int column;          /* number of the array among the children of the node above, or SAME_ARRAY */
    int64_t number;      /* bytes of a fixed value; factor of an integer in Avro (below 0: divisor); scale of a decimal
                          * and units a second of a timestamp in JSON, where a 0 refuses numbers that are not finite;
                          * in Protobuf bits of an unsigned type, units a second, number of a symbol */
    int64_t null_branch; /* branch of an Avro union for null, and for a value; NO_BRANCH without a union. In JSON and
                          * Protobuf: what becomes of a null. In Protobuf: the oneof of a field */
    int64_t value_branch;
    char *text; /* a constant, a symbol, the name of a field as JSON has it, or the tag of a field of Protobuf */
    size_t text_size;
    char *path; /* of the column, for errors */
    int count;
    struct Node *children;
    /* Of the batch: */
    const struct ArrowArray *array;
    Nulls nulls;
    int64_t limit; /* end of the data, or of the child, that offsets may name */
} Node;

/* Why a row cannot be written. */
typedef struct {
    const char *problem; /* NULL: it is written */
    const char *path;
} Failure;

extern const char NULL_VALUE[], NO_SYMBOL[], WRONG_SIZE[], OUT_OF_RANGE[], BAD_OFFSETS[], NOT_FINITE[], TWO_OF_ONEOF[],
    NOT_SET[];

/* Reads Python's plan: (write, layout, column, number, null branch, value branch, text, path, children). False: a Python
 * error is set. A tree that was begun is freed by node_free(). */
bool node_read(Node *node, PyObject *plan, int depth);
void node_free(Node *node);

/* Binds the tree to an array; false: the array has not the plan's children. */
bool node_bind(Node *node, const struct ArrowArray *array);

static inline bool node_is_null(const Node *node, int64_t row) {
    if (node->layout == LAYOUT_NULL) {
        return true;
    }
    int64_t bit = row + node->nulls.offset;
    return node->nulls.validity != NULL && !(node->nulls.validity[bit / 8] & 1 << bit % 8);
}

static inline bool fails(Failure *failure, const Node *node, const char *problem) {
    failure->problem = problem;
    failure->path = node->path;
    return false;
}

bool node_boolean(const Node *node, int64_t row);
double node_double(const Node *node, int64_t row);
/* False: beyond 64 bits with a sign. */
bool node_integer(const Node *node, int64_t row, int64_t *value);
unsigned __int128 node_decimal(const Node *node, int64_t row, bool *negative);
/* Bytes of a variable or a fixed size; false: offsets outside the data. */
bool node_bytes(const Node *node, int64_t row, Bytes *bytes);
/* The child with this text among the symbols of an enum; NULL: none. */
const Node *node_symbol(const Node *node, Bytes text);
/* The rows of a list or map in its child; false: offsets outside the child. */
bool node_items(const Node *node, int64_t row, int64_t *first, int64_t *end);
/* The row of a record's fields. */
static inline int64_t node_inner(const Node *node, int64_t row) { return row + node->array->offset; }

/* Appends a row. False: it cannot be written, and `failure` says why; the buffer then has a part of it. */
typedef bool RowWriter(Buffer *out, const Node *node, int64_t row, Failure *failure);
RowWriter avro_write, cast_write, json_write, protobuf_write;

#endif

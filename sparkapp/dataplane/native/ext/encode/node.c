#define PY_SSIZE_T_CLEAN
#include "node.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 200 };

const char NULL_VALUE[] = "null", NO_SYMBOL[] = "symbol", WRONG_SIZE[] = "size", OUT_OF_RANGE[] = "range",
           BAD_OFFSETS[] = "offsets", NOT_FINITE[] = "finite", TWO_OF_ONEOF[] = "oneof", NOT_SET[] = "unset";

static const char *const layouts[] = {
    [LAYOUT_NONE] = "none",       [LAYOUT_NULL] = "null",
    [LAYOUT_BOOL] = "bool",       [LAYOUT_INT8] = "int8",
    [LAYOUT_INT16] = "int16",     [LAYOUT_INT32] = "int32",
    [LAYOUT_INT64] = "int64",     [LAYOUT_UINT8] = "uint8",
    [LAYOUT_UINT16] = "uint16",   [LAYOUT_UINT32] = "uint32",
    [LAYOUT_UINT64] = "uint64",   [LAYOUT_FLOAT] = "float",
    [LAYOUT_DOUBLE] = "double",   [LAYOUT_BYTES] = "bytes",
    [LAYOUT_LARGE_BYTES] = "large_bytes", [LAYOUT_FIXED] = "fixed",
    [LAYOUT_DECIMAL] = "decimal", [LAYOUT_LIST] = "list",
    [LAYOUT_LARGE_LIST] = "large_list",   [LAYOUT_MAP] = "map",
    [LAYOUT_STRUCT] = "struct",
};

static const char *const writes[] = {
    [WRITE_CONSTANT] = "constant", [WRITE_BOOLEAN] = "boolean",
    [WRITE_INTEGER] = "integer",   [WRITE_FLOAT] = "float",
    [WRITE_DOUBLE] = "double",     [WRITE_TEXT] = "text",
    [WRITE_BYTES] = "bytes",       [WRITE_FIXED] = "fixed",
    [WRITE_SYMBOL] = "symbol",     [WRITE_DECIMAL] = "decimal",
    [WRITE_FIXED_DECIMAL] = "fixed_decimal", [WRITE_DATE] = "date",
    [WRITE_TIMESTAMP] = "timestamp", [WRITE_LOCAL_TIMESTAMP] = "local_timestamp",
    [WRITE_LIST] = "list",         [WRITE_MAP] = "map",
    [WRITE_RECORD] = "record",     [WRITE_VARINT] = "varint",
    [WRITE_ZIGZAG] = "zigzag",     [WRITE_FIXED32] = "fixed32",
    [WRITE_FIXED64] = "fixed64",   [WRITE_MOMENT] = "moment",
    [WRITE_WRAPPED] = "wrapped",   [WRITE_EMPTY] = "empty",
    [WRITE_JAVA_DOUBLE] = "java_double",
};

static int found(const char *const *names, size_t count, const char *name) {
    for (size_t index = 0; index < count; index++) {
        if (strcmp(names[index], name) == 0) {
            return (int)index;
        }
    }
    PyErr_Format(PyExc_ValueError, "a plan has no %s", name);
    return -1;
}

static char *copy(const char *text, size_t size) {
    char *own = malloc(size + 1);
    if (own == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(own, text, size);
    own[size] = '\0';
    return own;
}

bool node_read(Node *node, PyObject *plan, int depth) {
    const char *write, *layout, *text, *path;
    Py_ssize_t text_size;
    long long number, null_branch, value_branch;
    PyObject *children;
    memset(node, 0, sizeof *node);
    if (depth > DEEPEST) {
        PyErr_SetString(PyExc_ValueError, "a plan is nested too deeply");
        return false;
    }
    if (!PyArg_ParseTuple(plan, "ssiLLLy#sO!", &write, &layout, &node->column, &number, &null_branch, &value_branch,
                          &text, &text_size, &path, &PyTuple_Type, &children)) {
        return false;
    }
    int which = found(writes, sizeof writes / sizeof *writes, write);
    int has = which < 0 ? -1 : found(layouts, sizeof layouts / sizeof *layouts, layout);
    if (has < 0) {
        return false;
    }
    node->write = (Write)which;
    node->layout = (Layout)has;
    node->number = number;
    node->null_branch = null_branch;
    node->value_branch = value_branch;
    node->text_size = (size_t)text_size;
    node->text = copy(text, node->text_size);
    node->path = node->text == NULL ? NULL : copy(path, strlen(path));
    if (node->path == NULL) {
        return false;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(children);
    node->children = calloc((size_t)count + 1, sizeof *node->children);
    if (node->children == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        node->count++;
        if (!node_read(&node->children[index], PyTuple_GET_ITEM(children, index), depth + 1)) {
            return false;
        }
    }
    return true;
}

void node_free(Node *node) {
    for (int index = 0; index < node->count; index++) {
        node_free(&node->children[index]);
    }
    free(node->children);
    free(node->text);
    free(node->path);
    memset(node, 0, sizeof *node);
}

static bool bind_children(Node *node, const struct ArrowArray *parent) {
    for (int index = 0; index < node->count; index++) {
        Node *child = &node->children[index];
        if (child->layout == LAYOUT_NONE) {
            continue;
        }
        if (child->column == SAME_ARRAY) {
            if (!node_bind(child, parent)) {
                return false;
            }
            continue;
        }
        if (child->column < 0 || child->column >= parent->n_children ||
            !node_bind(child, parent->children[child->column])) {
            return false;
        }
    }
    return true;
}

bool node_bind(Node *node, const struct ArrowArray *array) {
    node->array = array;
    node->nulls = (Nulls){.offset = array->offset};
    if (array->null_count != 0 && array->n_buffers > 0) {
        node->nulls.validity = array->buffers[0];
    }
    const struct ArrowArray *parent = array;
    int64_t last = array->offset + array->length;
    switch (node->layout) {
    case LAYOUT_BYTES:
        node->limit = array->length > 0 ? ((const int32_t *)array->buffers[1])[last] : 0;
        break;
    case LAYOUT_LARGE_BYTES:
        node->limit = array->length > 0 ? ((const int64_t *)array->buffers[1])[last] : 0;
        break;
    case LAYOUT_MAP: /* the children of the node are those of the entries */
        if (array->n_children != 1) {
            return false;
        }
        parent = array->children[0];
        node->limit = parent->length;
        break;
    case LAYOUT_LIST:
    case LAYOUT_LARGE_LIST:
        if (array->n_children != 1) {
            return false;
        }
        node->limit = array->children[0]->length;
        break;
    default:
        break;
    }
    return bind_children(node, parent);
}

bool node_boolean(const Node *node, int64_t row) {
    int64_t bit = row + node->array->offset;
    return ((const uint8_t *)node->array->buffers[1])[bit / 8] & 1 << bit % 8;
}

double node_double(const Node *node, int64_t row) {
    int64_t at = row + node->array->offset;
    if (node->layout == LAYOUT_FLOAT) {
        return ((const float *)node->array->buffers[1])[at];
    }
    if (node->layout == LAYOUT_DOUBLE) {
        return ((const double *)node->array->buffers[1])[at];
    }
    int64_t value = 0;
    node_integer(node, row, &value);
    return (double)value;
}

bool node_integer(const Node *node, int64_t row, int64_t *value) {
    const void *values = node->array->buffers[1];
    int64_t at = row + node->array->offset;
    switch (node->layout) {
    case LAYOUT_INT8:
        *value = ((const int8_t *)values)[at];
        break;
    case LAYOUT_INT16:
        *value = ((const int16_t *)values)[at];
        break;
    case LAYOUT_INT32:
        *value = ((const int32_t *)values)[at];
        break;
    case LAYOUT_INT64:
        *value = ((const int64_t *)values)[at];
        break;
    case LAYOUT_UINT8:
        *value = ((const uint8_t *)values)[at];
        break;
    case LAYOUT_UINT16:
        *value = ((const uint16_t *)values)[at];
        break;
    case LAYOUT_UINT32:
        *value = ((const uint32_t *)values)[at];
        break;
    default:
        if (((const uint64_t *)values)[at] > INT64_MAX) {
            return false;
        }
        *value = (int64_t)((const uint64_t *)values)[at];
    }
    return true;
}

unsigned __int128 node_decimal(const Node *node, int64_t row, bool *negative) {
    __int128 value;
    memcpy(&value, (const uint8_t *)node->array->buffers[1] + (row + node->array->offset) * (int64_t)sizeof value,
           sizeof value);
    *negative = value < 0;
    return *negative ? -(unsigned __int128)value : (unsigned __int128)value;
}

bool node_bytes(const Node *node, int64_t row, Bytes *bytes) {
    int64_t at = row + node->array->offset;
    if (node->layout == LAYOUT_FIXED) {
        *bytes = (Bytes){(const uint8_t *)node->array->buffers[1] + at * node->number, (size_t)node->number};
        return true;
    }
    int64_t start, end;
    if (node->layout == LAYOUT_LARGE_BYTES) {
        start = ((const int64_t *)node->array->buffers[1])[at];
        end = ((const int64_t *)node->array->buffers[1])[at + 1];
    } else {
        start = ((const int32_t *)node->array->buffers[1])[at];
        end = ((const int32_t *)node->array->buffers[1])[at + 1];
    }
    if (start < 0 || end < start || end > node->limit) {
        return false;
    }
    const uint8_t *data = node->array->buffers[2];
    *bytes = start == end ? (Bytes){(const uint8_t *)"", 0} : (Bytes){data + start, (size_t)(end - start)};
    return true;
}

const Node *node_symbol(const Node *node, Bytes text) {
    for (int index = 0; index < node->count; index++) {
        const Node *symbol = &node->children[index];
        if (symbol->text_size == text.size && memcmp(symbol->text, text.data, text.size) == 0) {
            return symbol;
        }
    }
    return NULL;
}

bool node_items(const Node *node, int64_t row, int64_t *first, int64_t *end) {
    int64_t at = row + node->array->offset;
    if (node->layout == LAYOUT_LARGE_LIST) {
        *first = ((const int64_t *)node->array->buffers[1])[at];
        *end = ((const int64_t *)node->array->buffers[1])[at + 1];
    } else {
        *first = ((const int32_t *)node->array->buffers[1])[at];
        *end = ((const int32_t *)node->array->buffers[1])[at + 1];
    }
    return *first >= 0 && *end >= *first && *end <= node->limit;
}

/* Avro's binary encoding of a row (Avro 1.12, "Binary encoding"). */
#include <string.h>

#include "node.h"
#include "utf8.h"

enum { LONGEST_NUMBER = 10, DECIMAL_BYTES = 16 };

static void number_append(Buffer *out, int64_t value) {
    uint8_t bytes[LONGEST_NUMBER];
    size_t size = 0;
    uint64_t left = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    while (left > 0x7F) {
        bytes[size++] = (uint8_t)(left | 0x80);
        left >>= 7;
    }
    bytes[size++] = (uint8_t)left;
    buffer_append(out, bytes, size);
}

static bool scaled(int64_t factor, int64_t *value) {
    if (factor > 1) {
        return !__builtin_mul_overflow(*value, factor, value);
    }
    if (factor < -1) { /* rounds down, also before 1970 */
        int64_t rest = *value % -factor;
        *value = *value / -factor - (rest < 0);
    }
    return true;
}

static bool text_append(Buffer *out, Bytes text) {
    if (utf8_is_valid((const char *)text.data, text.size)) {
        number_append(out, (int64_t)text.size);
        buffer_append(out, text.data, text.size);
        return true;
    }
    Buffer valid = {0};
    utf8_append(&valid, (const char *)text.data, text.size);
    number_append(out, (int64_t)valid.length);
    buffer_append(out, valid.data, valid.length);
    out->exhausted |= valid.exhausted;
    buffer_free(&valid);
    return true;
}

/* Two's complement, the highest byte first: as short as possible, or of the type's size. */
static bool decimal_append(Buffer *out, const Node *node, int64_t row, Failure *failure) {
    bool negative;
    unsigned __int128 size_of = node_decimal(node, row, &negative);
    unsigned __int128 bits = negative ? -size_of : size_of;
    uint8_t bytes[DECIMAL_BYTES];
    for (int index = 0; index < DECIMAL_BYTES; index++) {
        bytes[index] = (uint8_t)(bits >> 8 * (DECIMAL_BYTES - 1 - index));
    }
    const uint8_t sign = negative ? 0xFF : 0;
    int first = 0;
    while (first < DECIMAL_BYTES - 1 && bytes[first] == sign && (bytes[first + 1] ^ sign) < 0x80) {
        first++;
    }
    int64_t size = DECIMAL_BYTES - first;
    if (node->write == WRITE_DECIMAL) {
        number_append(out, size);
    } else if (size > node->number) {
        return fails(failure, node, OUT_OF_RANGE);
    } else {
        for (int64_t left = node->number - size; left > 0; left--) {
            buffer_append(out, &sign, 1);
        }
    }
    buffer_append(out, bytes + first, (size_t)size);
    return true;
}

static bool items_append(Buffer *out, const Node *node, int64_t row, Failure *failure) {
    int64_t first, end;
    if (!node_items(node, row, &first, &end)) {
        return fails(failure, node, BAD_OFFSETS);
    }
    if (end > first) {
        number_append(out, end - first);
    }
    int64_t shift = node->write == WRITE_MAP ? node->array->children[0]->offset : 0;
    for (int64_t item = first + shift; item < end + shift; item++) {
        for (int index = 0; index < node->count; index++) { /* the item, or key and value */
            if (!avro_write(out, &node->children[index], item, failure)) {
                return false;
            }
        }
        if (out->exhausted) {
            return true; /* the caller sees it */
        }
    }
    number_append(out, 0);
    return true;
}

bool avro_write(Buffer *out, const Node *node, int64_t row, Failure *failure) {
    if (node->write == WRITE_CONSTANT) {
        buffer_append(out, node->text, node->text_size);
        return true;
    }
    if (node_is_null(node, row)) {
        if (node->null_branch == NO_BRANCH) {
            return fails(failure, node, NULL_VALUE);
        }
        number_append(out, node->null_branch);
        return true;
    }
    if (node->value_branch != NO_BRANCH) {
        number_append(out, node->value_branch);
    }
    Bytes bytes = {0};
    int64_t number;
    switch (node->write) {
    case WRITE_BOOLEAN:
        buffer_append(out, node_boolean(node, row) ? "\1" : "\0", 1);
        return true;
    case WRITE_INTEGER:
        if (!node_integer(node, row, &number) || !scaled(node->number, &number)) {
            return fails(failure, node, OUT_OF_RANGE);
        }
        number_append(out, number);
        return true;
    case WRITE_FLOAT: {
        float value = (float)node_double(node, row);
        buffer_append(out, &value, sizeof value); /* the lowest byte first, as in this machine */
        return true;
    }
    case WRITE_DOUBLE: {
        double value = node_double(node, row);
        buffer_append(out, &value, sizeof value);
        return true;
    }
    case WRITE_TEXT:
    case WRITE_BYTES:
    case WRITE_FIXED:
    case WRITE_SYMBOL:
        if (!node_bytes(node, row, &bytes)) {
            return fails(failure, node, BAD_OFFSETS);
        }
        if (node->write == WRITE_TEXT) {
            return text_append(out, bytes);
        }
        if (node->write == WRITE_SYMBOL) {
            const Node *symbol = node_symbol(node, bytes);
            if (symbol == NULL) {
                return fails(failure, node, NO_SYMBOL);
            }
            number_append(out, symbol - node->children);
            return true;
        }
        if (node->write == WRITE_BYTES) {
            number_append(out, (int64_t)bytes.size);
        } else if ((int64_t)bytes.size != node->number) {
            return fails(failure, node, WRONG_SIZE);
        }
        buffer_append(out, bytes.data, bytes.size);
        return true;
    case WRITE_DECIMAL:
    case WRITE_FIXED_DECIMAL:
        return decimal_append(out, node, row, failure);
    case WRITE_LIST:
    case WRITE_MAP:
        return items_append(out, node, row, failure);
    default:
        for (int index = 0; index < node->count; index++) {
            if (!avro_write(out, &node->children[index], node_inner(node, row), failure)) {
                return false;
            }
        }
        return true;
    }
}

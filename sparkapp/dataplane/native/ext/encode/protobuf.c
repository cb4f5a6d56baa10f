/* Protobuf's binary encoding of a row (protobuf.dev, "Encoding"). The plan's texts are the tags of fields. */
#include <string.h>

#include "node.h"
#include "utf8.h"

enum { LONGEST_VARINT = 10, UNSIGNED_64 = 64 };
static const int64_t NANOS = 1000000000, FIRST_SECOND = -62135596800, LAST_SECOND = 253402300799; /* years 1 to 9999 */

/* In null_branch: a field with presence is left out where it is null, a field without presence where it is its default.
 * All others take no null and are always written: items of lists, and required fields. */
enum { PRESENCE_EXPLICIT = 0, PRESENCE_IMPLICIT = 1 };

static size_t varint(uint8_t bytes[LONGEST_VARINT], uint64_t left) {
    size_t size = 0;
    while (left > 0x7F) {
        bytes[size++] = (uint8_t)(left | 0x80);
        left >>= 7;
    }
    bytes[size++] = (uint8_t)left;
    return size;
}

static void varint_append(Buffer *out, uint64_t value) {
    uint8_t bytes[LONGEST_VARINT];
    buffer_append(out, bytes, varint(bytes, value));
}

/* Puts the size before what follows `start`, for which a byte is left there. */
static void size_insert(Buffer *out, size_t start) {
    if (out->exhausted) {
        return; /* the byte may not be there */
    }
    uint8_t bytes[LONGEST_VARINT];
    size_t size = out->length - start - 1, more = varint(bytes, size) - 1;
    if (more > 0) {
        buffer_append(out, bytes, more);
        if (out->exhausted) {
            return;
        }
        memmove(out->data + start + 1 + more, out->data + start + 1, size);
    }
    memcpy(out->data + start, bytes, more + 1);
}

static size_t size_begin(Buffer *out) {
    buffer_append(out, "", 1);
    return out->length - 1;
}

static void bytes_append(Buffer *out, const Node *node, Bytes bytes) {
    Buffer valid = {0};
    if (node->write == WRITE_TEXT && !utf8_is_valid((const char *)bytes.data, bytes.size)) {
        utf8_append(&valid, (const char *)bytes.data, bytes.size);
        bytes = (Bytes){valid.data, valid.length};
    }
    varint_append(out, bytes.size);
    buffer_append(out, bytes.data, bytes.size);
    out->exhausted |= valid.exhausted;
    buffer_free(&valid);
}

/* A whole number of a column, also a decimal without a scale. The plan's number has the bits of an unsigned type, or 0
 * for a type with a sign. */
static bool whole(const Node *node, int64_t row, uint64_t *value) {
    if (node->layout == LAYOUT_DECIMAL) {
        bool negative;
        unsigned __int128 size = node_decimal(node, row, &negative);
        *value = (uint64_t)size;
        return size <= UINT64_MAX && !negative;
    }
    if (node->layout == LAYOUT_UINT64 && node->number == UNSIGNED_64) {
        *value = ((const uint64_t *)node->array->buffers[1])[row + node->array->offset];
        return true;
    }
    int64_t number;
    if (!node_integer(node, row, &number)) {
        return false;
    }
    *value = (uint64_t)number;
    return node->number == 0 || (number >= 0 && (node->number == UNSIGNED_64 || number <= UINT32_MAX));
}

/* The bits of a value of fixed size, or of a varint. */
static bool bits_of(const Node *node, int64_t row, uint64_t *bits, Failure *failure) {
    *bits = 0;
    if (node->write == WRITE_BOOLEAN) {
        *bits = node_boolean(node, row);
    } else if (node->write == WRITE_FLOAT) {
        float value = (float)node_double(node, row);
        memcpy(bits, &value, sizeof value);
    } else if (node->write == WRITE_DOUBLE) {
        double value = node_double(node, row);
        memcpy(bits, &value, sizeof value);
    } else if (node->write == WRITE_SYMBOL) {
        Bytes bytes;
        if (!node_bytes(node, row, &bytes)) {
            return fails(failure, node, BAD_OFFSETS);
        }
        const Node *symbol = node_symbol(node, bytes);
        if (symbol == NULL) {
            return fails(failure, node, NO_SYMBOL);
        }
        *bits = (uint64_t)symbol->number;
    } else if (!whole(node, row, bits)) {
        return fails(failure, node, OUT_OF_RANGE);
    } else if (node->write == WRITE_ZIGZAG) {
        *bits = *bits << 1 ^ (uint64_t)((int64_t)*bits >> 63);
    }
    return true;
}

static void bits_append(Buffer *out, const Node *node, uint64_t bits) {
    switch (node->write) {
    case WRITE_FLOAT:
    case WRITE_FIXED32:
        buffer_append(out, &bits, sizeof(uint32_t)); /* the lowest byte first, as in this machine */
        return;
    case WRITE_DOUBLE:
    case WRITE_FIXED64:
        buffer_append(out, &bits, sizeof bits);
        return;
    default:
        varint_append(out, bits);
    }
}

/* The content of a google.protobuf.Timestamp: seconds, and nanoseconds that are never negative. */
static bool moment_append(Buffer *out, const Node *node, int64_t row, Failure *failure) {
    int64_t value;
    if (!node_integer(node, row, &value)) {
        return fails(failure, node, OUT_OF_RANGE);
    }
    int64_t rest = value % node->number, seconds = value / node->number;
    if (rest < 0) {
        rest += node->number;
        seconds--;
    }
    if (seconds < FIRST_SECOND || seconds > LAST_SECOND) {
        return fails(failure, node, OUT_OF_RANGE);
    }
    if (seconds != 0) {
        buffer_append(out, "\x08", 1);
        varint_append(out, (uint64_t)seconds);
    }
    if (rest != 0) {
        buffer_append(out, "\x10", 1);
        varint_append(out, (uint64_t)(rest * (NANOS / node->number)));
    }
    return true;
}

static bool field_append(Buffer *out, const Node *node, int64_t row, Failure *failure);

static bool fields_append(Buffer *out, const Node *node, int64_t row, Failure *failure) {
    uint64_t set = 0; /* the oneofs of which a member is written; the plan has at most 64 */
    for (int index = 0; index < node->count; index++) {
        const Node *field = &node->children[index];
        size_t before = out->length;
        if (!field_append(out, field, row, failure)) {
            return false;
        }
        if (field->value_branch != NO_BRANCH && out->length > before) {
            uint64_t oneof = UINT64_C(1) << field->value_branch;
            if (set & oneof) {
                return fails(failure, field, TWO_OF_ONEOF);
            }
            set |= oneof;
        }
    }
    return true;
}

/* Items of a list with a tag of their own, or without one where the list is packed behind its own; entries of a map. */
static bool items_append(Buffer *out, const Node *node, int64_t row, Failure *failure) {
    int64_t first, end;
    if (!node_items(node, row, &first, &end)) {
        return fails(failure, node, BAD_OFFSETS);
    }
    bool is_map = node->write == WRITE_MAP, is_packed = !is_map && node->text_size > 0 && end > first;
    int64_t shift = is_map ? node->array->children[0]->offset : 0;
    size_t start = 0;
    if (is_packed) {
        buffer_append(out, node->text, node->text_size);
        start = size_begin(out);
    }
    for (int64_t item = first + shift; item < end + shift && !out->exhausted; item++) {
        if (is_map) {
            buffer_append(out, node->text, node->text_size);
            start = size_begin(out);
        }
        for (int index = 0; index < node->count; index++) { /* the item, or key and value */
            if (!field_append(out, &node->children[index], item, failure)) {
                return false;
            }
        }
        if (is_map) {
            size_insert(out, start);
        }
    }
    if (is_packed) {
        size_insert(out, start);
    }
    return true;
}

static bool message_append(Buffer *out, const Node *node, int64_t row, Failure *failure) {
    buffer_append(out, node->text, node->text_size);
    size_t start = size_begin(out);
    bool written = true;
    if (node->write == WRITE_MOMENT) {
        written = moment_append(out, node, row, failure);
    } else if (node->write == WRITE_WRAPPED) {
        written = field_append(out, &node->children[0], row, failure);
    } else if (node->write == WRITE_RECORD) {
        written = fields_append(out, node, node_inner(node, row), failure);
    }
    size_insert(out, start);
    return written;
}

static bool field_append(Buffer *out, const Node *node, int64_t row, Failure *failure) {
    if (node_is_null(node, row)) {
        return node->null_branch == PRESENCE_EXPLICIT || fails(failure, node, NULL_VALUE);
    }
    bool skips_default = node->null_branch == PRESENCE_IMPLICIT;
    Bytes bytes = {0};
    uint64_t bits;
    switch (node->write) {
    case WRITE_EMPTY:
        if (!node_boolean(node, row)) { /* as a null */
            return node->null_branch == PRESENCE_EXPLICIT || fails(failure, node, NOT_SET);
        }
        return message_append(out, node, row, failure);
    case WRITE_MOMENT:
    case WRITE_WRAPPED:
    case WRITE_RECORD:
        return message_append(out, node, row, failure);
    case WRITE_LIST:
    case WRITE_MAP:
        return items_append(out, node, row, failure);
    case WRITE_TEXT:
    case WRITE_BYTES:
        if (!node_bytes(node, row, &bytes)) {
            return fails(failure, node, BAD_OFFSETS);
        }
        if (bytes.size > 0 || !skips_default) {
            buffer_append(out, node->text, node->text_size);
            bytes_append(out, node, bytes);
        }
        return true;
    default:
        if (!bits_of(node, row, &bits, failure)) {
            return false;
        }
        if (bits != 0 || !skips_default) {
            buffer_append(out, node->text, node->text_size);
            bits_append(out, node, bits);
        }
        return true;
    }
}

bool protobuf_write(Buffer *out, const Node *node, int64_t row, Failure *failure) {
    return fields_append(out, node, node_inner(node, row), failure);
}

/* JSON of a row, as Spark's to_json writes it: without the fields of records that are null. */
#include <Python.h>
#include <math.h>
#include <string.h>

#include "node.h"
#include "text.h"
#include "utf8.h"

/* In null_branch: NO_BRANCH leaves a record's field out, NULL_REFUSED is an error, all else writes null. */
enum { NULL_REFUSED = -2, FINITE = 0 };

static const char hex[] = "0123456789ABCDEF";

static void string_append(Buffer *out, const uint8_t *text, size_t size) {
    size_t done = 0;
    buffer_append(out, "\"", 1);
    for (size_t at = 0; at < size; at++) {
        uint8_t byte = text[at];
        if (byte >= 0x20 && byte != '"' && byte != '\\') {
            continue;
        }
        buffer_append(out, text + done, at - done);
        done = at + 1;
        char escape[] = {'\\', (char)byte, '0', '0', hex[byte >> 4], hex[byte & 0xF]};
        static const char named[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
        if (byte >= 0x20) {
            buffer_append(out, escape, 2);
        } else if (byte < sizeof named && named[byte] != 0) {
            escape[1] = named[byte];
            buffer_append(out, escape, 2);
        } else {
            escape[1] = 'u';
            buffer_append(out, escape, sizeof escape);
        }
    }
    buffer_append(out, text + done, size - done);
    buffer_append(out, "\"", 1);
}

static void text_append(Buffer *out, Bytes text) {
    if (utf8_is_valid((const char *)text.data, text.size)) {
        string_append(out, text.data, text.size);
        return;
    }
    Buffer valid = {0};
    utf8_append(&valid, (const char *)text.data, text.size);
    string_append(out, valid.data, valid.length);
    out->exhausted |= valid.exhausted;
    buffer_free(&valid);
}

static void base64_append(Buffer *out, Bytes bytes) {
    static const char table[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    buffer_append(out, "\"", 1);
    for (size_t at = 0; at < bytes.size; at += 3) {
        size_t left = bytes.size - at;
        uint32_t bits = (uint32_t)bytes.data[at] << 16 | (left > 1 ? (uint32_t)bytes.data[at + 1] << 8 : 0) |
                        (left > 2 ? bytes.data[at + 2] : 0);
        const char four[] = {table[bits >> 18], table[bits >> 12 & 63], left > 1 ? table[bits >> 6 & 63] : '=',
                             left > 2 ? table[bits & 63] : '='};
        buffer_append(out, four, sizeof four);
    }
    buffer_append(out, "\"", 1);
}

static bool items_append(Buffer *out, const Node *node, int64_t row, Failure *failure) {
    bool is_map = node->write == WRITE_MAP;
    int64_t first, end;
    if (!node_items(node, row, &first, &end)) {
        return fails(failure, node, BAD_OFFSETS);
    }
    int64_t shift = is_map ? node->array->children[0]->offset : 0;
    buffer_append(out, is_map ? "{" : "[", 1);
    for (int64_t item = first + shift; item < end + shift && !out->exhausted; item++) {
        if (item > first + shift) {
            buffer_append(out, ",", 1);
        }
        if (!json_write(out, &node->children[0], item, failure)) {
            return false;
        }
        if (is_map) {
            buffer_append(out, ":", 1);
            if (!json_write(out, &node->children[1], item, failure)) {
                return false;
            }
        }
    }
    buffer_append(out, is_map ? "}" : "]", 1);
    return true;
}

static bool record_append(Buffer *out, const Node *node, int64_t row, Failure *failure) {
    bool is_first = true;
    buffer_append(out, "{", 1);
    for (int index = 0; index < node->count; index++) {
        const Node *field = &node->children[index];
        if (field->null_branch == NO_BRANCH && node_is_null(field, row)) {
            continue;
        }
        if (!is_first) {
            buffer_append(out, ",", 1);
        }
        is_first = false;
        buffer_append(out, field->text, field->text_size); /* its name, a colon */
        if (!json_write(out, field, row, failure)) {
            return false;
        }
    }
    buffer_append(out, "}", 1);
    return true;
}

bool json_write(Buffer *out, const Node *node, int64_t row, Failure *failure) {
    Bytes bytes = {0};
    bool negative;
    int64_t number;
    if (node_is_null(node, row)) {
        buffer_append(out, "null", 4);
        return node->null_branch != NULL_REFUSED || fails(failure, node, NULL_VALUE);
    }
    switch (node->write) {
    case WRITE_BOOLEAN:
        negative = !node_boolean(node, row);
        buffer_append(out, negative ? "false" : "true", negative ? 5 : 4);
        return true;
    case WRITE_INTEGER:
    case WRITE_DATE:
    case WRITE_TIMESTAMP:
    case WRITE_LOCAL_TIMESTAMP:
        if (!node_integer(node, row, &number)) {
            return fails(failure, node, OUT_OF_RANGE);
        }
        if (node->write == WRITE_INTEGER) {
            integer_text(out, number);
            return true;
        }
        buffer_append(out, "\"", 1);
        if (node->write == WRITE_DATE) {
            date_text(out, number);
        } else {
            timestamp_text(out, number, node->number);
        }
        buffer_append(out, "Z\"" + (node->write != WRITE_TIMESTAMP), node->write == WRITE_TIMESTAMP ? 2 : 1);
        return true;
    case WRITE_FLOAT:
    case WRITE_DOUBLE:
    case WRITE_JAVA_DOUBLE: {
        if (node->number == FINITE && !isfinite(node_double(node, row))) {
            return fails(failure, node, NOT_FINITE);
        }
        Digits wanted = node->write == WRITE_FLOAT    ? SHORTEST_FLOAT
                        : node->write == WRITE_DOUBLE ? SHORTEST_DOUBLE
                                                      : JAVA_DOUBLE;
        if (!double_text(out, node_double(node, row), wanted)) {
            out->exhausted = true;
        }
        return true;
    }
    case WRITE_DECIMAL: {
        unsigned __int128 value = node_decimal(node, row, &negative);
        decimal_text(out, value, negative, node->number, false);
        return true;
    }
    case WRITE_TEXT:
    case WRITE_BYTES:
    case WRITE_SYMBOL:
        if (!node_bytes(node, row, &bytes)) {
            return fails(failure, node, BAD_OFFSETS);
        }
        if (node->write == WRITE_SYMBOL && node_symbol(node, bytes) == NULL) {
            return fails(failure, node, NO_SYMBOL);
        }
        if (node->write == WRITE_BYTES) {
            base64_append(out, bytes);
        } else {
            text_append(out, bytes);
        }
        return true;
    case WRITE_LIST:
    case WRITE_MAP:
        return items_append(out, node, row, failure);
    default:
        return record_append(out, node, node_inner(node, row), failure);
    }
}

#include "utf8.h"

#include <string.h>

/* The length of the valid sequence at the start of the text, or 0 (the table of RFC 3629). */
static size_t sequence(const uint8_t *text, size_t size) {
    uint8_t first = text[0];
    if (first < 0x80) {
        return 1;
    }
    size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || size < length) {
        return 0;
    }
    uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (text[1] < low || text[1] > high) {
        return 0;
    }
    for (size_t index = 2; index < length; index++) {
        if ((text[index] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return length;
}

/* The bytes that Java's decoder replaces by one character where no valid sequence begins. */
static size_t malformed(const uint8_t *text, size_t size) {
    uint8_t first = text[0];
    if (first < 0xE0 || first > 0xF4 || size < 2) {
        return 1;
    }
    uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80; /* with ED it takes surrogates, too */
    uint8_t high = first == 0xF4 ? 0x8F : 0xBF;
    if (text[1] < low || text[1] > high) {
        return 1;
    }
    return size > 2 && (text[2] & 0xC0) == 0x80 ? 3 : 2;
}

bool utf8_is_valid(const char *text, size_t size) {
    const uint8_t *bytes = (const uint8_t *)text;
    size_t position = 0;
    while (position < size) {
        uint64_t eight;
        if (size - position >= sizeof eight) {
            memcpy(&eight, bytes + position, sizeof eight);
            if (!(eight & 0x8080808080808080)) {
                position += sizeof eight;
                continue;
            }
        }
        size_t step = sequence(bytes + position, size - position);
        if (step == 0) {
            return false;
        }
        position += step;
    }
    return true;
}

void utf8_append(Buffer *buffer, const char *text, size_t size) {
    const uint8_t *bytes = (const uint8_t *)text;
    size_t position = 0;
    while (position < size) {
        size_t valid = position;
        size_t step = 1;
        while (valid < size && (step = sequence(bytes + valid, size - valid)) > 0) {
            valid += step;
        }
        buffer_append(buffer, bytes + position, valid - position);
        position = valid;
        if (position < size) {
            buffer_append(buffer, "\xEF\xBF\xBD", 3);
            position += malformed(bytes + position, size - position);
        }
    }
}

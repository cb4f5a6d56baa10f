#include "input.h"

#include <string.h>

static bool is_valid(const Nulls *nulls, int64_t row) {
    int64_t bit = row + nulls->offset;
    return nulls->validity == NULL || nulls->validity[bit / 8] & 1 << bit % 8;
}

static Nulls nulls_of(const struct ArrowArray *array) {
    return (Nulls){.validity = array->null_count == 0 ? NULL : array->buffers[0], .offset = array->offset};
}

static BytesInput bytes_input(const struct ArrowArray *array, bool large) {
    if (array->release == NULL) {
        return (BytesInput){0};
    }
    return (BytesInput){
        .present = true,
        .large = large,
        .nulls = nulls_of(array),
        .ends = array->buffers[1],
        .data = array->buffers[2],
    };
}

static FixedInput fixed_input(const struct ArrowArray *array) {
    if (array->release == NULL) {
        return (FixedInput){0};
    }
    return (FixedInput){.present = true, .nulls = nulls_of(array), .values = array->buffers[1]};
}

static HeadersInput headers_input(const struct ArrowArray *array) {
    if (array->release == NULL) {
        return (HeadersInput){0};
    }
    const struct ArrowArray *structs = array->children[0];
    return (HeadersInput){
        .present = true,
        .nulls = nulls_of(array),
        .ends = array->buffers[1],
        /* A slice of a struct array does not slice its fields: add the struct's offset to index them. */
        .structs = nulls_of(structs),
        .key = bytes_input(structs->children[0], false),
        .value = bytes_input(structs->children[1], false),
    };
}

void input_open(Input *input, int64_t rows, const struct ArrowArray *arrays, unsigned large) {
    *input = (Input){
        .rows = rows,
        .value = bytes_input(&arrays[INPUT_VALUE], large & 1u << INPUT_VALUE),
        .key = bytes_input(&arrays[INPUT_KEY], large & 1u << INPUT_KEY),
        .topic = bytes_input(&arrays[INPUT_TOPIC], large & 1u << INPUT_TOPIC),
        .partition = fixed_input(&arrays[INPUT_PARTITION]),
        .timestamp = fixed_input(&arrays[INPUT_TIMESTAMP]),
        .headers = headers_input(&arrays[INPUT_HEADERS]),
    };
}

Bytes bytes_at(const BytesInput *input, int64_t row) {
    if (!input->present || !is_valid(&input->nulls, row)) {
        return (Bytes){NULL, 0};
    }
    int64_t at = row + input->nulls.offset;
    int64_t start, end;
    if (input->large) {
        start = ((const int64_t *)input->ends)[at];
        end = ((const int64_t *)input->ends)[at + 1];
    } else {
        start = ((const int32_t *)input->ends)[at];
        end = ((const int32_t *)input->ends)[at + 1];
    }
    if (start == end) {
        return (Bytes){(const uint8_t *)"", 0}; /* empty is not null, even without a data buffer */
    }
    return (Bytes){input->data + start, (size_t)(end - start)};
}

bool int32_at(const FixedInput *input, int64_t row, int32_t *value) {
    if (!input->present || !is_valid(&input->nulls, row)) {
        return false;
    }
    *value = ((const int32_t *)input->values)[row + input->nulls.offset];
    return true;
}

bool int64_at(const FixedInput *input, int64_t row, int64_t *value) {
    if (!input->present || !is_valid(&input->nulls, row)) {
        return false;
    }
    *value = ((const int64_t *)input->values)[row + input->nulls.offset];
    return true;
}

void headers_at(const HeadersInput *input, int64_t row, int64_t *first, int64_t *end) {
    *first = *end = 0;
    if (input->present && is_valid(&input->nulls, row)) {
        *first = input->ends[row + input->nulls.offset];
        *end = input->ends[row + input->nulls.offset + 1];
    }
}

bool header_is_at(const HeadersInput *input, int64_t number) { return is_valid(&input->structs, number); }

Bytes header_key_at(const HeadersInput *input, int64_t number) {
    return bytes_at(&input->key, number + input->structs.offset);
}

Bytes header_value_at(const HeadersInput *input, int64_t number) {
    return bytes_at(&input->value, number + input->structs.offset);
}

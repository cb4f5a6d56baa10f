/* Reads the columns of an Arrow batch row by row; supports slices with offsets. */
#ifndef KAFKASPARK_INPUT_H
#define KAFKASPARK_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arrow_abi.h"

/* In the order in which Python exports them. */
enum { INPUT_VALUE, INPUT_KEY, INPUT_TOPIC, INPUT_PARTITION, INPUT_TIMESTAMP, INPUT_HEADERS, INPUT_COUNT };

typedef struct {
    const uint8_t *validity; /* NULL: every row is valid */
    int64_t offset;
} Nulls;

typedef struct {
    bool present;
    bool large; /* 64-bit offsets */
    Nulls nulls;
    const void *ends;
    const uint8_t *data;
} BytesInput;

typedef struct {
    bool present;
    Nulls nulls;
    const void *values;
} FixedInput;

typedef struct {
    bool present;
    Nulls nulls;
    const int32_t *ends;
    Nulls structs;
    BytesInput key, value;
} HeadersInput;

typedef struct {
    int64_t rows;
    BytesInput value, key, topic;
    FixedInput partition, timestamp;
    HeadersInput headers;
} Input;

typedef struct {
    const uint8_t *data; /* NULL: null */
    size_t size;
} Bytes;

/* Reads the arrays' structures without owning them; an array without a release is absent. `large` has the bit of each
 * column with 64-bit offsets. */
void input_open(Input *input, int64_t rows, const struct ArrowArray *arrays, unsigned large);

Bytes bytes_at(const BytesInput *input, int64_t row);

/* True: the row is not null, and `value` is set. */
bool int32_at(const FixedInput *input, int64_t row, int32_t *value);
bool int64_at(const FixedInput *input, int64_t row, int64_t *value);

/* The numbers of a row's headers, from `first` to before `end`; none if the list is null. */
void headers_at(const HeadersInput *input, int64_t row, int64_t *first, int64_t *end);
/* Whether the header is not null. */
bool header_is_at(const HeadersInput *input, int64_t number);
Bytes header_key_at(const HeadersInput *input, int64_t number);
Bytes header_value_at(const HeadersInput *input, int64_t number);

#endif

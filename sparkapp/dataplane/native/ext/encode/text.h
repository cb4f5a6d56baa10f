/* Numbers and times as text, in the notation of Java, and so of Spark. */
#ifndef KAFKASPARK_TEXT_H
#define KAFKASPARK_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "buffer.h"

void integer_text(Buffer *out, int64_t value);
typedef enum { SHORTEST_FLOAT, SHORTEST_DOUBLE, JAVA_DOUBLE } Digits;
/* The shortest digits that are read as the same number, or those of Java 17. Needs the GIL. False: no memory. */
bool double_text(Buffer *out, double value, Digits wanted);
/* With an exponent where BigDecimal.toString has one, or as BigDecimal.toPlainString. */
void decimal_text(Buffer *out, unsigned __int128 value, bool negative, int64_t scale, bool plain);
void date_text(Buffer *out, int64_t days);
/* Milliseconds of UTC; finer units are cut off. */
void timestamp_text(Buffer *out, int64_t value, int64_t units_a_second);

#endif

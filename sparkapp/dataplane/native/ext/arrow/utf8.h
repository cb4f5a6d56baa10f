/* Header names are bytes in the protocol but strings in Arrow, whose readers may rely on valid UTF-8. */
#ifndef KAFKASPARK_UTF8_H
#define KAFKASPARK_UTF8_H

#include "buffer.h"

/* Appends text; bytes outside valid UTF-8 become U+FFFD, as often as in Java's decoder. */
void utf8_append(Buffer *buffer, const char *text, size_t size);

bool utf8_is_valid(const char *text, size_t size);

#endif

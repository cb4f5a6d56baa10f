/* Header names are bytes in the protocol but strings in Arrow, whose readers may rely on valid UTF-8. */
#ifndef KAFKASPARK_UTF8_H
#define KAFKASPARK_UTF8_H

#include "buffer.h"

/* Appends text; each byte outside valid UTF-8 becomes U+FFFD, as in a Java client. */
void utf8_append(Buffer *buffer, const char *text, size_t size);

bool utf8_is_valid(const char *text, size_t size);

#endif

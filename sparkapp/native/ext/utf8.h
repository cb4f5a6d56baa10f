/* Header names are bytes on the wire but strings in Arrow, whose readers may rely on valid UTF-8. */
#ifndef KAFKASPARK_UTF8_H
#define KAFKASPARK_UTF8_H

#include "buffer.h"

/* Appends text; each byte that is not part of valid UTF-8 becomes U+FFFD, as a Java client shows it. */
void utf8_append(Buffer *buffer, const char *text, size_t size);

#endif

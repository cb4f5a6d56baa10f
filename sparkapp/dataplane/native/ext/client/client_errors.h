/* Errors that belong to no call, from librdkafka's error callback and from partition queues; kept until Python takes
 * them. */
#ifndef KAFKASPARK_CLIENT_ERRORS_H
#define KAFKASPARK_CLIENT_ERRORS_H

#include <Python.h>
#include <pthread.h>
#include <stdint.h>

enum { CLIENT_ERRORS_KEPT = 32, CLIENT_ERROR_TEXT = 512 };

typedef struct {
    int code;
    int number; /* of the partition queue; -1: the client as a whole */
    char text[CLIENT_ERROR_TEXT];
} ClientError;

typedef struct {
    pthread_mutex_t lock;
    int count; /* at most CLIENT_ERRORS_KEPT: the first errors explain more than later errors */
    ClientError kept[CLIENT_ERRORS_KEPT];
} ClientErrors;

void client_errors_init(ClientErrors *errors);
void client_errors_destroy(ClientErrors *errors);

/* Called by any thread, without the GIL. */
void client_errors_add(ClientErrors *errors, int code, int number, const char *text, size_t size);

/* List of (code, text, number), which this call removes; NULL with a Python error set. Needs the GIL. */
PyObject *client_errors_take(ClientErrors *errors);

#endif

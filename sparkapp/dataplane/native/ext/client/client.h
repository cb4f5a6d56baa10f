/* Shared by consumer and producer: opening and closing a librdkafka client, and raising its errors in Python. */
#ifndef KAFKASPARK_CLIENT_H
#define KAFKASPARK_CLIENT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <sys/types.h>

#include "client_errors.h"
#include "rdkafka.h"

typedef struct {
    rd_kafka_t *rk; /* NULL once closed */
    pid_t owner;    /* librdkafka's threads do not survive a fork: a child must not use the client */
    bool busy;      /* a call runs without the GIL */
    ClientErrors errors;
    char *statistics;    /* newest JSON not yet taken; owned by the client (malloc), guarded by the lock of errors */
    PyObject *token_of;  /* function from sasl.oauthbearer.config to (token, seconds since 1970, principal); or NULL */
    long long throttled; /* milliseconds of throttling by brokers since the last take; same lock */
} Client;

/* Exception Failure(code, text, retriable), and its subclass for a configuration that librdkafka refuses. */
extern PyObject *Failure;
extern PyObject *BadConfiguration;

/* Creates the two exceptions in the module; called by the module's initialisation. */
int client_add_exceptions(PyObject *module);

/* Callbacks that only one kind of client has; NULL: none. `opened` is called within client_open(). */
typedef struct {
    rd_kafka_dr_msg_cb *delivered;
    rd_kafka_on_new_cb *opened;
    rd_kafka_partitioner_cb *partitioner; /* the configuration must have a property of topics */
} ClientCallbacks;

/* Opens a client from a mapping of strings; the callbacks receive `opaque`. `token_of` is called for each token, from a
 * thread of librdkafka; NULL without tokens. False: a Python error is set. */
bool client_open(Client *client, int kind, PyObject *config, PyObject *token_of, ClientCallbacks callbacks,
                 void *opaque);

/* Closes the client; the caller has returned all its queues and topics before. Releases the GIL meanwhile. */
void client_close(Client *client);

/* Whether a call may start: the client is open, this process opened it, and no other thread uses it. Otherwise sets a
 * Python error. */
bool client_enter(Client *client);
void client_leave(Client *client);

/* Keeps an error of the whole client; librdkafka's error callback. The client's `opaque` must be a Client. */
void client_keep_error(rd_kafka_t *rk, int code, const char *reason, void *opaque);

/* Method take_statistics() of consumer and producer: (JSON or None, milliseconds of throttling), then reset. */
extern const char client_statistics_doc[];
PyObject *client_take_statistics(Client *client);

/* Method rejoin() of consumer and producer: adds the bootstrap brokers again if the client knows no broker. */
extern const char client_rejoin_doc[];
PyObject *client_rejoin(Client *client, PyObject *bootstrap);

/* None for NULL; otherwise raises Failure and destroys the error. */
PyObject *client_answer(Client *client, rd_kafka_error_t *error);

/* Raises Failure and returns NULL. In a fatal state, raises the error that caused the state instead. */
PyObject *client_fail(Client *client, int code, const char *text, bool retriable);

#endif

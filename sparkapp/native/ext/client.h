/* What consumer and producer share: opening and ending a librdkafka client, and turning its errors into Python's. */
#ifndef KAFKASPARK_CLIENT_H
#define KAFKASPARK_CLIENT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <sys/types.h>

#include "notes.h"
#include "rdkafka.h"

typedef struct {
    rd_kafka_t *rk; /* NULL once closed */
    pid_t owner;    /* librdkafka's threads do not survive a fork: a child leaves the client alone */
    bool busy;      /* a call runs without the GIL */
    Notes notes;
    char *statistics;        /* the newest JSON that nobody has taken; from malloc(), guarded by the notes' lock */
    long long throttled;     /* milliseconds for which brokers have held back answers since they were last taken */
} Client;

/* Exception Failure(code, text, retriable), and its subclass for a configuration that librdkafka refuses. */
extern PyObject *Failure;
extern PyObject *BadConfiguration;

/* Creates the two exceptions in the module; called by its initialisation. */
int client_add_exceptions(PyObject *module);

/* Opens a client from a mapping of strings; `opaque` goes to the callbacks. False: a Python error is set. */
bool client_open(Client *client, int kind, PyObject *config, rd_kafka_dr_msg_cb *delivered, void *opaque);

/* Ends the client, with everything of it already given back; without the GIL inside. */
void client_close(Client *client);

/* Whether a call may go on: open, in the process that opened it, in no other thread. Else sets a Python error. */
bool client_enter(Client *client);
void client_leave(Client *client);

/* Notes an error of the whole client; librdkafka's callback. `opaque` of the client must be a Client. */
void client_note_error(rd_kafka_t *rk, int code, const char *reason, void *opaque);

/* Method take_statistics() of consumer and producer: (JSON or None, milliseconds of throttling), which start anew. */
extern const char client_statistics_doc[];
PyObject *client_take_statistics(Client *client);

/* Method rejoin() of consumer and producer: brokers to begin with again, if the client knows none any more. */
extern const char client_rejoin_doc[];
PyObject *client_rejoin(Client *client, PyObject *bootstrap);

/* None for NULL; else raises Failure and destroys the error. */
PyObject *client_answer(Client *client, rd_kafka_error_t *error);

/* Raises Failure; a fatal state is replaced by the error that caused it. Returns NULL. */
PyObject *client_fail(Client *client, int code, const char *text, bool retriable);

#endif

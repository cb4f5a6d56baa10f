/* The consumer's object and the methods that change what it is assigned. */
#ifndef KAFKASPARK_CONSUMER_H
#define KAFKASPARK_CONSUMER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

#include "client.h"
#include "columns.h"
#include "lanes.h"

typedef struct {
    PyObject_HEAD
    Client client;
    rd_kafka_queue_t *events;
    Lanes lanes;
    bool has_lanes;
    struct ArrowArray exported[COLUMN_COUNT]; /* until Python has imported them */
} Consumer;

/* The lane of a number that Python gave, or NULL with an error set. */
Lane *consumer_lane(Consumer *self, long number);

/* Methods assign() and unassign(). */
extern const char consumer_assign_doc[], consumer_unassign_doc[];
PyObject *consumer_assign(Consumer *self, PyObject *positions);
PyObject *consumer_unassign(Consumer *self, PyObject *numbers);

/* Type Consumer of the extension; sparkapp.native.native_consumer is its only user. */
int consumer_add_type(PyObject *module);

#endif

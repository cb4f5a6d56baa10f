/* The consumer's object, and the methods that change its assignment. */
#ifndef KAFKASPARK_CONSUMER_H
#define KAFKASPARK_CONSUMER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

#include "client.h"
#include "columns.h"
#include "partition_queue.h"

typedef struct {
    PyObject_HEAD
    Client client;
    rd_kafka_queue_t *events;
    PartitionQueues queues;
    bool has_queues;
    struct ArrowArray exported[COLUMN_COUNT]; /* owned by the consumer until Python has imported them */
} Consumer;

/* The partition queue of a number from Python, or NULL with an error set. */
PartitionQueue *consumer_partition_queue(Consumer *self, long number);

/* Methods assign() and unassign(). */
extern const char consumer_assign_doc[], consumer_unassign_doc[];
PyObject *consumer_assign(Consumer *self, PyObject *positions);
PyObject *consumer_unassign(Consumer *self, PyObject *numbers);

/* Type Consumer of the extension; sparkapp.dataplane.native.consumer is its only user. */
int consumer_add_type(PyObject *module);

#endif

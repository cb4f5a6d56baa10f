/* The producer's object and its transactional methods. */
#ifndef KAFKASPARK_PRODUCER_H
#define KAFKASPARK_PRODUCER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>

#include "client.h"
#include "deliveries.h"
#include "input.h"
#include "run.h"
#include "topics.h"

/* Kafka's API keys 24 to 28: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers and TxnOffsetCommit. */
enum { FIRST_COUNTED = 24, COUNTED = 5 };

typedef struct {
    PyObject_HEAD
    Client client;
    Topics topics;
    Run run; /* of the imported rows */
    Deliveries deliveries; /* written in poll, flush and abort only, hence by a single thread */
    FailedRecord refused;  /* of the last produce() that failed */
    atomic_long sent[COUNTED]; /* requests since the last take; written by librdkafka's threads */
    struct ArrowArray imported[INPUT_COUNT];
} Producer;

/* The transactional methods; each argument is the time to wait in milliseconds. A repeated call resumes a method that
 * timed out. */
PyObject *producer_init_transactions(Producer *self, PyObject *wait_millis);
PyObject *producer_begin_transaction(Producer *self, PyObject *nothing);
PyObject *producer_commit_transaction(Producer *self, PyObject *wait_millis);
PyObject *producer_abort_transaction(Producer *self, PyObject *wait_millis);
extern const char producer_send_offsets_doc[];
PyObject *producer_send_offsets(Producer *self, PyObject *arguments);

/* Type Producer of the extension; sparkapp.dataplane.native.producer is its only user. */
int producer_add_type(PyObject *module);

#endif

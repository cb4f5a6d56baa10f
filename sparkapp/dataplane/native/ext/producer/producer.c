#include "producer.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "produce.h"

static void count_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    deliveries_count(&((Producer *)((char *)opaque - offsetof(Producer, client)))->deliveries, message);
}

/* librdkafka calls this for each request that the kernel has taken in whole: in the thread of the broker's connection,
 * before the answer is read. So the requests of a call that has returned are counted. */
static rd_kafka_resp_err_t count_request(rd_kafka_t *rk, int socket, const char *broker_name, int32_t broker_id,
                                         int16_t api_key, int16_t api_version, int32_t correlation_id, size_t size,
                                         void *opaque) {
    Producer *self = (Producer *)((char *)opaque - offsetof(Producer, client));
    if (api_key >= FIRST_COUNTED && api_key < FIRST_COUNTED + COUNTED) {
        atomic_fetch_add(&self->sent[api_key - FIRST_COUNTED], 1);
    }
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t count_requests(rd_kafka_t *rk, const rd_kafka_conf_t *conf, void *opaque, char *text,
                                          size_t size) {
    return rdkafka.interceptor_add_on_request_sent(rk, "kafkaspark", count_request, opaque);
}

static void release_imported(Producer *self) {
    run_drop(&self->run);
    for (int column = 0; column < INPUT_COUNT; column++) {
        if (self->imported[column].release != NULL) {
            self->imported[column].release(&self->imported[column]);
        }
        self->imported[column].release = NULL;
    }
}

static void shut(Producer *self) {
    release_imported(self);
    if (self->client.rk != NULL && self->client.owner == getpid()) {
        /* No queued record may be sent after the caller has closed the producer. */
        rdkafka.purge(self->client.rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                           RD_KAFKA_PURGE_F_NON_BLOCKING);
        topics_clear(&self->topics);
    }
    run_free(&self->run);
    client_close(&self->client);
    partition_set_free(&self->deliveries.partitions);
}

static int producer_init(Producer *self, PyObject *arguments, PyObject *keywords) {
    PyObject *config, *token_of = NULL;
    if (!PyArg_ParseTuple(arguments, "O!|O", &PyDict_Type, &config, &token_of)) {
        return -1;
    }
    if (self->client.rk != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the producer is open already");
        return -1;
    }
    PyObject *partitioner = PyDict_GetItemString(config, "partitioner");
    bool is_ours = partitioner != NULL && PyUnicode_Check(partitioner) &&
                   PyUnicode_CompareWithASCIIString(partitioner, "murmur2_random") == 0;
    const ClientCallbacks callbacks = {
        .delivered = count_delivery,
        .opened = count_requests,
        .partitioner = is_ours ? partitioner_call : NULL,
    };
    return client_open(&self->client, RD_KAFKA_PRODUCER, config, token_of, callbacks, &self->client) ? 0 : -1;
}

static void producer_dealloc(Producer *self) {
    PyTypeObject *type = Py_TYPE(self);
    shut(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(close_doc, "close()\n\nCloses the client. Unsent records are dropped; an open transaction stays open.");
static PyObject *producer_close(Producer *self, PyObject *nothing) {
    if (self->client.rk == NULL) {
        Py_RETURN_NONE;
    }
    if (!client_enter(&self->client)) {
        return NULL;
    }
    shut(self);
    client_leave(&self->client);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(slots_doc, "slots() -> list[int]\n\nAddresses of the ArrowArray structures that produce() reads: value, "
                        "key, topic, partition, timestamp, headers. Empty after each call.");
static PyObject *producer_slots(Producer *self, PyObject *nothing) {
    if (!client_enter(&self->client)) {
        return NULL;
    }
    release_imported(self);
    PyObject *list = PyList_New(INPUT_COUNT);
    for (int column = 0; list != NULL && column < INPUT_COUNT; column++) {
        PyObject *address = PyLong_FromVoidPtr(&self->imported[column]);
        if (address == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, column, address);
    }
    client_leave(&self->client);
    return list;
}

PyDoc_STRVAR(produce_doc, "produce(topic, rows, large, first, wait_millis) -> int\n\n"
                          "Produces the imported rows from first on; returns the next row, which is below rows if "
                          "the queue stayed full. Raises Failure for a row that librdkafka refuses.");
static PyObject *producer_produce(Producer *self, PyObject *arguments) {
    const char *topic;
    Py_ssize_t topic_size;
    long long rows, first;
    unsigned large;
    int wait_millis;
    if (!PyArg_ParseTuple(arguments, "s#LILi", &topic, &topic_size, &rows, &large, &first, &wait_millis) ||
        !client_enter(&self->client)) {
        return NULL;
    }
    Input input;
    Produced produced;
    FailedRecord refused;
    const Bytes default_topic = {(const uint8_t *)topic, (size_t)topic_size};
    input_open(&input, rows, self->imported, large);
    Py_BEGIN_ALLOW_THREADS
    produced = produce_rows(self->client.rk, &self->topics, &self->run, &input,
                            default_topic, first, wait_millis);
    if (produced.code != 0) {
        Bytes name = topic_at(&input, produced.refused, default_topic);
        failed_record_keep(&refused, name, -1, bytes_at(&input.key, produced.refused),
                           bytes_at(&input.value, produced.refused));
    }
    Py_END_ALLOW_THREADS
    if (produced.code != 0 || produced.next == rows) {
        release_imported(self);
    }
    PyObject *answer;
    if (produced.code != 0) {
        /* flush() must not call it complete */
        deliveries_fail(&self->deliveries, produced.code, produced.text, &refused);
        self->refused = refused;
        answer = client_fail(&self->client, produced.code, produced.text, false);
    } else {
        answer = PyLong_FromLongLong(produced.next);
    }
    client_leave(&self->client);
    return answer;
}

PyDoc_STRVAR(flush_doc, "flush(wait_millis) -> int\n\n"
                        "Waits for delivery reports; returns the number of missing reports.");
static PyObject *producer_flush(Producer *self, PyObject *argument) {
    long wait_millis = PyLong_AsLong(argument);
    if ((wait_millis == -1 && PyErr_Occurred()) || !client_enter(&self->client)) {
        return NULL;
    }
    int left;
    Py_BEGIN_ALLOW_THREADS
    rdkafka.flush(self->client.rk, (int)wait_millis);
    left = rdkafka.outq_len(self->client.rk);
    Py_END_ALLOW_THREADS
    client_leave(&self->client);
    return PyLong_FromLong(left);
}

PyDoc_STRVAR(take_deliveries_doc, "take_deliveries() -> (acknowledged, failed, code, text, record)\n\n"
                                  "Counts since the last call, and the first failure with its record; then reset.");
static PyObject *producer_take_deliveries(Producer *self, PyObject *nothing) {
    if (!client_enter(&self->client)) {
        return NULL;
    }
    PyObject *taken = deliveries_take(&self->deliveries);
    client_leave(&self->client);
    return taken;
}

PyDoc_STRVAR(take_partitions_doc, "take_partitions() -> list[tuple[str, int]]\n\n"
                                  "Partitions that delivery reports have named since the last call; then reset.");
static PyObject *producer_take_partitions(Producer *self, PyObject *nothing) {
    if (!client_enter(&self->client)) {
        return NULL;
    }
    PyObject *taken = deliveries_take_partitions(&self->deliveries);
    client_leave(&self->client);
    return taken;
}

PyDoc_STRVAR(refused_doc, "refused() -> record\n\nThe record that produce() has last raised Failure for; or None.");
static PyObject *producer_refused(Producer *self, PyObject *nothing) { return failed_record_take(&self->refused); }

PyDoc_STRVAR(take_sent_doc, "take_sent() -> dict[int, int]\n\n"
                            "Requests of transactions that were sent since the last call, by API key; then reset.");
static PyObject *producer_take_sent(Producer *self, PyObject *nothing) {
    PyObject *counts = PyDict_New();
    for (int index = 0; counts != NULL && index < COUNTED; index++) {
        PyObject *key = PyLong_FromLong(FIRST_COUNTED + index);
        PyObject *count = PyLong_FromLong(atomic_exchange(&self->sent[index], 0));
        if (key == NULL || count == NULL || PyDict_SetItem(counts, key, count) < 0) {
            Py_CLEAR(counts);
        }
        Py_XDECREF(key);
        Py_XDECREF(count);
    }
    return counts;
}

PyDoc_STRVAR(take_errors_doc, "take_errors() -> list[tuple[int, str, int]]\n\n"
                              "(code, text, -1) of errors since the last call.");
static PyObject *producer_take_errors(Producer *self, PyObject *nothing) {
    if (!client_enter(&self->client)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    rdkafka.poll(self->client.rk, 0); /* the error callback runs in here */
    Py_END_ALLOW_THREADS
    client_leave(&self->client);
    return client_errors_take(&self->client.errors);
}

static PyObject *producer_rejoin(Producer *self, PyObject *bootstrap) {
    return client_rejoin(&self->client, bootstrap);
}

static PyObject *producer_take_statistics(Producer *self, PyObject *nothing) {
    return client_take_statistics(&self->client);
}

static PyMethodDef methods[] = {
    {"take_statistics", (PyCFunction)producer_take_statistics, METH_NOARGS, client_statistics_doc},
    {"slots", (PyCFunction)producer_slots, METH_NOARGS, slots_doc},
    {"produce", (PyCFunction)producer_produce, METH_VARARGS, produce_doc},
    {"flush", (PyCFunction)producer_flush, METH_O, flush_doc},
    {"take_deliveries", (PyCFunction)producer_take_deliveries, METH_NOARGS, take_deliveries_doc},
    {"take_partitions", (PyCFunction)producer_take_partitions, METH_NOARGS, take_partitions_doc},
    {"refused", (PyCFunction)producer_refused, METH_NOARGS, refused_doc},
    {"take_sent", (PyCFunction)producer_take_sent, METH_NOARGS, take_sent_doc},
    {"take_errors", (PyCFunction)producer_take_errors, METH_NOARGS, take_errors_doc},
    {"rejoin", (PyCFunction)producer_rejoin, METH_O, client_rejoin_doc},
    {"init_transactions", (PyCFunction)producer_init_transactions, METH_O, "init_transactions(wait_millis)"},
    {"begin_transaction", (PyCFunction)producer_begin_transaction, METH_NOARGS, "begin_transaction()"},
    {"send_offsets", (PyCFunction)producer_send_offsets, METH_VARARGS, producer_send_offsets_doc},
    {"commit_transaction", (PyCFunction)producer_commit_transaction, METH_O, "commit_transaction(wait_millis)"},
    {"abort_transaction", (PyCFunction)producer_abort_transaction, METH_O, "abort_transaction(wait_millis)"},
    {"close", (PyCFunction)producer_close, METH_NOARGS, close_doc},
    {0},
};

PyDoc_STRVAR(producer_doc, "Producer(config: dict[str, str], token_of)\n\nProduces Arrow columns row by row.");
static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)producer_doc},
    {Py_tp_init, producer_init},
    {Py_tp_dealloc, producer_dealloc},
    {Py_tp_methods, methods},
    {0},
};
static PyType_Spec spec = {
    .name = "sparkapp.dataplane.native._kafka_arrow.Producer",
    .basicsize = sizeof(Producer),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int producer_add_type(PyObject *module) {
    PyObject *type = PyType_FromSpec(&spec);
    int failed = type == NULL ? -1 : PyModule_AddObjectRef(module, "Producer", type);
    Py_XDECREF(type);
    return failed;
}

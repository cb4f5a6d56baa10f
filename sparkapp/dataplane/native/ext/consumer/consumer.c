#include "consumer.h"

#include <unistd.h>

static void release_exported(Consumer *self) {
    for (int column = 0; column < COLUMN_COUNT; column++) {
        if (self->exported[column].release != NULL) {
            self->exported[column].release(&self->exported[column]);
        }
    }
}

static void shut(Consumer *self) {
    release_exported(self);
    bool ours = self->client.rk != NULL && self->client.owner == getpid();
    if (ours && self->events != NULL) {
        /* Before the partition queues: until then a librdkafka thread may be in wake_up(), which takes their lock. */
        rdkafka.queue_cb_event_enable(self->events, NULL, NULL);
        rdkafka.queue_destroy(self->events);
        self->events = NULL;
    }
    if (ours && self->has_queues) {
        partition_queues_destroy(&self->queues);
        self->has_queues = false;
    }
    client_close(&self->client);
}

static int consumer_init(Consumer *self, PyObject *arguments, PyObject *keywords) {
    PyObject *config, *token_of = NULL;
    if (!PyArg_ParseTuple(arguments, "O!|O", &PyDict_Type, &config, &token_of)) {
        return -1;
    }
    if (self->client.rk != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the consumer is open already");
        return -1;
    }
    if (!client_open(&self->client, RD_KAFKA_CONSUMER, config, token_of, (ClientCallbacks){0}, &self->client)) {
        return -1;
    }
    self->has_queues = true;
    if (!partition_queues_init(&self->queues)) {
        PyErr_NoMemory();
        return -1;
    }
    /* The consumer's queue then has the client's callbacks and errors, too; there is no second queue to serve. */
    rdkafka.poll_set_consumer(self->client.rk);
    self->events = rdkafka.queue_get_consumer(self->client.rk);
    if (self->events == NULL) {
        PyErr_SetString(BadConfiguration, "a consumer without group.id has no queue");
        return -1;
    }
    rdkafka.queue_cb_event_enable(self->events, wake_up, &self->queues.wake);
    return 0;
}

static void consumer_dealloc(Consumer *self) {
    PyTypeObject *type = Py_TYPE(self);
    shut(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(close_doc, "close()\n\nCloses the client; nothing is committed.");
static PyObject *consumer_close(Consumer *self, PyObject *nothing) {
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

PyDoc_STRVAR(begin_doc, "begin(stops: list[tuple[int, int]])\n\n"
                        "Starts a read of these partition queues (number, stop).");
static PyObject *consumer_begin(Consumer *self, PyObject *stops) {
    if (!PyList_Check(stops) || !client_enter(&self->client)) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "a list is needed");
    }
    for (size_t index = 0; index < self->queues.count; index++) {
        self->queues.slots[index].wanted = false;
    }
    PartitionQueue *queue = NULL;
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(stops); index++) {
        int number;
        long long stop;
        bool read = PyArg_ParseTuple(PyList_GET_ITEM(stops, index), "iL", &number, &stop);
        queue = read ? consumer_partition_queue(self, number) : NULL;
        if (queue == NULL) {
            break;
        }
        queue->stop = stop;
        queue->wanted = true;
    }
    client_leave(&self->client);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* (rows, addresses of the columns of the mask, moved, partition queues left); NULL with an error set. */
static PyObject *hand_over(Consumer *self, Columns *columns, Gathered gathered) {
    PyObject *addresses = PyList_New(0);
    for (int column = 0; addresses != NULL && gathered.rows > 0 && column < COLUMN_COUNT; column++) {
        if (!(columns->mask & 1u << column)) {
            continue;
        }
        PyObject *address = NULL;
        if (columns_finish(columns, column, &self->exported[column])) {
            address = PyLong_FromVoidPtr(&self->exported[column]);
        } else {
            PyErr_NoMemory();
        }
        if (address == NULL || PyList_Append(addresses, address) < 0) {
            Py_CLEAR(addresses);
        }
        Py_XDECREF(address);
    }
    if (addresses == NULL) {
        return NULL;
    }
    return Py_BuildValue("(LNOn)", (long long)gathered.rows, addresses, gathered.moved ? Py_True : Py_False,
                         (Py_ssize_t)partition_queues_unfinished(&self->queues));
}

PyDoc_STRVAR(gather_doc,
             "gather(columns, max_rows, max_bytes, wait_millis, linger_millis, from_start) -> "
             "(rows, addresses, moved, queues_left)\n\n"
             "Waits for the next batch of the partition queues of begin(): wait_millis for the first row or other "
             "progress, linger_millis for each further row; from_start: both from the begin of the call. Each address is an ArrowArray structure, in "
             "the order of the mask's columns. The caller must import them before the next call.");
static PyObject *consumer_gather(Consumer *self, PyObject *arguments) {
    unsigned mask;
    long long max_rows, max_bytes, wait_millis, linger_millis;
    int from_start;
    if (!PyArg_ParseTuple(arguments, "ILLLLp", &mask, &max_rows, &max_bytes, &wait_millis, &linger_millis,
                          &from_start) ||
        !client_enter(&self->client)) {
        return NULL;
    }
    release_exported(self);
    const int64_t most_bytes = 1 << 30; /* Arrow's offsets have 32 bits, and the last message may exceed the limit */
    Limits limits = {max_rows < 1 ? 1 : max_rows, max_bytes < 1 ? 1 : max_bytes, wait_millis, linger_millis,
                     from_start};
    if (limits.max_bytes > most_bytes) {
        limits.max_bytes = most_bytes;
    }
    int64_t expected = 0;
    for (size_t index = 0; index < self->queues.count && expected < limits.max_rows; index++) {
        PartitionQueue *queue = &self->queues.slots[index];
        expected += queue->wanted && queue->stop > queue->reached ? queue->stop - queue->reached : 0;
    }
    expected = expected < limits.max_rows ? expected : limits.max_rows;
    double bytes = self->queues.bytes_a_row * (double)expected;
    Columns columns;
    Gathered gathered;
    Py_BEGIN_ALLOW_THREADS
    columns_begin(&columns, mask, expected, bytes < (double)limits.max_bytes ? (size_t)bytes : (size_t)limits.max_bytes);
    gathered = partition_queues_gather(&self->queues, self->events, &self->client.errors, &columns, limits);
    if (gathered.rows > 0) {
        self->queues.bytes_a_row = 1.05 * (double)columns.value.data.length / (double)gathered.rows;
    }
    Py_END_ALLOW_THREADS
    PyObject *answer = hand_over(self, &columns, gathered);
    columns_free(&columns);
    client_leave(&self->client);
    return answer;
}

/* Not client_enter(): another thread may be in gather(). The queues are destroyed with the GIL held. */
static PyObject *signal_reader(Consumer *self, void (*signal)(Wake *)) {
    if (self->has_queues && self->client.owner == getpid()) {
        signal(&self->queues.wake);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(wake_doc, "wake()\n\nEnds the wait of the gather() under way, or of the next; from any thread.");
static PyObject *consumer_wake(Consumer *self, PyObject *nothing) { return signal_reader(self, call); }

PyDoc_STRVAR(interrupt_doc, "interrupt()\n\nEnds a gather() at once, and every later one; from any thread.");
static PyObject *consumer_interrupt(Consumer *self, PyObject *nothing) { return signal_reader(self, interrupt); }

PyDoc_STRVAR(positions_doc, "positions() -> list[tuple[str, int, int, int]]\n\n"
                            "(topic, partition, position, stop) of the partition queues below their stop.");
static PyObject *consumer_positions(Consumer *self, PyObject *nothing) {
    if (!client_enter(&self->client)) {
        return NULL;
    }
    PyObject *list = PyList_New(0);
    for (size_t index = 0; list != NULL && index < self->queues.count; index++) {
        PartitionQueue *queue = &self->queues.slots[index];
        if (!queue->wanted) {
            continue;
        }
        PyObject *item = Py_BuildValue("(siLL)", queue->topic, (int)queue->partition, (long long)queue->position,
                                       (long long)queue->stop);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    client_leave(&self->client);
    return list;
}

PyDoc_STRVAR(behind_doc, "behind() -> int\n\nOffsets between positions and the ends of the last fetch responses.");
static PyObject *consumer_behind(Consumer *self, PyObject *nothing) {
    if (!client_enter(&self->client)) {
        return NULL;
    }
    int64_t behind = 0, low, high;
    for (size_t index = 0; index < self->queues.count; index++) {
        PartitionQueue *queue = &self->queues.slots[index];
        if (queue->wanted && rdkafka.get_watermark_offsets(self->client.rk, queue->topic, queue->partition, &low, &high) == 0) {
            behind += high > queue->position ? high - queue->position : 0;
        }
    }
    client_leave(&self->client);
    return PyLong_FromLongLong(behind);
}

PyDoc_STRVAR(topic_error_doc, "topic_error(topic, wait_millis) -> int\n\n"
                              "Asks a broker about a topic; returns the error code of the topic or of the request.");
static PyObject *consumer_topic_error(Consumer *self, PyObject *arguments) {
    const char *topic;
    int wait_millis;
    if (!PyArg_ParseTuple(arguments, "si", &topic, &wait_millis) || !client_enter(&self->client)) {
        return NULL;
    }
    rd_kafka_resp_err_t error;
    Py_BEGIN_ALLOW_THREADS
    rd_kafka_topic_t *rkt = rdkafka.topic_new(self->client.rk, topic, NULL);
    if (rkt == NULL) {
        error = rdkafka.last_error();
    } else {
        const rd_kafka_metadata_t *metadata = NULL;
        error = rdkafka.metadata(self->client.rk, 0, rkt, &metadata, wait_millis);
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
            error = metadata->topic_cnt > 0 ? metadata->topics[0].err : error;
            rdkafka.metadata_destroy(metadata);
        }
        rdkafka.topic_destroy(rkt);
    }
    Py_END_ALLOW_THREADS
    client_leave(&self->client);
    return PyLong_FromLong(error);
}

static PyObject *consumer_rejoin(Consumer *self, PyObject *bootstrap) { return client_rejoin(&self->client, bootstrap); }

PyDoc_STRVAR(take_errors_doc, "take_errors() -> list[tuple[int, str, int]]\n\n"
                              "(code, text, number of the partition queue or -1) of errors since the last call.");
static PyObject *consumer_take_errors(Consumer *self, PyObject *nothing) {
    return self->client.rk == NULL ? PyList_New(0) : client_errors_take(&self->client.errors);
}

static PyObject *consumer_take_statistics(Consumer *self, PyObject *nothing) {
    return client_take_statistics(&self->client);
}

static PyMethodDef methods[] = {
    {"take_statistics", (PyCFunction)consumer_take_statistics, METH_NOARGS, client_statistics_doc},
    {"assign", (PyCFunction)consumer_assign, METH_O, consumer_assign_doc},
    {"unassign", (PyCFunction)consumer_unassign, METH_O, consumer_unassign_doc},
    {"begin", (PyCFunction)consumer_begin, METH_O, begin_doc},
    {"gather", (PyCFunction)consumer_gather, METH_VARARGS, gather_doc},
    {"wake", (PyCFunction)consumer_wake, METH_NOARGS, wake_doc},
    {"interrupt", (PyCFunction)consumer_interrupt, METH_NOARGS, interrupt_doc},
    {"positions", (PyCFunction)consumer_positions, METH_NOARGS, positions_doc},
    {"behind", (PyCFunction)consumer_behind, METH_NOARGS, behind_doc},
    {"topic_error", (PyCFunction)consumer_topic_error, METH_VARARGS, topic_error_doc},
    {"rejoin", (PyCFunction)consumer_rejoin, METH_O, client_rejoin_doc},
    {"take_errors", (PyCFunction)consumer_take_errors, METH_NOARGS, take_errors_doc},
    {"close", (PyCFunction)consumer_close, METH_NOARGS, close_doc},
    {0},
};

PyDoc_STRVAR(consumer_doc, "Consumer(config: dict[str, str], token_of)\n\nPartition queues of librdkafka, gathered into columns.");
static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)consumer_doc},
    {Py_tp_init, consumer_init},
    {Py_tp_dealloc, consumer_dealloc},
    {Py_tp_methods, methods},
    {0},
};
static PyType_Spec spec = {
    .name = "sparkapp.dataplane.native._kafka_arrow.Consumer",
    .basicsize = sizeof(Consumer),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int consumer_add_type(PyObject *module) {
    PyObject *type = PyType_FromSpec(&spec);
    int failed = type == NULL ? -1 : PyModule_AddObjectRef(module, "Consumer", type);
    Py_XDECREF(type);
    return failed;
}

#include "deliveries.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { NO_MEMORY = -200 }; /* no error code of librdkafka's */

void deliveries_count(Deliveries *deliveries, const rd_kafka_message_t *message) {
    if (message->partition != RD_KAFKA_PARTITION_UA &&
        !partition_set_add(&deliveries->partitions, message->rkt, message->partition)) {
        deliveries_fail(deliveries, NO_MEMORY, "no memory for the partition of a delivery report");
    } else if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        deliveries->acknowledged++;
    } else if (deliveries->failed == 0) {
        char text[FAILURE_TEXT];
        snprintf(text, sizeof text, "%s [%d]: %s", rdkafka.topic_name(message->rkt), (int)message->partition,
                 rdkafka.err2str(message->err));
        deliveries_fail(deliveries, message->err, text);
    } else {
        deliveries->failed++;
    }
}

void deliveries_fail(Deliveries *deliveries, int code, const char *text) {
    if (deliveries->failed++ == 0) {
        deliveries->first_code = code;
        snprintf(deliveries->first_text, sizeof deliveries->first_text, "%s", text);
    }
}

PyObject *deliveries_take(Deliveries *deliveries) {
    Deliveries taken = *deliveries;
    memset(deliveries, 0, offsetof(Deliveries, partitions));
    return Py_BuildValue("(LLis)", taken.acknowledged, taken.failed, taken.first_code, taken.first_text);
}

/* (topic, partition). A topic that no broker can have is reported, too, so its name may be any bytes. */
static PyObject *named(PartitionOfTopic one) {
    const char *name = rdkafka.topic_name(one.rkt);
    PyObject *text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace");
    return text == NULL ? NULL : Py_BuildValue("(Ni)", text, (int)one.partition);
}

PyObject *deliveries_take_partitions(Deliveries *deliveries) {
    PartitionSet taken = deliveries->partitions;
    memset(&deliveries->partitions, 0, sizeof taken);
    PyObject *list = PyList_New(0);
    for (size_t index = 0; list != NULL && index < taken.capacity; index++) {
        if (taken.slots[index].rkt == NULL) {
            continue;
        }
        PyObject *item = named(taken.slots[index]);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    partition_set_free(&taken);
    return list;
}

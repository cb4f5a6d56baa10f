#include "deliveries.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { NO_MEMORY = -200 }; /* no error code of librdkafka's */

static void keep(Deliveries *deliveries, int code, const char *text, const FailedRecord *record) {
    deliveries->first_code = code;
    snprintf(deliveries->first_text, sizeof deliveries->first_text, "%s", text);
    if (record == NULL) {
        memset(&deliveries->first, 0, sizeof deliveries->first);
    } else {
        deliveries->first = *record;
    }
}

void deliveries_count(Deliveries *deliveries, const rd_kafka_message_t *message) {
    if (message->partition != RD_KAFKA_PARTITION_UA &&
        !partition_set_add(&deliveries->partitions, message->rkt, message->partition)) {
        deliveries_fail(deliveries, NO_MEMORY, "no memory for the partition of a delivery report", NULL);
    } else if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        deliveries->acknowledged++;
    } else if (deliveries->failed == 0 || (message->err == deliveries->first_code &&
                                           failed_record_is_better(&deliveries->first, message))) {
        FailedRecord record;
        failed_record_keep_message(&record, message);
        char text[FAILURE_TEXT];
        snprintf(text, sizeof text, "%s [%d]: %s", rdkafka.topic_name(message->rkt), (int)message->partition,
                 rdkafka.err2str(message->err));
        keep(deliveries, message->err, text, &record);
        deliveries->failed++;
    } else {
        deliveries->failed++;
    }
}

void deliveries_fail(Deliveries *deliveries, int code, const char *text, const FailedRecord *record) {
    if (deliveries->failed++ == 0) {
        keep(deliveries, code, text, record);
    }
}

PyObject *deliveries_take(Deliveries *deliveries) {
    Deliveries taken = *deliveries;
    memset(deliveries, 0, offsetof(Deliveries, partitions));
    PyObject *record = failed_record_take(&taken.first);
    return record == NULL ? NULL
                          : Py_BuildValue("(LLisN)", taken.acknowledged, taken.failed, taken.first_code,
                                          taken.first_text, record);
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

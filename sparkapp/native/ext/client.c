#include "client.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ERROR_TEXT = 512, PROBE_MILLIS = 50 };

PyObject *Failure;
PyObject *BadConfiguration;

int client_add_exceptions(PyObject *module) {
    Failure = PyErr_NewExceptionWithDoc("sparkapp.native._kafka_arrow.Failure",
                                        "An error of librdkafka: (code, text, whether the call may be repeated).",
                                        NULL, NULL);
    BadConfiguration = PyErr_NewExceptionWithDoc("sparkapp.native._kafka_arrow.BadConfiguration",
                                                 "A configuration that librdkafka refuses: (text).", PyExc_ValueError,
                                                 NULL);
    if (Failure == NULL || BadConfiguration == NULL || PyModule_AddObjectRef(module, "Failure", Failure) < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "BadConfiguration", BadConfiguration);
}

static bool configure(rd_kafka_conf_t *conf, PyObject *config) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    char complaint[ERROR_TEXT];
    while (PyDict_Next(config, &position, &key, &value)) {
        const char *name = PyUnicode_AsUTF8(key);
        const char *setting = name == NULL ? NULL : PyUnicode_AsUTF8(value);
        if (setting == NULL) {
            return false;
        }
        if (rdkafka.conf_set(conf, name, setting, complaint, sizeof complaint) != RD_KAFKA_CONF_OK) {
            PyErr_SetString(BadConfiguration, complaint);
            return false;
        }
    }
    return true;
}

static int keep_statistics(rd_kafka_t *rk, char *json, size_t size, void *opaque) {
    Client *client = opaque;
    char *copy = malloc(size + 1);
    if (copy == NULL) {
        return 0; /* the next ones will do */
    }
    memcpy(copy, json, size);
    copy[size] = '\0';
    pthread_mutex_lock(&client->notes.lock);
    char *former = client->statistics;
    client->statistics = copy;
    pthread_mutex_unlock(&client->notes.lock);
    free(former);
    return 0; /* the JSON stays librdkafka's */
}

static void count_throttling(rd_kafka_t *rk, const char *broker, int32_t number, int millis, void *opaque) {
    Client *client = opaque;
    pthread_mutex_lock(&client->notes.lock);
    client->throttled += millis;
    pthread_mutex_unlock(&client->notes.lock);
}

const char client_statistics_doc[] = "take_statistics() -> tuple[str | None, int]\n\n"
                                     "The newest statistics as librdkafka's JSON (None where there are no new ones) and "
                                     "the milliseconds for which brokers have throttled the client, since the last call.";
PyObject *client_take_statistics(Client *client) {
    if (!client_enter(client)) {
        return NULL;
    }
    pthread_mutex_lock(&client->notes.lock);
    char *json = client->statistics;
    long long throttled = client->throttled;
    client->statistics = NULL;
    client->throttled = 0;
    pthread_mutex_unlock(&client->notes.lock);
    client_leave(client);
    PyObject *answer = Py_BuildValue("(zL)", json, throttled);
    free(json);
    return answer;
}

bool client_open(Client *client, int kind, PyObject *config, rd_kafka_dr_msg_cb *delivered, void *opaque) {
    char complaint[ERROR_TEXT];
    if (rdkafka.new == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "load() has not been called");
        return false;
    }
    rd_kafka_conf_t *conf = rdkafka.conf_new();
    if (!configure(conf, config)) {
        rdkafka.conf_destroy(conf);
        return false;
    }
    rdkafka.conf_set_opaque(conf, opaque);
    rdkafka.conf_set_error_cb(conf, client_note_error);
    rdkafka.conf_set_stats_cb(conf, keep_statistics); /* called where statistics.interval.ms is set */
    rdkafka.conf_set_throttle_cb(conf, count_throttling);
    if (delivered != NULL) {
        rdkafka.conf_set_dr_msg_cb(conf, delivered);
    }
    notes_init(&client->notes);
    client->owner = getpid();
    Py_BEGIN_ALLOW_THREADS
    client->rk = rdkafka.new(kind, conf, complaint, sizeof complaint);
    Py_END_ALLOW_THREADS
    if (client->rk == NULL) {
        rdkafka.conf_destroy(conf); /* still ours where new() failed */
        notes_destroy(&client->notes);
        PyErr_SetString(BadConfiguration, complaint);
        return false;
    }
    return true;
}

void client_close(Client *client) {
    rd_kafka_t *rk = client->rk;
    client->rk = NULL;
    if (rk == NULL || client->owner != getpid()) {
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    rdkafka.destroy_flags(rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    Py_END_ALLOW_THREADS
    notes_destroy(&client->notes);
    free(client->statistics);
    client->statistics = NULL;
}

bool client_enter(Client *client) {
    if (client->rk == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the client is closed");
        return false;
    }
    if (client->owner != getpid()) {
        PyErr_SetString(PyExc_RuntimeError, "the client was opened before this process was forked");
        return false;
    }
    if (client->busy) {
        PyErr_SetString(PyExc_RuntimeError, "the client is used by another thread");
        return false;
    }
    client->busy = true;
    return true;
}

void client_leave(Client *client) { client->busy = false; }

const char client_rejoin_doc[] = "rejoin(bootstrap_servers) -> bool\n\n"
                                 "Begins with these brokers again if none is known any more; whether it was so.";
/* Where the only broker was fenced for a moment, a metadata answer has topics and no brokers. librdkafka ends its
 * connections then, takes the answer for a good one, and has nobody left to ask for another (its issue 5301). */
PyObject *client_rejoin(Client *client, PyObject *bootstrap) {
    const char *brokers = PyUnicode_AsUTF8(bootstrap);
    if (brokers == NULL || !client_enter(client)) {
        return NULL;
    }
    rd_kafka_resp_err_t error;
    Py_BEGIN_ALLOW_THREADS
    const rd_kafka_metadata_t *metadata = NULL;
    error = rdkafka.metadata(client->rk, 0, NULL, &metadata, PROBE_MILLIS);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        rdkafka.metadata_destroy(metadata);
    } else if (error == RD_KAFKA_RESP_ERR__TRANSPORT) {
        rdkafka.brokers_add(client->rk, brokers);
    }
    Py_END_ALLOW_THREADS
    client_leave(client);
    return PyBool_FromLong(error == RD_KAFKA_RESP_ERR__TRANSPORT);
}

void client_note_error(rd_kafka_t *rk, int code, const char *reason, void *opaque) {
    Client *client = opaque;
    char text[ERROR_TEXT];
    if (code == RD_KAFKA_RESP_ERR__FATAL) {
        code = rdkafka.fatal_error(rk, text, sizeof text);
        reason = text;
    }
    notes_add(&client->notes, code, -1, reason, strlen(reason));
}

PyObject *client_answer(Client *client, rd_kafka_error_t *error) {
    if (error == NULL) {
        Py_RETURN_NONE;
    }
    client_fail(client, rdkafka.error_code(error), rdkafka.error_string(error), rdkafka.error_is_retriable(error));
    rdkafka.error_destroy(error);
    return NULL;
}

PyObject *client_fail(Client *client, int code, const char *text, bool retriable) {
    char fatal[ERROR_TEXT];
    rd_kafka_resp_err_t cause = rdkafka.fatal_error(client->rk, fatal, sizeof fatal);
    if (cause != RD_KAFKA_RESP_ERR_NO_ERROR) {
        code = cause;
        text = fatal;
        retriable = false;
    }
    PyObject *words = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *arguments = words == NULL ? NULL : Py_BuildValue("(iNO)", code, words, retriable ? Py_True : Py_False);
    if (arguments != NULL) {
        PyErr_SetObject(Failure, arguments);
        Py_DECREF(arguments);
    }
    return NULL;
}

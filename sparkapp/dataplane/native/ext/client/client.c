#include "client.h"

#include "oauth.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ERROR_TEXT = 512, PROBE_MILLIS = 50 };

PyObject *Failure;
PyObject *BadConfiguration;

int client_add_exceptions(PyObject *module) {
    Failure = PyErr_NewExceptionWithDoc("sparkapp.dataplane.native._kafka_arrow.Failure",
                                        "An error of librdkafka: (code, text, whether the call can be retried).",
                                        NULL, NULL);
    BadConfiguration = PyErr_NewExceptionWithDoc("sparkapp.dataplane.native._kafka_arrow.BadConfiguration",
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
        return 0; /* the next statistics replace these anyway */
    }
    memcpy(copy, json, size);
    copy[size] = '\0';
    pthread_mutex_lock(&client->errors.lock);
    char *previous = client->statistics;
    client->statistics = copy;
    pthread_mutex_unlock(&client->errors.lock);
    free(previous);
    return 0; /* librdkafka keeps ownership of the JSON */
}

static void count_throttling(rd_kafka_t *rk, const char *broker, int32_t number, int millis, void *opaque) {
    Client *client = opaque;
    pthread_mutex_lock(&client->errors.lock);
    client->throttled += millis;
    pthread_mutex_unlock(&client->errors.lock);
}

const char client_statistics_doc[] = "take_statistics() -> tuple[str | None, int]\n\n"
                                     "The newest statistics as librdkafka's JSON, None without new statistics, and the "
                                     "milliseconds of throttling by brokers; both since the last call.";
PyObject *client_take_statistics(Client *client) {
    if (!client_enter(client)) {
        return NULL;
    }
    pthread_mutex_lock(&client->errors.lock);
    char *json = client->statistics;
    long long throttled = client->throttled;
    client->statistics = NULL;
    client->throttled = 0;
    pthread_mutex_unlock(&client->errors.lock);
    client_leave(client);
    PyObject *answer = Py_BuildValue("(zL)", json, throttled);
    free(json);
    return answer;
}

bool client_open(Client *client, int kind, PyObject *config, PyObject *token_of, ClientCallbacks callbacks,
                 void *opaque) {
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
    rdkafka.conf_set_error_cb(conf, client_keep_error);
    rdkafka.conf_set_stats_cb(conf, keep_statistics); /* called only if statistics.interval.ms is set */
    rdkafka.conf_set_throttle_cb(conf, count_throttling);
    if (callbacks.delivered != NULL) {
        rdkafka.conf_set_dr_msg_cb(conf, callbacks.delivered);
    }
    if (callbacks.partitioner != NULL) {
        rdkafka.topic_conf_set_partitioner_cb(rdkafka.conf_get_default_topic_conf(conf), callbacks.partitioner);
    }
    if (callbacks.opened != NULL) {
        rdkafka.conf_interceptor_add_on_new(conf, "kafkaspark", callbacks.opened, opaque);
    }
    if (token_of != NULL) {
        oauth_configure(conf);
    }
    client_errors_init(&client->errors);
    client->owner = getpid();
    Py_BEGIN_ALLOW_THREADS
    client->rk = rdkafka.new(kind, conf, complaint, sizeof complaint);
    Py_END_ALLOW_THREADS
    if (client->rk == NULL) {
        rdkafka.conf_destroy(conf); /* still ours after new() failed */
        client_errors_destroy(&client->errors);
        PyErr_SetString(BadConfiguration, complaint);
        return false;
    }
    client->token_of = Py_XNewRef(token_of);
    return token_of == NULL || oauth_start(client);
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
    client_errors_destroy(&client->errors);
    Py_CLEAR(client->token_of); /* no thread of the client is left to call it */
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
                                 "Adds these brokers again if the client knows no broker; returns whether it did.";
/* If the only broker was fenced for a moment, a metadata response has topics and no brokers. librdkafka accepts that
 * response and closes its connections. No broker is left for another metadata request (librdkafka issue 5301). */
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

void client_keep_error(rd_kafka_t *rk, int code, const char *reason, void *opaque) {
    Client *client = opaque;
    char text[ERROR_TEXT];
    if (code == RD_KAFKA_RESP_ERR__FATAL) {
        code = rdkafka.fatal_error(rk, text, sizeof text);
        reason = text;
    }
    client_errors_add(&client->errors, code, -1, reason, strlen(reason));
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
    PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *arguments = NULL;
    if (message != NULL) {
        arguments = Py_BuildValue("(iNO)", code, message, retriable ? Py_True : Py_False);
    }
    if (arguments != NULL) {
        PyErr_SetObject(Failure, arguments);
        Py_DECREF(arguments);
    }
    return NULL;
}

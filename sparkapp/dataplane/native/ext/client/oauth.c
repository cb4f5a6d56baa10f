#include "oauth.h"

#include <stdio.h>

enum { ERROR_TEXT = 512 };

/* Text of the Python error that is set, which this clears. */
static void take_python_error(char *text, size_t size) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *shown = value == NULL ? NULL : PyObject_Str(value);
    const char *utf8 = shown == NULL ? NULL : PyUnicode_AsUTF8(shown);
    snprintf(text, size, "%s", utf8 == NULL ? "no token" : utf8);
    PyErr_Clear(); /* of the conversion */
    Py_XDECREF(shown);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/* Runs in librdkafka's background thread. */
static void refresh(rd_kafka_t *rk, const char *config, void *opaque) {
    Client *client = opaque;
    char complaint[ERROR_TEXT];
    bool set = false;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *token = PyObject_CallFunction(client->token_of, "s", config == NULL ? "" : config);
    const char *value, *principal;
    double expires_at;
    if (token != NULL && PyArg_ParseTuple(token, "sds", &value, &expires_at, &principal)) {
        int64_t millis = (int64_t)(expires_at * 1000);
        Py_BEGIN_ALLOW_THREADS /* the tuple keeps the strings */
        set = rdkafka.oauthbearer_set_token(rk, value, millis, principal, NULL, 0, complaint, sizeof complaint) ==
              RD_KAFKA_RESP_ERR_NO_ERROR;
        Py_END_ALLOW_THREADS
    } else {
        take_python_error(complaint, sizeof complaint);
    }
    Py_XDECREF(token);
    PyGILState_Release(gil);
    if (!set) {
        rdkafka.oauthbearer_set_token_failure(rk, complaint);
    }
}

void oauth_configure(rd_kafka_conf_t *conf) {
    rdkafka.conf_set_oauthbearer_token_refresh_cb(conf, refresh);
    rdkafka.conf_enable_sasl_queue(conf, 1);
}

bool oauth_start(Client *client) {
    rd_kafka_error_t *error = rdkafka.sasl_background_callbacks_enable(client->rk);
    if (error == NULL) {
        return true;
    }
    PyErr_SetString(BadConfiguration, rdkafka.error_string(error));
    rdkafka.error_destroy(error);
    return false;
}

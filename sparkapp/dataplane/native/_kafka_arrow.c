/* The extension module: opens librdkafka and adds the types. The sources are in ext/. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client.h"
#include "consumer.h"
#include "encoder.h"
#include "producer.h"
#include "rdkafka.h"

PyDoc_STRVAR(load_doc, "load(path: str)\n\nOpens the librdkafka at a path; a repeated call does nothing.\n"
                       "Raises OSError if that fails.");
static PyObject *load(PyObject *module, PyObject *argument) {
    const char *path = PyUnicode_AsUTF8(argument);
    if (path == NULL) {
        return NULL;
    }
    const char *complaint = rdkafka_load(path);
    if (complaint != NULL) {
        PyErr_SetString(PyExc_OSError, complaint);
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"load", load, METH_O, load_doc},
    {0},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_kafka_arrow",
    .m_doc = "Record batches between librdkafka and Arrow, without Python per record.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__kafka_arrow(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL &&
        (client_add_exceptions(module) < 0 || consumer_add_type(module) < 0 || producer_add_type(module) < 0 ||
         encoder_add_type(module) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}

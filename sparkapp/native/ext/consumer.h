#ifndef KAFKASPARK_CONSUMER_H
#define KAFKASPARK_CONSUMER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Type Consumer of the extension; sparkapp.native.native_consumer is its only user. */
int consumer_add_type(PyObject *module);

#endif

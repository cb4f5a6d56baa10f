#ifndef KAFKASPARK_PRODUCER_H
#define KAFKASPARK_PRODUCER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Type Producer of the extension; sparkapp.native.native_producer is its only user. */
int producer_add_type(PyObject *module);

#endif

/* The type Encoder of the extension. */
#ifndef KAFKASPARK_ENCODER_H
#define KAFKASPARK_ENCODER_H

#include <Python.h>

/* Adds the type and its exception to the module; -1: a Python error is set. */
int encoder_add_type(PyObject *module);

#endif

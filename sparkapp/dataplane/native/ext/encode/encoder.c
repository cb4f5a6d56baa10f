#define PY_SSIZE_T_CLEAN
#include "encoder.h"

#include <string.h>

#include "export.h"
#include "node.h"

enum { LONGEST_PREFIX = 256 };

typedef struct {
    PyObject_HEAD
    Node root;
    RowWriter *write;
    char prefix[LONGEST_PREFIX]; /* the frame before each row */
    size_t prefix_size;
    struct ArrowArray imported, encoded;
} Encoder;

static PyObject *unencodable;

static void drop(struct ArrowArray *array) {
    if (array->release != NULL) {
        array->release(array);
    }
    array->release = NULL;
}

static int encoder_init(Encoder *self, PyObject *arguments, PyObject *keywords) {
    const char *format, *prefix;
    Py_ssize_t prefix_size;
    PyObject *plan;
    if (!PyArg_ParseTuple(arguments, "sO!y#", &format, &PyTuple_Type, &plan, &prefix, &prefix_size)) {
        return -1;
    }
    self->write = strcmp(format, "avro") == 0       ? avro_write
                  : strcmp(format, "cast") == 0     ? cast_write
                  : strcmp(format, "json") == 0     ? json_write
                  : strcmp(format, "protobuf") == 0 ? protobuf_write
                                                    : NULL;
    if (self->write == NULL || prefix_size > LONGEST_PREFIX) {
        PyErr_SetString(PyExc_ValueError, "no such format, or a prefix that is too long");
        return -1;
    }
    memcpy(self->prefix, prefix, (size_t)prefix_size);
    self->prefix_size = (size_t)prefix_size;
    node_free(&self->root);
    return node_read(&self->root, plan, 0) ? 0 : -1;
}

static void encoder_dealloc(Encoder *self) {
    PyTypeObject *type = Py_TYPE(self);
    node_free(&self->root);
    drop(&self->imported);
    drop(&self->encoded);
    type->tp_free(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(slot_doc, "slot() -> int\n\nAddress of the ArrowArray structure that encode() reads.");
static PyObject *encoder_slot(Encoder *self, PyObject *nothing) {
    drop(&self->imported);
    return PyLong_FromVoidPtr(&self->imported);
}

/* True: every row is in the buffers. */
static bool rows_append(Encoder *self, int64_t rows, Buffer *ends, Buffer *data, Validity *validity, int64_t *row,
                        Failure *failure) {
    int64_t end = 0;
    buffer_append(ends, &end, sizeof end);
    for (*row = 0; *row < rows && !data->exhausted && !ends->exhausted; ++*row) {
        bool valid = !node_is_null(&self->root, *row);
        if (valid) {
            buffer_append(data, self->prefix, self->prefix_size);
            if (!self->write(data, &self->root, *row, failure)) {
                return false;
            }
        }
        validity_append(validity, valid);
        end = (int64_t)data->length;
        buffer_append(ends, &end, sizeof end);
    }
    return true;
}

PyDoc_STRVAR(encode_doc, "encode() -> int\n\nEncodes the imported array and drops it. Returns the address of an ArrowArray "
                         "structure of the type large_binary with a value for each row; null stays null. Raises "
                         "Unencodable with row, path and problem.");
static PyObject *encoder_encode(Encoder *self, PyObject *nothing) {
    if (self->imported.release == NULL || !node_bind(&self->root, &self->imported)) {
        PyErr_SetString(PyExc_ValueError, "the array is not of the plan's type");
        return NULL;
    }
    Buffer ends = {0}, data = {0};
    Validity validity = {0};
    Failure failure = {0};
    int64_t row = 0, rows = self->imported.length;
    bool written = rows_append(self, rows, &ends, &data, &validity, &row, &failure);
    drop(&self->imported);
    drop(&self->encoded);
    if (!written) {
        buffer_free(&ends);
        buffer_free(&data);
        buffer_free(&validity.bits);
        PyObject *arguments = Py_BuildValue("(Lss)", (long long)row, failure.path, failure.problem);
        if (arguments != NULL) {
            PyErr_SetObject(unencodable, arguments);
            Py_DECREF(arguments);
        }
        return NULL;
    }
    const Buffer buffers[] = {validity.bits, ends, data};
    if (!export_array(&self->encoded, rows, validity.nulls, buffers, 3, NULL, 0)) {
        return PyErr_NoMemory();
    }
    return PyLong_FromVoidPtr(&self->encoded);
}

static PyMethodDef methods[] = {
    {"slot", (PyCFunction)encoder_slot, METH_NOARGS, slot_doc},
    {"encode", (PyCFunction)encoder_encode, METH_NOARGS, encode_doc},
    {0},
};

PyDoc_STRVAR(type_doc, "Encoder(format, plan, prefix)\n\nEncodes the rows of an Arrow array by a plan as avro, cast, "
                       "json or protobuf, each behind the prefix.");
static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)type_doc},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, encoder_init},
    {Py_tp_dealloc, encoder_dealloc},
    {Py_tp_methods, methods},
    {0},
};

static PyType_Spec spec = {
    .name = "_kafka_arrow.Encoder",
    .basicsize = sizeof(Encoder),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int encoder_add_type(PyObject *module) {
    unencodable = PyErr_NewException("_kafka_arrow.Unencodable", PyExc_ValueError, NULL);
    PyObject *type = PyType_FromSpec(&spec);
    int result = unencodable == NULL || type == NULL ? -1 : PyModule_AddObjectRef(module, "Unencodable", unencodable);
    result = result < 0 ? -1 : PyModule_AddObjectRef(module, "Encoder", type);
    Py_XDECREF(type);
    return result;
}

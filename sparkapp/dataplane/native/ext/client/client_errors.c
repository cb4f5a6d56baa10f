#define PY_SSIZE_T_CLEAN
#include "client_errors.h"

#include <string.h>

void client_errors_init(ClientErrors *errors) {
    errors->count = 0;
    pthread_mutex_init(&errors->lock, NULL);
}

void client_errors_destroy(ClientErrors *errors) { pthread_mutex_destroy(&errors->lock); }

void client_errors_add(ClientErrors *errors, int code, int number, const char *text, size_t size) {
    pthread_mutex_lock(&errors->lock);
    if (errors->count < CLIENT_ERRORS_KEPT) {
        ClientError *error = &errors->kept[errors->count++];
        error->code = code;
        error->number = number;
        size = size < CLIENT_ERROR_TEXT - 1 ? size : CLIENT_ERROR_TEXT - 1;
        if (size > 0) {
            memcpy(error->text, text, size);
        }
        error->text[size] = '\0';
    }
    pthread_mutex_unlock(&errors->lock);
}

PyObject *client_errors_take(ClientErrors *errors) {
    /* A copy: any allocation below may run the garbage collector, and with it other threads. */
    ClientError taken[CLIENT_ERRORS_KEPT];
    pthread_mutex_lock(&errors->lock);
    int count = errors->count;
    memcpy(taken, errors->kept, (size_t)count * sizeof(ClientError));
    errors->count = 0;
    pthread_mutex_unlock(&errors->lock);
    PyObject *list = PyList_New(count);
    for (int index = 0; list != NULL && index < count; index++) {
        PyObject *text = PyUnicode_DecodeUTF8(taken[index].text, (Py_ssize_t)strlen(taken[index].text), "replace");
        PyObject *item = text == NULL ? NULL : Py_BuildValue("(iNi)", taken[index].code, text, taken[index].number);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, index, item);
    }
    return list;
}

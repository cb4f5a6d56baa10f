#define PY_SSIZE_T_CLEAN
#include "notes.h"

#include <string.h>

void notes_init(Notes *notes) {
    notes->count = 0;
    pthread_mutex_init(&notes->lock, NULL);
}

void notes_destroy(Notes *notes) { pthread_mutex_destroy(&notes->lock); }

void notes_add(Notes *notes, int code, int lane, const char *text, size_t size) {
    pthread_mutex_lock(&notes->lock);
    if (notes->count < NOTES_KEPT) {
        Note *note = &notes->kept[notes->count++];
        note->code = code;
        note->lane = lane;
        size = size < NOTE_TEXT - 1 ? size : NOTE_TEXT - 1;
        if (size > 0) {
            memcpy(note->text, text, size);
        }
        note->text[size] = '\0';
    }
    pthread_mutex_unlock(&notes->lock);
}

PyObject *notes_take(Notes *notes) {
    Note taken[NOTES_KEPT]; /* not shared: whatever allocates below may run the collector, and other threads with it */
    pthread_mutex_lock(&notes->lock);
    int count = notes->count;
    memcpy(taken, notes->kept, (size_t)count * sizeof(Note));
    notes->count = 0;
    pthread_mutex_unlock(&notes->lock);
    PyObject *list = PyList_New(count);
    for (int index = 0; list != NULL && index < count; index++) {
        PyObject *text = PyUnicode_DecodeUTF8(taken[index].text, (Py_ssize_t)strlen(taken[index].text), "replace");
        PyObject *item = text == NULL ? NULL : Py_BuildValue("(iNi)", taken[index].code, text, taken[index].lane);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, index, item);
    }
    return list;
}

/* Errors that belong to no call, kept until Python asks: from librdkafka's error callback and from partition queues. */
#ifndef KAFKASPARK_NOTES_H
#define KAFKASPARK_NOTES_H

#include <Python.h>
#include <pthread.h>
#include <stdint.h>

enum { NOTES_KEPT = 32, NOTE_TEXT = 512 };

typedef struct {
    int code;
    int lane; /* -1: the client as a whole */
    char text[NOTE_TEXT];
} Note;

typedef struct {
    pthread_mutex_t lock;
    int count; /* at most NOTES_KEPT; what comes later explains less than what came first */
    Note kept[NOTES_KEPT];
} Notes;

void notes_init(Notes *notes);
void notes_destroy(Notes *notes);

/* Any thread, without the GIL. */
void notes_add(Notes *notes, int code, int lane, const char *text, size_t size);

/* List of (code, text, lane), which are then forgotten; NULL with a Python error set. Needs the GIL. */
PyObject *notes_take(Notes *notes);

#endif

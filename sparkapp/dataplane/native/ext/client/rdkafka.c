#include "rdkafka.h"

#include <dlfcn.h>
#include <stdio.h>

enum { OLDEST = 0x02030000 };

struct rdkafka rdkafka;

const char *rdkafka_load(const char *path) {
    static char complaint[512];
    static int loaded;
    if (loaded) {
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return dlerror();
    }
    struct rdkafka found;
    /* POSIX lets dlsym return a function as a void pointer; ISO C has no cast for it, hence the assignment through a
     * pointer. */
#define RDKAFKA_FIND(result, name, parameters)                                                                        \
    *(void **)&found.name = dlsym(library, "rd_kafka_" #name);                                                        \
    if (found.name == NULL) {                                                                                         \
        snprintf(complaint, sizeof complaint, "%s has no rd_kafka_%s", path, #name);                                  \
        return complaint;                                                                                             \
    }
    RDKAFKA_FUNCTIONS(RDKAFKA_FIND)
#undef RDKAFKA_FIND
    if (found.version() < OLDEST) {
        snprintf(complaint, sizeof complaint, "%s is librdkafka %#x, older than 2.3", path, found.version());
        return complaint;
    }
    rdkafka = found;
    loaded = 1;
    return NULL;
}

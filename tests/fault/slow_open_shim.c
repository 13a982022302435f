/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulates distant storage: loaded with LD_PRELOAD, it makes every open of a file in a folder sleep first.
 * Everything else keeps its speed. It must not use anything of the engine.
 *
 *   CLT_SLOW_OPEN_FOLDER  beginning of the paths that are slow, as the program names them
 *   CLT_SLOW_OPEN_MS      how long an open takes, in milliseconds
 *   CLT_SLOW_OPEN_MEET    so many threads, not counting the main one, have to open such files at once, before any of
 *                         them goes on; once
 *   CLT_SLOW_OPEN_MET     a file that is made when they have */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int opener(const char *path, int flags, ...);

/* Waits until the threads have met here. */
static void meet(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t all = PTHREAD_COND_INITIALIZER;
    static int here;
    const char *wanted = getenv("CLT_SLOW_OPEN_MEET"), *met = getenv("CLT_SLOW_OPEN_MET");
    if (!wanted || gettid() == getpid())
        return;
    pthread_mutex_lock(&lock);
    if (here < atoi(wanted) && ++here == atoi(wanted)) {
        FILE *file = met ? fopen(met, "w") : NULL;
        if (file) {
            fprintf(file, "%d threads\n", here);
            fclose(file);
        }
        pthread_cond_broadcast(&all);
    }
    while (here < atoi(wanted))
        pthread_cond_wait(&all, &lock);
    pthread_mutex_unlock(&lock);
}

static void sleep_for(const char *path)
{
    const char *folder = getenv("CLT_SLOW_OPEN_FOLDER"), *ms = getenv("CLT_SLOW_OPEN_MS");
    long time = ms ? atol(ms) : 0;
    if (!folder || strncmp(path, folder, strlen(folder)) != 0)
        return;
    meet();
    struct timespec left = {time / 1000, time % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0)
        continue;
}

/* Defines open or open64; with O_CREAT they have a mode. */
#define SLOW_OPEN(name)                                                                                      \
    __attribute__((visibility("default"))) int name(const char *path, int flags, ...)                        \
    {                                                                                                        \
        static opener *real;                                                                                 \
        va_list more;                                                                                        \
        va_start(more, flags);                                                                               \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0;                            \
        va_end(more);                                                                                        \
        if (!real)                                                                                           \
            real = (opener *)(uintptr_t)dlsym(RTLD_NEXT, #name);                                             \
        sleep_for(path);                                                                                     \
        return real(path, flags, mode);                                                                      \
    }
SLOW_OPEN(open)
SLOW_OPEN(open64)

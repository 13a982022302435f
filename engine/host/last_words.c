/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the text that the handler of fatal signals prints, so that a signal handler may read it at any
 * time. */
#include "engine/host/last_words.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The signals of a driver that gives up or runs damaged code. With AddressSanitizer only SIGABRT is handled,
 * since it explains the others itself. */
#ifdef __SANITIZE_ADDRESS__
static const int fatal[] = {SIGABRT};
#else
static const int fatal[] = {SIGABRT, SIGSEGV, SIGILL};
#endif

static char texts[2][512];
static _Atomic(const char *) words;
static void (*on_fatal)(int, siginfo_t *, void *);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void clt_last_words_handler(void (*handler)(int, siginfo_t *, void *))
{
    on_fatal = handler;
}

void clt_last_words_reinstall(void)
{
    struct sigaction now, action;
    if (on_fatal == NULL || atomic_load(&words) == NULL)
        return;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fatal;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
        if (sigaction(fatal[i], NULL, &now) == 0 &&
            ((now.sa_flags & SA_SIGINFO) == 0 || now.sa_sigaction != on_fatal))
            (void)sigaction(fatal[i], &action, NULL);
}

void clt_last_words_set(const char *text)
{
    static int next;
    pthread_mutex_lock(&lock);
    if (text != NULL) {
        snprintf(texts[next], sizeof texts[next], "%s", text);
        text = texts[next];
        next = !next; /* a handler that runs now may still read the previous text */
    }
    atomic_store(&words, text);
    pthread_mutex_unlock(&lock);
    clt_last_words_reinstall();
}

const char *clt_last_words(void)
{
    return atomic_load(&words);
}

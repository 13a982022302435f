/* SPDX-License-Identifier: Apache-2.0
 *
 * What to say when the process is about to be ended by code that is not ours: a driver that calls abort() gives no
 * reason that a user understands. The words are set beforehand, because a signal handler may not compose any. */
#ifndef ENGINE_BASE_LAST_WORDS_H
#define ENGINE_BASE_LAST_WORDS_H

#include <signal.h>

/* The program's handler of SIGABRT, which says the words. It is installed when words are set; without it, as in programs
 * that use the library, nothing is. */
void clt_last_words_handler(void (*handler)(int signal_number, siginfo_t *info, void *context));
/* Sets the words, without a line end; NULL: nothing is to be said. Longer texts are cut. */
void clt_last_words_set(const char *text);
/* Installs the handler again if there are words: the compiler in a driver (LLVM) puts one of its own in its place. */
void clt_last_words_keep(void);
/* The words, NULL when there are none. May be called in a signal handler. */
const char *clt_last_words(void);

#endif

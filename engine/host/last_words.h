/* SPDX-License-Identifier: Apache-2.0
 *
 * The message for the case that foreign code ends the process: a driver that calls abort() gives no reason
 * that a user understands. The message is set beforehand, because a signal handler may not format text. */
#ifndef ENGINE_HOST_LAST_WORDS_H
#define ENGINE_HOST_LAST_WORDS_H

#include <signal.h>

/* Sets the program's handler of SIGABRT, SIGSEGV and SIGILL, which prints the words. It is installed when
 * words are set. Programs that use the library set no handler; then none is installed. */
void clt_last_words_handler(void (*handler)(int signal_number, siginfo_t *info, void *context));
/* Sets the words, without a line end; NULL: no words. A text that is too long is cut. */
void clt_last_words_set(const char *text);
/* Installs the handler again if there are words, because the compiler inside a driver (LLVM) replaces it by
 * its own. */
void clt_last_words_keep(void);
/* The words, NULL when there are none. May be called in a signal handler. */
const char *clt_last_words(void);

#endif

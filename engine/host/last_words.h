/* SPDX-License-Identifier: Apache-2.0
 *
 * The message that is printed when foreign code ends the process: a driver that calls abort() gives no
 * reason that a user understands. The message is set beforehand, because a signal handler may not format
 * text. */
#ifndef ENGINE_HOST_LAST_WORDS_H
#define ENGINE_HOST_LAST_WORDS_H

#include <signal.h>

/* Sets the program's handler of SIGABRT, SIGSEGV and SIGILL, which prints the message. It is installed when
 * a message is set. Programs that use the library set no handler; then none is installed. */
void clt_last_words_handler(void (*handler)(int signal_number, siginfo_t *info, void *context));
/* Sets the message, without a line end; NULL: no message. A text that is too long is cut. */
void clt_last_words_set(const char *text);
/* Installs the handler again if a message is set, because the compiler inside a driver (LLVM) replaces it by
 * its own. */
void clt_last_words_reinstall(void);
/* The message, NULL when none is set. May be called in a signal handler. */
const char *clt_last_words(void);

#endif

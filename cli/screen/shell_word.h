/* SPDX-License-Identifier: Apache-2.0
 *
 * Quotes words of a command so that a user can paste it into a shell. */
#ifndef CLI_SCREEN_SHELL_WORD_H
#define CLI_SCREEN_SHELL_WORD_H

#include "engine/base/mem.h"

/* Appends the word, quoted if a shell would change it. Control characters become escapes such as \033. */
void shell_append_word(clt_str *out, const char *word);
/* Appends the word in quotes in any case, in a form that every shell understands. */
void shell_quote(clt_str *out, const char *word);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of a command that a user can paste into a shell. */
#ifndef CLI_SCREEN_SHELL_WORD_H
#define CLI_SCREEN_SHELL_WORD_H

#include "engine/base/mem.h"

/* Appends the word, quoted if a shell would not take it as it is; control characters are shown, not sent. */
void shell_append_word(clt_str *out, const char *word);

#endif

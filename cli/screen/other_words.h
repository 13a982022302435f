/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands and options of other tools: what to write here in their place. One table, whose every row a test
 * follows (tests/e2e/test_other_words.sh). Keys and values of a config: engine/config/config_foreign.h. */
#ifndef CLI_SCREEN_OTHER_WORDS_H
#define CLI_SCREEN_OTHER_WORDS_H

#include "engine/base/mem.h"

/* For a command that does not exist: appends "; write: cltrain train --resume runs/a" and returns true, if the word
 * is one of another tool. argv: the word and what followed it. */
bool other_command(int argc, char **argv, clt_str *out);

/* What is asked of the command that was given the option. */
typedef struct other_option_place {
    const char *command, *operands;
    const char *const *options; /* the names of its own options */
    size_t n_options;
    bool overrides; /* it takes section.key=value */
} other_option_place;

/* The same for an option of a command: given is it, with its '-'; value what was written after it, or NULL. */
bool other_option(const other_option_place *place, const char *given, const char *value, clt_str *out);

#endif

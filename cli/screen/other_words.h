/* SPDX-License-Identifier: Apache-2.0
 *
 * Advice for users of other tools: the words to write instead of those tools' commands and options. A test
 * tries every row of the tables (tests/e2e/test_other_words.sh). Keys and values of a config:
 * engine/config/config_foreign.h. */
#ifndef CLI_SCREEN_OTHER_WORDS_H
#define CLI_SCREEN_OTHER_WORDS_H

#include "engine/base/mem.h"

/* For a command that does not exist: if another tool has it, appends advice such as
 * "; write: cltrain train --resume runs/a" and returns true. argv: the command and the words after it. */
bool other_command(int argc, char **argv, clt_str *out);

/* The command to which an option was given. */
typedef struct other_option_place {
    const char *command, *operands;
    const char *const *options; /* the names of its own options */
    size_t n_options;
    bool overrides; /* the command takes section.key=value */
} other_option_place;

/* For an unknown option: if another tool has it, appends advice and returns true. given: the option with its
 * '-'; value: the word after it or the text after its '=', or NULL. */
bool other_option(const other_option_place *place, const char *given, const char *value, clt_str *out);

#endif

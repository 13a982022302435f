/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the words that can be typed at a position of a command line, from the commands' tables of options
 * and the schema of configs. The scripts that `cltrain completion` prints call this; they know nothing about
 * cltrain. */
#ifndef CLI_HELP_COMPLETE_H
#define CLI_HELP_COMPLETE_H

#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "engine/base/mem.h"

/* Appends the candidates for words[index], one per line: "value<TAB>description". words[0] is the program;
 * every candidate begins with the text in words[index]. Lines that begin with a colon are requests to the
 * shell: ":dirs" complete folders, ":files" files and folders, ":json" files *.json and folders; ":nospace":
 * add no space after the candidates. Paths in "--option=" or "section.key=" are requested in the same way.
 * Opens no device and no file. */
clt_status complete_words(cmd_context *context, int count, const char *const *words, int index, clt_str *out);

/* Calls the receiver with the table of a command, or of one of its parts (part NULL: of the command
 * itself). */
void complete_describe(cmd_context *context, const char *command, const char *part, args_receiver receiver,
                       void *receiver_context);

/* The script for "bash", "zsh" or "fish"; NULL for other shells. */
const char *complete_script(const char *shell);

#endif

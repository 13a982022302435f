/* SPDX-License-Identifier: Apache-2.0
 *
 * What could stand at one place of a command line, from the commands' own tables of options and the schema of
 * configs. The scripts that `cltrain completion` prints ask for it; they know nothing of cltrain themselves.
 */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include "cli/args.h"
#include "cli/cmd.h"
#include "engine/base/mem.h"

/* Appends the candidates for words[index], one a line: "value<TAB>what it is". Words before it are the
 * command line so far (words[0] is the program); what words[index] holds already is the beginning of every
 * candidate. Lines that begin with a colon ask the shell for names instead: ":dirs" folders, ":files" files
 * and folders,
 * ":json" files *.json and folders; ":nospace": no space follows the candidates. Paths that continue
 * "--option=" or "section.key=" are asked for in the same way. Opens no device and no file. */
clt_status complete_words(cmd_context *context, int count, const char *const *words, int index, clt_str *out);

/* Calls receiver for the table of a command, or of one of its parts (part NULL: the command's own). */
void complete_describe(cmd_context *context, const char *command, const char *part, args_receiver receiver,
                       void *receiver_context);

/* "bash", "zsh", "fish": the script; NULL for another shell. */
const char *complete_script(const char *shell);

#endif

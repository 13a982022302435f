/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain completion: prints the script with which a shell completes commands, options, keys and files. Its
 * part `words`, which the script calls, prints the candidates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/help/complete.h"

/* Prints the script for the shell argv[0], which is the part's name. */
static clt_status completion_script(cmd_context *context, int argc, char **argv)
{
    static const char *const summaries[][2] = {
        {"bash", "Prints the script for bash. For this shell: source <(cltrain completion bash)\n"
                 "For every new shell: cltrain completion bash > "
                 "~/.local/share/bash-completion/completions/cltrain"},
        {"zsh",
         "Prints the script for zsh. For this shell, after compinit: source <(cltrain completion zsh)\n"
         "For every new shell: write it to a file _cltrain in a folder of $fpath."},
        {"fish", "Prints the script for fish. For this shell: cltrain completion fish | source\n"
                 "For every new shell: cltrain completion fish > ~/.config/fish/completions/cltrain.fish"}};
    const args_option options[] = {ARGS_END};
    char command[32];
    args_result r;
    int shell = 0;
    (void)context;
    while (strcmp(summaries[shell][0], argv[0]) != 0)
        shell++;
    snprintf(command, sizeof command, "completion %s", argv[0]);
    const args_usage usage = ARGS_USAGE(command, "", 0, 0, options, summaries[shell][1]);
    ARGS_PARSE(&usage, argc, argv, &r);
    fputs(complete_script(argv[0]), stdout);
    return CLT_OK;
}

static clt_status completion_words(cmd_context *context, int argc, char **argv)
{
    const args_option options[] = {ARGS_END};
    const args_usage usage =
        ARGS_USAGE("completion words", "INDEX [WORD...]", 1, ARGS_MAX, options,
                   "Prints what could stand at word INDEX of a command line (the program is word "
                   "0), one candidate a line;\nthe scripts of the shells call it.");
    args_result r;
    CLT_SCOPED(clt_str) text = {0};
    char *end;
    ARGS_PARSE(&usage, argc, argv, &r);
    long index = strtol(r.operands[0], &end, 10);
    if (*end || end == r.operands[0] || index < 1 || index >= ARGS_MAX)
        CLT_FAIL(CLT_EUSAGE, "cltrain completion words: '%s' is not the number of a word from 1 on",
                 r.operands[0]);
    CLT_TRY(complete_words(context, r.n_operands - 1, r.operands + 1, (int)index, &text));
    return cmd_write_str("-", &text);
}

clt_status cmd_completion(cmd_context *context, int argc, char **argv)
{
    static const args_part parts[] = {{"bash", "the script for bash", completion_script},
                                      {"zsh", "the script for zsh", completion_script},
                                      {"fish", "the script for fish", completion_script},
                                      {"words", "candidates for one word, for the scripts", completion_words},
                                      {NULL, NULL, NULL}};
    const args_option options[] = {ARGS_END};
    const args_usage usage = ARGS_USAGE("completion", "PART ...", 0, 0, options,
                                        "Completion of commands, options, keys and files in a shell.\n"
                                        "'cmake --install' puts the scripts where the shells look for them.",
                                        .parts = parts);
    return args_dispatch(&usage, context, argc, argv);
}

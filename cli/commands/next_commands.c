/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the commands that resume, evaluate, use and report a run that has ended. */
#include "cli/commands/next_commands.h"
#include "cli/screen/shell_word.h"

#include <string.h>

#include "engine/checkpoint/saved_run.h"
#include "engine/config/choices.h"

/* Prints a line such as "resume    build/cltrain train --resume runs/mine", with `rest` after the folder. */
static void print_command(const cmd_context *context, const next_run *run, const char *what,
                          const char *command, const char *rest)
{
    CLT_SCOPED(clt_str) line = {0};
    bool trains = strncmp(command, "train", 5) == 0;
    const comm_info *ranks = context->ranks && context->ranks->ranks > 1 && trains ? context->ranks : NULL;
    if (ranks && ranks->nodes > 1)
        clt_str_printf(&line, "mpirun -np %d ", ranks->ranks);
    cmd_append_command(&line, context);
    if (ranks && ranks->nodes == 1)
        clt_str_printf(&line, " launch --devices %d%s ", ranks->ranks, command + 5);
    else
        clt_str_printf(&line, " %s ", command);
    shell_append_word(&line, run->folder);
    clt_str_append(&line, rest);
    if (run->device && strcmp(command, "report") != 0) {
        clt_str_append(&line, " --device ");
        shell_append_word(&line, run->device);
    }
    if (run->caps && strcmp(command, "report") != 0) {
        clt_str_append(&line, " --caps=");
        shell_append_word(&line, run->caps);
    }
    if (clt_str_check(&line) == CLT_OK)
        printf("  %-10s %s\n", what, line.text);
    else
        clt_error_clear();
}

/* The option that selects the best checkpoint, if the run chose one and it is not the newest; else "". */
static const char *best_option(const next_run *run, const clt_config *config)
{
    char best[4096];
    bool other = clt_config_choice(config, "checkpoint.best") != CLT_BEST_NONE &&
                 clt_checkpoint_best(run->folder, best, sizeof best) == CLT_OK &&
                 strcmp(best, run->result->checkpoint) != 0;
    clt_error_clear();
    return other ? " --best" : "";
}

/* Prints commands that use the model: eval if there is evaluation data, and generate or predict. */
static void print_uses(const cmd_context *context, const next_run *run)
{
    CLT_SCOPED(clt_saved_run) *saved = NULL;
    char rest[64];
    if (clt_saved_run_open(run->result->checkpoint, NULL, &saved) != CLT_OK) {
        clt_error_clear();
        return;
    }
    const char *best = best_option(run, saved->config);
    if (clt_source_has_eval(saved->config))
        print_command(context, run, "evaluate", "eval", best);
    if (saved->has_facts && saved->facts.tokens > 0) {
        snprintf(rest, sizeof rest, "%s%s", best,
                 saved->facts.chat[0] ? " --chat --prompt 'Hello'" : " --prompt 'The '");
        print_command(context, run, "sample", "generate", rest);
    } else if (saved->has_facts && !clt_config_chosen(saved->config, "data.type")->language) {
        snprintf(rest, sizeof rest, "%s FILE", best);
        print_command(context, run, "predict", "predict", rest);
    }
}

void print_next_commands(const cmd_context *context, const next_run *run)
{
    char more[64] = "";
    if (!run->folder || !run->result->checkpoint[0])
        return;
    if (run->ended && run->result->early)
        snprintf(more, sizeof more, " train.early_stop_evals=0");
    else if (run->ended && run->epochs > 0)
        snprintf(more, sizeof more, " train.epochs=%g", 2 * run->epochs);
    else if (run->ended)
        snprintf(more, sizeof more, " train.steps=%lld", 2 * (long long)run->result->steps);
    printf("next:\n");
    print_command(context, run, more[0] ? "longer" : "resume", "train --resume", more);
    print_uses(context, run);
    print_command(context, run, "look", "report", "");
    fflush(stdout);
}

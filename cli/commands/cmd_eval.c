/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain eval RUN: computes loss, accuracy and metrics of each class for a saved run or a weights file, on
 * the evaluation data or, with --on train, the training data. */
#include <math.h>
#include <string.h>

#include "cli/screen/args.h"
#include "cli/screen/class_tables.h"
#include "cli/screen/console.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"
#include "engine/pretrained/peft.h"
#include "engine/report/write/metric_rows.h"
#include "engine/train/eval/multiple_choice.h"
#include "engine/train/eval/evaluate.h"

static clt_status write_json(const char *path, const clt_eval_metrics *m, const clt_class_counts *classes)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 2);
    clt_jw_object(&w);
    clt_jw_kdouble(&w, "loss", m->loss);
    clt_jw_kstring(&w, "data", m->on_train ? "TRAINING" : "evaluation");
    clt_jw_kdouble(&w, "accuracy", m->accuracy);
    if (isfinite(m->perplexity) && m->perplexity > 0)
        clt_jw_kdouble(&w, "perplexity", m->perplexity);
    if (isfinite(m->bits_per_byte) && m->bits_per_byte > 0)
        clt_jw_kdouble(&w, "bits_per_byte", m->bits_per_byte);
    if (m->values > 0) {
        clt_jw_kdouble(&w, "mae", m->mae);
        clt_jw_kdouble(&w, "rmse", m->rmse);
        clt_jw_kdouble(&w, "r2", m->r2);
        clt_jw_kdouble(&w, "pearson", m->pearson);
        clt_jw_kdouble(&w, "spearman", m->spearman);
        if (m->no_correlation)
            clt_jw_kstring(&w, "no_correlation", m->no_correlation);
    }
    if (m->answers > 0) {
        clt_jw_kint(&w, "answers", m->answers);
        clt_jw_kdouble(&w, "exact", m->exact);
        clt_jw_kdouble(&w, "answer_f1", m->answer_f1);
    }
    if (m->volumes > 0) {
        clt_jw_kdouble(&w, "volume_dice", m->volume_dice);
        clt_jw_kint(&w, "volumes", m->volumes);
        clt_volume_dice_write(m, &w, "volume_dice_of");
    }
    clt_jw_kint(&w, "samples", m->samples);
    clt_jw_kint(&w, "samples_available", m->available);
    clt_jw_kint(&w, "samples_left_out", m->left_out);
    clt_jw_kint(&w, "targets", m->targets);
    clt_jw_kdouble(&w, "seconds", m->seconds);
    clt_jw_kobject(&w, "losses");
    for (int i = 0; i < m->n_losses; i++)
        clt_jw_kdouble(&w, m->loss_name[i], m->loss_value[i]);
    clt_jw_end_object(&w);
    if (classes)
        clt_class_counts_write(classes, &w);
    clt_jw_end_object(&w);
    return cmd_write_line(path, &text);
}

/* Returns an error if the loss is not finite. */
static clt_status check_loss(const clt_eval_metrics *m, const char *parameters)
{
    if (isfinite(m->loss))
        return CLT_OK;
    if (m->targets == 0)
        CLT_FAIL(CLT_EDATA,
                 "evaluating '%s': no target counts, so there is no loss; check the evaluation data",
                 parameters);
    CLT_FAIL(CLT_ENUMERIC,
             "evaluating '%s': the loss is not finite; the weights or the evaluation data hold values that "
             "are not, or overflow",
             parameters);
}

typedef struct eval_args {
    const char *checkpoint, *init, *adapter, *device, *json, *caps, *tokenizer, *on, *confusion, *task;
    const char *items; /* with `task`: the file of the task's items */
    int64_t most;      /* items to use; 0: all */
    bool on_train, classes, best;
    uint32_t caps_mask;
    clt_str data; /* the override data.eval_path=FILE, for a FILE given as an operand */
} eval_args;

static void free_eval_args(eval_args *a)
{
    clt_str_free(&a->data);
}
CLT_SCOPED_VALUE(eval_args, free_eval_args)

static clt_status no_weights(const char *operand)
{
    CLT_FAIL(CLT_EUSAGE,
             "cltrain eval: '%s' is not a folder. To evaluate a training name its run folder (cltrain eval "
             "RUN); a CONFIG needs --checkpoint RUN or --init PATH as well, or model.init",
             operand);
}

/* Accepts RUN; --checkpoint RUN; CONFIG --checkpoint RUN; CONFIG --init PATH; or a CONFIG that has
 * model.init. */
static clt_status check_args(eval_args *a, const args_result *r)
{
    bool operand = r->n_operands > 0, run = operand && clt_is_directory(r->operands[0]);
    if (operand)
        CLT_TRY(clt_remote_found(r->operands[0], CLT_EUSAGE));
    if (a->checkpoint && a->init)
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: give either --checkpoint RUN or --init PATH, not both");
    if (run && a->checkpoint)
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: both '%s' and --checkpoint name a run; give one of them",
                 r->operands[0]);
    if (run && a->init)
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: --init brings weights, which need a CONFIG; '%s' is a folder",
                 r->operands[0]);
    if (!operand && a->init)
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: --init PATH brings weights and no data; name a CONFIG as well");
    if (!operand && !a->checkpoint)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain eval: missing argument: name the run folder of a training (cltrain eval RUN), or "
                 "CONFIG --init PATH; see 'cltrain eval --help'");
    if (operand && !run && !a->checkpoint && !a->init && !clt_file_exists(r->operands[0]))
        return no_weights(r->operands[0]);
    if (a->on && strcmp(a->on, "train") != 0 && strcmp(a->on, "eval") != 0)
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: --on '%s'; it can be eval (the evaluation data) or train", a->on);
    if (a->json && a->confusion && strcmp(a->json, "-") == 0 && strcmp(a->confusion, "-") == 0)
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: --json and --confusion cannot both be the standard output");
    a->on_train = a->on && strcmp(a->on, "train") == 0;
    return cmd_caps(a->caps, &a->caps_mask);
}

/* Loads the CONFIG; a->init becomes the weights that are evaluated, unless these are a run's. */
static clt_status open_config(eval_args *a, const args_result *r, clt_config **config)
{
    const bool of_run = a->checkpoint != NULL;
    const clt_start start = {.init = a->init, .adapter = of_run ? NULL : a->adapter, .may_be_gone = of_run};
    CLT_TRY(cmd_load_config(r, &start, config));
    a->init = of_run ? NULL : clt_start_weights(*config);
    return of_run || a->init ? CLT_OK : no_weights(r->operands[0]);
}

/* Opens the saved run, unless the weights come from model.init, and the CONFIG, unless the run's own is
 * used. */
static clt_status open_inputs(eval_args *a, const args_result *r, clt_saved_run **saved, clt_config **config)
{
    bool run = r->n_operands > 0 && clt_is_directory(r->operands[0]), own = r->n_operands > 0 && !run;
    const char *path = run ? r->operands[0] : a->checkpoint;
    char best[1024];
    clt_saved_run_options options = {.overrides = own ? NULL : r->overrides,
                                     .n_overrides = own ? 0 : r->n_overrides,
                                     .tokenizer = own ? NULL : a->tokenizer,
                                     .tensors = true};
    if (own)
        CLT_TRY(open_config(a, r, config));
    if (own && a->tokenizer)
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: --tokenizer is for a run; with a CONFIG give data.tokenizer=…");
    if (a->best && !path)
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: --best is for a run; --init names the weights itself");
    CLT_TRY(cmd_best_of(a->best, &path, best));
    if (path)
        CLT_TRY(clt_saved_run_open(path, &options, saved));
    if (*saved && a->adapter && own)
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: --adapter goes with a run's own config or with --init PATH");
    if (*saved && a->adapter)
        CLT_TRY(clt_peft_put_on(*saved, a->adapter));
    if (*saved && !own)
        cmd_use_log_level((*saved)->config);
    return *saved && !own && !a->task ? clt_saved_run_need_data(*saved, !a->on_train, "evaluating") : CLT_OK;
}

static clt_status write_confusion(const char *path, const clt_class_counts *classes)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(clt_class_counts_csv(classes, &text));
    return cmd_write_str(path, &text);
}

/* Prints or writes the results that the options --classes, --confusion and --json ask for, beyond the line
 * of metrics. */
static clt_status print_more(const eval_args *a, const clt_eval_metrics *m, const clt_class_counts *classes)
{
    CLT_SCOPED(clt_str) text = {0};
    if (!classes && (a->classes || a->confusion))
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain eval: %s is for models that predict classes: the first loss of this one is "
                 "neither cross_entropy, dice_loss nor bce_with_logits of one output",
                 a->classes ? "--classes" : "--confusion");
    if (a->classes) {
        class_tables(classes, terminal_columns(), &text);
        table_print(&text);
    }
    if (a->confusion)
        CLT_TRY(write_confusion(a->confusion, classes));
    return a->json ? write_json(a->json, m, classes) : CLT_OK;
}

static clt_status evaluate(cmd_context *context, const eval_args *a, const clt_saved_run *saved,
                           const clt_config *config)
{
    clt_eval_metrics metrics = {0};
    CLT_SCOPED(clt_class_counts) *classes = NULL;
    console c;
    console_init(&c, context);
    clt_run_options run = {.config = config,
                           .init = a->init,
                           .adapter = a->adapter,
                           .saved = saved,
                           .on_train = a->on_train,
                           .classes = &classes,
                           .device_spec = a->device,
                           .caps_mask = a->caps_mask,
                           .comm = context->comm,
                           .stop = context->stop,
                           .observer = console_observer(&c)};
    bool told = a->json && a->json[0] == '-' && !a->json[1];
    run.observer.eval = NULL; /* the result is printed later */
    if (told)
        run.observer = (clt_observer){0};
    clt_status status = clt_evaluate(&run, &metrics);
    console_close(&c);
    CLT_TRY(status);
    if (cmd_prints(context)) {
        metrics.step = -1;
        if (!told)
            console_observer(&c).eval(&c, &metrics);
        CLT_TRY(print_more(a, &metrics, classes));
    }
    return check_loss(&metrics, saved ? saved->path : a->init);
}

/* True if the file begins with an item of a task: such a file is not evaluation data. */
static bool has_items(const char *file)
{
    char start[4097];
    start[clt_file_first(file, start, sizeof start - 1)] = '\0';
    return start[0] == '{' && (strstr(start, "\"endings\"") || strstr(start, "\"choices\""));
}

/* Uses the last operand as the evaluation data, like data.eval_path=FILE. */
static clt_status take_data(eval_args *a, args_result *r)
{
    const char *file = r->operands[--r->n_operands];
    bool given = false;
    for (int i = 0; i < r->n_overrides; i++)
        given = given || strncmp(r->overrides[i], "data.eval_path=", 15) == 0;
    if (a->on || given)
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: FILE, '%s', is the evaluation data; remove %s", file,
                 given ? "data.eval_path" : "--on");
    if (!clt_file_exists(file) && !clt_is_directory(file) && !strpbrk(file, "*?[@"))
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain eval: '%s': there is no such file; an argument after the run or config names "
                 "evaluation data (data.eval_path=FILE), and one run or config is evaluated at a time",
                 file);
    if (has_items(file))
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: '%s' is a file of items, which needs --task", file);
    if (r->n_overrides >= ARGS_MAX)
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: more than %d arguments", ARGS_MAX);
    CLT_TRY(clt_config_override_text("data.eval_path", file, &a->data));
    r->overrides[r->n_overrides++] = a->data.text;
    return CLT_OK;
}

/* Uses the last operand as the file of the task's items or, without a task, as the data. */
static clt_status take_items(eval_args *a, args_result *r)
{
    if (a->most > 0 && !a->task)
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: --items is for --task");
    if (!a->task)
        return r->n_operands > 1 ? take_data(a, r) : CLT_OK;
    if (a->on || a->classes || a->confusion)
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: --on, --classes and --confusion are not for --task");
    if (r->n_operands == 0)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain eval: --task needs the file of its items: cltrain eval RUN FILE --task %s",
                 a->task);
    a->items = r->operands[--r->n_operands];
    return CLT_OK;
}

static clt_status write_task_json(const eval_args *a, const clt_choices_result *m)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 2);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "task", a->task);
    clt_jw_kint(&w, "items", m->items);
    clt_jw_kdouble(&w, "accuracy", (double)m->right / (double)m->items);
    clt_jw_kdouble(&w, "accuracy_normalised", (double)m->right_normalised / (double)m->items);
    clt_jw_kint(&w, "rows_cut", m->cut);
    for (int k = 0; k < 2; k++) {
        clt_jw_karray(&w, k ? "chosen_normalised" : "chosen");
        for (int64_t i = 0; i < m->items; i++)
            clt_jw_int(&w, m->chosen[k * m->items + i]);
        clt_jw_end_array(&w);
    }
    clt_jw_kdouble(&w, "seconds", m->seconds);
    clt_jw_end_object(&w);
    return cmd_write_line(a->json, &text);
}

/* Evaluates multiple choice, and prints the results of --task. */
static clt_status evaluate_task(cmd_context *context, const eval_args *a, const clt_saved_run *saved,
                                const clt_config *config)
{
    CLT_SCOPED(clt_choices_result) m = {0};
    console c;
    console_init(&c, context);
    const clt_run_options run = {.config = config,
                                 .init = a->init,
                                 .adapter = a->adapter,
                                 .saved = saved,
                                 .device_spec = a->device,
                                 .caps_mask = a->caps_mask,
                                 .stop = context->stop,
                                 .observer = console_observer(&c)};
    clt_status status = clt_evaluate_choices(&run, a->task, a->items, a->most, &m);
    console_close(&c);
    CLT_TRY(clt_fail_prefix(status, "cltrain eval"));
    if (!cmd_prints(context))
        return CLT_OK;
    if (!a->json || strcmp(a->json, "-") != 0)
        terminal_say("%s: %lld item%s | accuracy %.2f%% | normalised by length %.2f%% | %.1f s\n", a->task,
                     (long long)m.items, CLT_PLURAL(m.items), 100.0 * (double)m.right / (double)m.items,
                     100.0 * (double)m.right_normalised / (double)m.items, m.seconds);
    return a->json ? write_task_json(a, &m) : CLT_OK;
}

clt_status cmd_eval(cmd_context *context, int argc, char **argv)
{
    CLT_SCOPED(eval_args) a = {0};
    const args_option options[] = {
        ARGS_TEXT("--on", "eval|train", a.on, "which data: the evaluation data, or the training data (eval)"),
        ARGS_TEXT("--checkpoint", "RUN", a.checkpoint, "the run, when a different CONFIG is to be evaluated"),
        ARGS_BEST(a.best),
        ARGS_TEXT(
            "--init", "PATH", a.init,
            "weights of a safetensors file, of one of torch.save, or of a folder that save_pretrained wrote; "
            "needs a CONFIG"),
        ARGS_TEXT("--adapter", "DIR", a.adapter,
                  "low-rank adapters for the run, or for the weights of --init: a folder that PEFT saved"),
        ARGS_TEXT("--tokenizer", "PATH", a.tokenizer, "vocabulary to use instead of the run's own"),
        ARGS_DEVICE(a.device),
        ARGS_CAPS(a.caps),
        ARGS_FLAG("--classes", a.classes,
                  "also show precision, recall and F1 (Dice) of each class, and the confusion matrix"),
        ARGS_TEXT("--confusion", "FILE", a.confusion,
                  "write the confusion matrix as CSV: a line for each target; - for the standard output"),
        ARGS_TEXT("--json", "FILE", a.json, "write the result as JSON; - for the standard output"),
        ARGS_TEXT(
            "--task", "NAME", a.task,
            "multiple choice instead of a loss: hellaswag, or choices (query, choices, gold); FILE holds "
            "its items as JSON Lines"),
        ARGS_INT("--items", "N", a.most, 0, 1e12, "only the first N items of the task; 0: all (0)"),
        ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "eval", "RUN|CONFIG [FILE] [section.key=value ...]", 0, 2, options,
        "Evaluates a trained model: RUN is a run folder, its checkpoints folder or one step_N of it,\n"
        "which brings its config along. A CONFIG takes --checkpoint RUN or --init PATH, or\n"
        "has model.init. FILE is other\n"
        "evaluation data than the config's (data.eval_path=FILE), or the items of --task.");
    args_result r;
    CLT_SCOPED(clt_saved_run) *saved = NULL;
    CLT_SCOPED(clt_config) *config = NULL;
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(take_items(&a, &r));
    CLT_TRY(check_args(&a, &r));
    if (cmd_prints(context)) { /* only one rank writes the files */
        CLT_TRY(cmd_can_write(a.json));
        CLT_TRY(cmd_can_write(a.confusion));
    }
    CLT_TRY(open_inputs(&a, &r, &saved, &config));
    const clt_config *used = config ? config : saved->config;
    return a.task ? evaluate_task(context, &a, saved, used) : evaluate(context, &a, saved, used);
}

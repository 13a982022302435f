/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain demo: trains a small GPT over bytes for about 75 seconds on text found on this machine, compares
 * its loss with the loss of a prediction by byte frequencies alone, and generates text. It calls the trainer
 * and the generator as other commands do, and knows nothing of models or devices. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/data/demo_text.h"
#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "cli/screen/shell_word.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/train/generate/generate.h"
#include "engine/train/inspect/bench_step.h"
#include "engine/train/loop/trainer.h"

#define TEXT_BYTES 3000000u
#define SAMPLE_BYTES 400
#define TEMPERATURE 0.6

typedef struct demo_args {
    const char *out, *device, *prompt;
    double seconds;
    int64_t steps, seed;
} demo_args;

typedef struct demo {
    cmd_context *context;
    const demo_args *args;
    demo_text text;
    char *folder;
    clt_config *config;
    console console;
    atomic_llong at_step;
    int64_t steps;
    double step_ms;
} demo;

static void write_paths(clt_json_writer *w, const char *key, char *const *paths, size_t count)
{
    clt_jw_karray(w, key);
    for (size_t i = 0; i < count; i++)
        clt_jw_string(w, paths[i]);
    clt_jw_end_array(w);
}

/* Makes the config of the demo. The trainer writes it into the run folder, as for every run. */
static clt_status make_config(demo *d)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 1);
    clt_str_append(&text,
                   "{\n"
                   " \"model\": {\"type\": \"gpt\", \"layers\": 4, \"heads\": 4, \"channels\": 96, "
                   "\"context\": 64},\n"
                   " \"optimizer\": {\"type\": \"adamw\", \"learning_rate\": 0.003, \"beta2\": 0.99, "
                   "\"weight_decay\": 0.1, \"clip\": 1},\n"
                   " \"schedule\": {\"type\": \"cosine\", \"warmup\": 50, \"min_learning_rate\": 0.0001},\n"
                   " \"data\": ");
    clt_jw_object(&w);
    clt_jw_kstring(&w, "type", "text");
    clt_jw_kint(&w, "micro_batch", 12);
    write_paths(&w, "path", d->text.train, d->text.n_train);
    write_paths(&w, "eval_path", d->text.eval, d->text.n_eval);
    clt_jw_end_object(&w);
    clt_str_printf(&text, ",\n \"train\": {\"steps\": 1000, \"seed\": %lld}\n}\n", (long long)d->args->seed);
    CLT_TRY(clt_str_check(&text));
    return clt_config_parse(text.text, "demo.json", NULL, 0, &d->config);
}

static void tell_text(const demo *d)
{
    char bytes[32];
    terminal_say("text found on this machine:\n");
    for (int i = 0; i < d->text.n_folders; i++)
        terminal_say("  %-28s %4d file%s  %s\n", d->text.folder[i], d->text.folder_files[i],
                     CLT_PLURAL(d->text.folder_files[i]),
                     console_bytes(d->text.folder_bytes[i], bytes, sizeof bytes));
    terminal_say("  training on %s in %zu file%s", console_bytes(d->text.train_bytes, bytes, sizeof bytes),
                 d->text.n_train, CLT_PLURAL(d->text.n_train));
    terminal_say(", validating on %s in %zu other file%s\n",
                 console_bytes(d->text.eval_bytes, bytes, sizeof bytes), d->text.n_eval,
                 CLT_PLURAL(d->text.n_eval));
}

/* Chooses the run folder: ./runs/demo, or a temporary folder if that cannot be written. */
static clt_status choose_folder(demo *d)
{
    if (d->args->out) {
        d->folder = strdup(d->args->out);
        if (!d->folder)
            CLT_FAIL(CLT_ENOMEM, "starting the demo: out of host memory");
        return CLT_OK;
    }
    if (access(".", W_OK) == 0)
        return cmd_free_folder("runs/demo", &d->folder);
    char pattern[] = "/tmp/cltrain-demo-XXXXXX";
    if (!mkdtemp(pattern))
        CLT_FAIL(CLT_ESTORAGE, "creating a folder like %s: %s; name one with --out DIR", pattern,
                 strerror(errno));
    return clt_path_join(pattern, "run", &d->folder);
}

/* Measures the time of a step to choose the number of steps. */
static clt_status choose_steps(demo *d)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_SCOPED(clt_str) json = {0};
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    char count[32];
    d->steps = d->args->steps;
    if (d->steps == 0) {
        clt_bench_options bench = {
            .config = d->config,
            .device_spec = d->args->device,
            .caps_mask = OCL_CAPS_ALL,
            .warmup = 5,
            .steps = 20,
            .observer = {.context = &d->console, .progress = console_observer(&d->console).progress}};
        CLT_TRY(clt_bench_step(&bench, &text, &json, NULL));
        CLT_TRY(clt_json_parse(json.text, json.length, "bench step", CLT_EINTERNAL, &doc));
        const clt_json *ms = clt_json_get(clt_json_root(doc), "step_ms");
        d->step_ms = clt_json_number(ms);
        double steps = d->step_ms > 0 ? d->args->seconds * 1000 / d->step_ms : 500;
        d->steps = steps < 300 ? 300 : steps > 12000 ? 12000 : (int64_t)(steps / 100) * 100;
        terminal_say("a step takes %.1f ms here: training for %lld step%s, about %s\n", d->step_ms,
                     (long long)d->steps, CLT_PLURAL(d->steps),
                     console_time((double)d->steps * d->step_ms / 1000, count, sizeof count));
    }
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)d->steps);
    CLT_TRY(clt_config_set(d->config, "train.steps", number));
    snprintf(number, sizeof number, "%lld", (long long)(d->steps / 20 > 0 ? d->steps / 20 : 1));
    CLT_TRY(clt_config_set(d->config, "train.log_every", number)); /* twenty lines */
    if (d->steps < 50)
        CLT_TRY(clt_config_set(d->config, "schedule.warmup", "0"));
    return clt_config_check(d->config);
}

/* Prints generated bytes that a terminal can show. */
static void print_bytes(const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned char c = (unsigned char)bytes[i];
        putchar(c == '\n' || c == '\t' || (c >= 0x20 && c < 0x7f) ? c : '.');
    }
    fflush(stdout);
}

typedef struct sample {
    console *console;
    const char *prompt; /* printed before the first generated text; NULL afterwards */
} sample;

static void print_piece(void *context, const char *bytes, size_t count)
{
    sample *s = context;
    if (s->prompt) {
        console_close(s->console);
        print_bytes(s->prompt, strlen(s->prompt));
    }
    s->prompt = NULL;
    print_bytes(bytes, count);
}

static clt_status show_sample(demo *d, const clt_run_result *result)
{
    sample shown = {&d->console, d->args->prompt};
    clt_generate_result made;
    clt_generate_options options = {
        .checkpoint = result->checkpoint,
        .prompt = d->args->prompt,
        .max_new = SAMPLE_BYTES,
        .sampling = {.temperature = TEMPERATURE, .top_p = 1, .seed = (uint64_t)d->args->seed},
        .device_spec = d->args->device,
        .caps_mask = OCL_CAPS_ALL,
        .observer = {.context = &d->console, .progress = console_observer(&d->console).progress},
        .context = &shown,
        .text = print_piece};
    terminal_say("\na sample that begins with \"%s\" (temperature %.1f):\n\n", d->args->prompt, TEMPERATURE);
    clt_status status = clt_generate(&options, &made);
    terminal_say("\n");
    return status;
}

static void on_ready(void *context)
{
    (void)context;
    cmd_signals_ready();
}

static void on_stop(void *context, int number)
{
    demo *d = context;
    console_stopping(&d->console, number, atomic_load(&d->at_step));
}

/* Appends the path of a config that comes with cltrain. It is searched in configs/ of the current folder, of
 * the source tree or bundle that contains the program, and of the install folder. */
static void append_config(clt_str *out, const demo *d, const char *name)
{
    static const char *const places[] = {"", "/../", "/", "/../share/cltrain/"};
    const char *program = d->context->program ? d->context->program : "";
    const char *slash = strrchr(program, '/');
    CLT_SCOPED(clt_str) path = {0};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        clt_str_free(&path);
        if (*places[i])
            clt_str_printf(&path, "%.*s%s", slash ? (int)(slash - program) : 1, slash ? program : ".",
                           places[i]);
        clt_str_printf(&path, "configs/%s", name);
        if (path.text && clt_file_exists(path.text))
            break;
    }
    shell_append_word(out, path.text ? path.text : name);
}

/* Prints the purpose of a command, and the command in a form that can be pasted into a shell. */
static void tell_command(const demo *d, const char *what, const char *command, const char *config,
                         const char *rest)
{
    CLT_SCOPED(clt_str) text = {0};
    cmd_append_command(&text, d->context);
    clt_str_printf(&text, " %s", command);
    if (config) {
        clt_str_append(&text, " ");
        append_config(&text, d, config);
    }
    clt_str_append(&text, rest);
    if (clt_str_check(&text) == CLT_OK)
        terminal_say_whole("  %s\n    %s\n", what, text.text);
}

static void tell_next(const demo *d)
{
    CLT_SCOPED(clt_str) folder = {0};
    CLT_SCOPED(clt_str) generate = {0};
    CLT_SCOPED(clt_str) text = {0};
    shell_append_word(&folder, d->folder);
    clt_str_printf(&generate, " %s --prompt \"The \"", folder.text ? folder.text : "");
    clt_str_printf(&text, " %s", folder.text ? folder.text : "");
    terminal_say("\nwhat to try next:\n");
    tell_command(d, "more of its text:", "generate", NULL, generate.text ? generate.text : "");
    tell_command(d, "the run as a page with curves:", "report", NULL, text.text ? text.text : "");
    tell_command(d, "the same on a text of your own:", "train", "gpt-shakespeare-cpu.json",
                 " data.path=FILE");
    tell_command(d, "handwritten digits, over 97.5 % right:", "data fetch mnist", NULL, "");
    tell_command(d, "  and then:", "train", "mlp-mnist.json", "");
    tell_command(d, "does this device compute correctly?", "verify --quick", NULL, "");
    tell_command(d, "everything else:", "help", NULL, "");
}

static clt_status judge(const demo *d, const clt_run_result *result, double unigram)
{
    double loss = result->final_eval.loss;
    if (result->final_eval.samples == 0 || !isfinite(loss))
        CLT_FAIL(CLT_ECHECK, "the demo ended without a validation loss");
    terminal_say("\nvalidation loss %.3f nats per byte; a model of only byte frequencies: %.3f", loss,
                 unigram);
    terminal_say(" (%.2f against %.2f bits per byte, perplexity %.2f against %.2f)\n", loss / log(2),
                 unigram / log(2), exp(loss), exp(unigram));
    if (loss >= unigram)
        CLT_FAIL(
            CLT_ECHECK,
            "the model (%.3f nats per byte) is no better than byte frequencies (%.3f) after %lld step%s; "
            "run 'cltrain verify' to check the device, or train longer with --seconds",
            loss, unigram, (long long)d->steps, CLT_PLURAL(d->steps));
    return CLT_OK;
}

static clt_status run(demo *d)
{
    clt_run_result result;
    memset(&result, 0, sizeof result);
    CLT_TRY(demo_text_find(TEXT_BYTES, &d->text));
    tell_text(d);
    double unigram = demo_text_unigram(&d->text);
    terminal_say("  unigram entropy: %.3f nats per byte; a model that knows only byte frequencies has this "
                 "validation loss\n\n",
                 unigram);
    CLT_TRY(choose_folder(d));
    CLT_TRY(make_config(d));
    CLT_TRY(choose_steps(d));
    clt_run_options options = {.config = d->config,
                               .out_dir = d->folder,
                               .device_spec = d->args->device,
                               .caps_mask = OCL_CAPS_ALL,
                               .stop = d->context->stop,
                               .at_step = &d->at_step,
                               .observer = console_observer(&d->console)};
    options.observer.ready = on_ready;
    cmd_signals_listen(on_stop, d);
    clt_status status = clt_train(&options, &result);
    cmd_signals_listen(NULL, NULL);
    console_close(&d->console);
    CLT_TRY(status);
    CLT_TRY(show_sample(d, &result));
    CLT_TRY(judge(d, &result, unigram));
    tell_next(d);
    return CLT_OK;
}

clt_status cmd_demo(cmd_context *context, int argc, char **argv)
{
    demo_args a = {.seconds = 75, .seed = 1337, .prompt = "This program is free "};
    const args_option options[] = {
        ARGS_TEXT("--out", "DIR", a.out, "run folder (default: runs/demo, numbered when taken)"),
        ARGS_DEVICE(a.device),
        ARGS_TEXT("--prompt", "TEXT", a.prompt, "beginning of the sample"),
        ARGS_FLOAT("--seconds", "S", a.seconds, 1, 86400, "about how long to train (75)"),
        ARGS_INT("--steps", "N", a.steps, 1, 1e9, "train for exactly N steps instead"),
        ARGS_INT("--seed", "N", a.seed, 0, 9e18, "seed of the run and the sample (1337)"),
        ARGS_END};
    const args_usage usage =
        ARGS_USAGE("demo", "", 0, 0, options,
                   "Trains a small GPT on text found on this machine, compares it with the text's unigram\n"
                   "entropy and samples from it. Nothing is downloaded; only the run folder is written.");
    args_result r;
    demo d = {.context = context, .args = &a};
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    console_init(&d.console, context);
    cmd_signals_starting();
    clt_status status = run(&d);
    console_close(&d.console);
    clt_config_destroy(d.config);
    demo_text_free(&d.text);
    free(d.folder);
    return status;
}

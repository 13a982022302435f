/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain generate: continues a text with a trained language model. The text is printed to the standard
 * output while it is generated, everything else to stderr. */
#include <stdlib.h>
#include <string.h>

#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "cli/screen/npy_head.h"
#include "cli/screen/terminal.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/train/generate/generate.h"

/* The logits of all tokens so far: rows x columns, a row for each token. */
typedef struct kept_logits {
    float *values;
    size_t count, capacity;
    int64_t rows, columns;
} kept_logits;

typedef struct generate_view {
    const char *prompt; /* NULL when it is printed */
    console console;
    kept_logits kept;
} generate_view;

static void free_view(generate_view *v)
{
    free(v->kept.values);
}
CLT_SCOPED_VALUE(generate_view, free_view)

static clt_status keep_logits(void *context, const float *logits, int count)
{
    kept_logits *kept = &((generate_view *)context)->kept;
    CLT_TRY(clt_grow(&kept->values, &kept->capacity, kept->count + (size_t)count, sizeof *kept->values,
                     "logits"));
    memcpy(kept->values + kept->count, logits, (size_t)count * sizeof *logits);
    kept->count += (size_t)count;
    kept->rows++;
    kept->columns = count;
    return CLT_OK;
}

/* Writes the logits as an npy array (tokens, vocabulary) of f32. */
static clt_status write_logits(const char *path, const kept_logits *kept)
{
    const int64_t dim[] = {kept->rows, kept->columns};
    char head[NPY_HEADER];
    CLT_SCOPED(clt_str) file = {0};
    npy_head(dim, 2, head);
    clt_str_append_n(&file, head, NPY_HEADER);
    clt_str_append_n(&file, (const char *)kept->values, kept->count * sizeof *kept->values);
    CLT_TRY(clt_str_check(&file));
    CLT_TRY(clt_file_write(path, file.text, file.length));
    terminal_say_to(stderr, "logits of %lld tokens, (%lld, %lld): %s\n", (long long)kept->rows,
                    (long long)kept->rows, (long long)kept->columns, path);
    return CLT_OK;
}

/* Prints the prompt, once: when the first generated text arrives, so that earlier errors print none. */
static void print_prompt(generate_view *v)
{
    if (v->prompt) {
        console_close(&v->console);
        fputs(v->prompt, stdout);
    }
    v->prompt = NULL;
}

static void print_text(void *context, const char *bytes, size_t count)
{
    print_prompt(context);
    fwrite(bytes, 1, count, stdout);
    fflush(stdout);
}

static clt_status generate(const cmd_context *context, clt_generate_options *options, const char *logits)
{
    clt_generate_result result;
    CLT_SCOPED(generate_view) view = {.prompt = options->chat ? "" : options->prompt};
    options->context = &view;
    options->observer = console_begin_result(&view.console, context);
    options->logits = logits ? keep_logits : NULL;
    clt_status status = clt_generate(options, &result);
    console_close(&view.console);
    CLT_TRY(status);
    print_prompt(&view);
    terminal_say("\n");
    fflush(stdout);
    if (logits)
        CLT_TRY(write_logits(logits, &view.kept));
    terminal_say_to(stderr, "%d tokens in %.2f s (%.1f tokens/s)", result.new_tokens, result.new_seconds,
                    result.new_seconds > 0 ? result.new_tokens / result.new_seconds : 0.0);
    if (result.prompt_tokens > 0)
        terminal_say_to(stderr, ", prompt of %d tokens in %.2f s", result.prompt_tokens,
                        result.prompt_seconds);
    terminal_say_to(stderr, "%s\n",
                    !result.ended   ? ""
                    : options->chat ? ", ended by the end marker of the answer"
                                    : ", ended by the end-of-text token");
    return CLT_OK;
}

clt_status cmd_generate(cmd_context *context, int argc, char **argv)
{
    const char *checkpoint = NULL, *adapter = NULL, *tokenizer = NULL, *prompt = "\n", *device = NULL,
               *caps_text = NULL, *run, *logits = NULL;
    int64_t max_new = 200, top_k = 0, seed = 1337;
    double temperature = 0.8, top_p = 1;
    char best_path[1024];
    bool best = false, ignore_end = false, special = false, chat = false;
    const args_option options[] = {
        ARGS_TEXT("--prompt", "TEXT", prompt, "the text to continue"),
        ARGS_INT("--max-new", "N", max_new, 0, 1e7, "tokens to generate (200)"),
        ARGS_FLOAT("--temperature", "X", temperature, 0, 100, "0: always the most likely token (0.8)"),
        ARGS_INT("--top-k", "K", top_k, 0, 1e7, "only the K most likely tokens; 0: all (0)"),
        ARGS_FLOAT("--top-p", "P", top_p, 1e-6, 1,
                   "only the most likely tokens of this total probability (1)"),
        ARGS_INT("--seed", "N", seed, 0, 9e15, "seed of the draws (1337)"),
        ARGS_FLAG("--ignore-eos", ignore_end,
                  "go on after tokens at which texts end, and print them; without it the text ends there"),
        ARGS_FLAG(
            "--chat", chat,
            "the prompt is a question, written by the chat template of the run (data.type chat); prints "
            "the answer alone"),
        ARGS_FLAG("--special-tokens", special,
                  "names of special tokens in the prompt become these tokens, not plain text"),
        ARGS_TEXT("--logits", "FILE.npy", logits,
                  "write the logits of the token after each token of the prompt and of the text: (tokens, "
                  "vocabulary) f32; with --max-new 0 only of the prompt"),
        ARGS_TEXT("--adapter", "DIR", adapter,
                  "low-rank adapters for the run's model: a folder that PEFT saved"),
        ARGS_TEXT("--tokenizer", "PATH", tokenizer, "vocabulary to use instead of the run's own"),
        ARGS_BEST(best),
        ARGS_TEXT("--checkpoint", "RUN", checkpoint, "the same as the operand RUN"),
        ARGS_DEVICE(device),
        ARGS_CAPS(caps_text),
        ARGS_END};
    const args_usage usage =
        ARGS_USAGE("generate", "RUN [section.key=value ...]", 0, 1, options,
                   "Continues a text with a trained language model. RUN is a run folder, its\n"
                   "checkpoints folder or one step_N of it; config and tokenizer are in there.");
    args_result r;
    uint32_t caps;
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(cmd_run_operand(&r, "generate", checkpoint, "a trained language model", &run));
    CLT_TRY(cmd_best_of(best, &run, best_path));
    CLT_TRY(cmd_caps(caps_text, &caps));
    if (logits && !clt_stem(logits, ".npy"))
        CLT_FAIL(CLT_EUSAGE, "cltrain generate: --logits '%s': name a file that ends in .npy", logits);
    if (logits)
        CLT_TRY(cmd_can_write(logits));
    clt_generate_options o = {.checkpoint = run,
                              .tokenizer = tokenizer,
                              .adapter = adapter,
                              .overrides = r.overrides,
                              .n_overrides = r.n_overrides,
                              .prompt = prompt,
                              .chat = chat,
                              .max_new = (int)max_new,
                              .ignore_end = ignore_end,
                              .special_tokens = special,
                              .sampling = {temperature, (int)top_k, top_p, (uint64_t)seed},
                              .device_spec = device,
                              .caps_mask = caps,
                              .text = print_text};
    return generate(context, &o, logits);
}

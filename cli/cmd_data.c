/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain data: dispatch to its parts, and prepare, which turns text files into token shards. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"
#include "cli/console.h"
#include "cli/data_verify.h"
#include "engine/base/thread.h"
#include "engine/data/prepare.h"

#define PLAIN_SECONDS 5.0 /* between progress lines when the output is not a terminal */
#define DRAW_SECONDS 0.1

typedef struct prepare_view {
    const cmd_context *context;
    bool tty, open;
    double shown_at;
    const char *stage;
} prepare_view;

static void progress_text(const clt_prepare_progress *p, char *text, size_t size)
{
    char done[32], total[32], rate[32], tokens[32];
    double percent = p->total > 0 ? 100.0 * (double)p->done / (double)p->total : 0.0;
    if (strcmp(p->stage, "choosing merges") == 0) {
        snprintf(text, size, "%s %llu/%llu  %.0f %%", p->stage, (unsigned long long)p->done,
                 (unsigned long long)p->total, percent);
        return;
    }
    double per_second = p->seconds > 0 ? (double)p->done / p->seconds : 0;
    int used =
        snprintf(text, size, "%s %s of %s  %.0f %%  %s/s", p->stage,
                 console_bytes(p->done, done, sizeof done), console_bytes(p->total, total, sizeof total),
                 percent, console_bytes((uint64_t)per_second, rate, sizeof rate));
    if (p->tokens > 0 && used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, "  %s tokens",
                 console_count((double)p->tokens, tokens, sizeof tokens));
}

static clt_status on_progress(void *context, const clt_prepare_progress *p)
{
    prepare_view *v = context;
    char text[256];
    double now = clt_now();
    if (v->context->stop && atomic_load(v->context->stop))
        CLT_FAIL(CLT_EINTERRUPTED,
                 "preparing data: stopped by a signal while %s; nothing was kept, run it again", p->stage);
    bool changed = !v->stage || strcmp(v->stage, p->stage) != 0;
    if (changed && v->open)
        printf("\n");
    v->open = v->open && !changed;
    if (!changed && now - v->shown_at < (v->tty ? DRAW_SECONDS : PLAIN_SECONDS) && p->done < p->total)
        return CLT_OK;
    progress_text(p, text, sizeof text);
    if (v->tty)
        printf("\r%.79s\033[K", text);
    else
        printf("%s\n", text);
    fflush(stdout);
    v->open = v->tty;
    v->stage = p->stage;
    v->shown_at = now;
    return CLT_OK;
}

static void print_result(const clt_prepare_options *o, const clt_prepare_result *r)
{
    char bytes[32], rate[32];
    double per_second = r->encode_seconds > 0 ? (double)r->bytes / r->encode_seconds : 0;
    printf(
        "%s of text from %d file%s: %llu tokens for training in %d shard%s, %llu for evaluation in %d, u%d\n",
        console_bytes(r->bytes, bytes, sizeof bytes), r->files, r->files == 1 ? "" : "s",
        (unsigned long long)r->train_tokens, r->train_shards, r->train_shards == 1 ? "" : "s",
        (unsigned long long)r->val_tokens, r->val_shards, 8 * r->width);
    printf("tokenizer: %s; %.2f bytes per token; tokenised and written at %s/s\n", r->tokenizer,
           (double)r->bytes / (double)(r->train_tokens + r->val_tokens),
           console_bytes((uint64_t)per_second, rate, sizeof rate));
    printf("train on it with \"data\": {\"type\": \"tokens\", \"path\": \"%s\"} and model.context above 0\n",
           o->out);
}

static clt_status run_prepare(const cmd_context *context, clt_prepare_options *o)
{
    prepare_view view = {.context = context, .tty = isatty(STDOUT_FILENO) != 0};
    clt_prepare_result result;
    o->progress = on_progress;
    o->context = &view;
    clt_status status = clt_prepare(o, &result);
    if (view.open)
        printf("\n");
    if (status == CLT_OK)
        print_result(o, &result);
    return status;
}

static clt_status data_prepare(cmd_context *context, int argc, char **argv)
{
    clt_prepare_options o = {.tokenizer = "", .split = 0.1, .shard_tokens = 100000000};
    int64_t threads = clt_cpu_count();
    const args_option options[] = {
        ARGS_TEXT("--out", "DIR", o.out, "the folder to make"),
        ARGS_TEXT("--tokenizer", "PATH", o.tokenizer,
                  "bytes (the default), or a folder or file of a BPE vocabulary"),
        ARGS_INT("--train-bpe", "N", o.train_bpe, 257, 1048576,
                 "train a BPE vocabulary of N tokens on the training part"),
        ARGS_FLOAT("--split", "X", o.split, 0, 0.999, "part of the text, at its end, for evaluation (0.1)"),
        ARGS_INT("--shard-tokens", "N", o.shard_tokens, 1, 2147483647, "tokens in a file (100000000)"),
        ARGS_INT("--threads", "N", threads, 1, 64, "threads that tokenise (one per core)"),
        ARGS_END};
    const args_usage usage = {.command = "data prepare",
                              .operands = "TEXT...",
                              .summary =
                                  "Turns text files (plain or .gz; @LIST: the files that LIST names) into "
                                  "token shards for data.type tokens.",
                              .options = options,
                              .min_operands = 1,
                              .max_operands = ARGS_MAX};
    args_result r;
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    if (!o.out)
        CLT_FAIL(CLT_EUSAGE, "cltrain data prepare: name the folder to make with --out DIR");
    o.inputs = r.operands;
    o.n_inputs = r.n_operands;
    o.threads = (int)threads;
    return run_prepare(context, &o);
}

static const args_part parts[] = {
    {"prepare", "turn text files into token shards", data_prepare},
    {"verify", "read every shard, idx and npy file or tokenizer to its end, or all data of a config",
     data_verify},
    {NULL, NULL, NULL},
};

clt_status cmd_data(cmd_context *context, int argc, char **argv)
{
    const args_option options[] = {ARGS_END};
    const args_usage usage = {.command = "data",
                              .operands = "PART ...",
                              .summary = "Makes and checks data.",
                              .options = options,
                              .parts = parts};
    return args_dispatch(&usage, context, argc, argv);
}

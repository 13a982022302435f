/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain data: calls one of its parts, and implements its part `prepare`, which converts text files into
 * token shards, or a folder of images into one file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/data_fetch.h"
#include "cli/data/data_images.h"
#include "cli/data/data_verify.h"
#include "cli/data/draft.h"
#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "cli/screen/shell_word.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/data/pixels/image_folder.h"
#include "engine/data/tokens/prepare.h"
#include "engine/files/fileio.h"

typedef struct prepare_view {
    const cmd_context *context;
    console *console;
} prepare_view;

/* "reading the text: 12.0 MiB/s, 3.1M tokens" */
static void progress_text(const clt_prepare_progress *p, char *text, size_t size)
{
    char rate[32], tokens[32];
    double per_second = p->seconds > 0 ? (double)p->done / p->seconds : 0;
    int used = snprintf(text, size, "%s", p->stage);
    if (strcmp(p->stage, "choosing merges") == 0 || used < 0 || (size_t)used >= size)
        return;
    used += snprintf(text + used, size - (size_t)used, ": %s/s",
                     console_bytes((uint64_t)per_second, rate, sizeof rate));
    if (p->tokens > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, ", %s tokens",
                 console_count((double)p->tokens, tokens, sizeof tokens));
}

static clt_status on_progress(void *context, const clt_prepare_progress *p)
{
    prepare_view *v = context;
    char text[160];
    if (v->context->stop && atomic_load(v->context->stop))
        CLT_FAIL(CLT_EINTERRUPTED,
                 "preparing data: stopped by a signal while %s; nothing was kept, run it again", p->stage);
    progress_text(p, text, sizeof text);
    console_observer(v->console).progress(v->console, text, (int64_t)p->done, (int64_t)p->total);
    return CLT_OK;
}

static void print_result(const clt_prepare_result *r)
{
    char bytes[32], rate[32];
    double per_second = r->encode_seconds > 0 ? (double)r->bytes / r->encode_seconds : 0;
    terminal_say("%s of text from %d file%s: %llu token%s for training in %d shard%s, %llu for evaluation in "
                 "%d, u%d\n",
                 console_bytes(r->bytes, bytes, sizeof bytes), r->files, CLT_PLURAL(r->files),
                 (unsigned long long)r->train_tokens, CLT_PLURAL(r->train_tokens), r->train_shards,
                 CLT_PLURAL(r->train_shards), (unsigned long long)r->val_tokens, r->val_shards, 8 * r->width);
    terminal_say("tokenizer: %s; %.2f bytes per token; tokenised and written at %s/s\n", r->tokenizer,
                 (double)r->bytes / (double)(r->train_tokens + r->val_tokens),
                 console_bytes((uint64_t)per_second, rate, sizeof rate));
}

/* Writes an example config: a small GPT for these tokens that can be trained unchanged. The caller frees
 * *path. */
static clt_status write_config(const clt_prepare_options *o, const clt_prepare_result *r, char **path)
{
    CLT_SCOPED(draft) d = {.count = 0};
    CLT_TRY(draft_open(&d));
    draft_text(&d, "data.type", "tokens");
    draft_text(&d, "data.path", o->out);
    draft_gpt(&d, r->train_tokens, r->val_tokens > 0);
    CLT_TRY(clt_path_join(o->out, "gpt.json", path));
    return draft_save(&d, *path);
}

/* Prints the next command. A failure to write the example config is not an error: the shards are
 * complete. */
static clt_status tell_next(const cmd_context *context, const clt_prepare_options *o,
                            const clt_prepare_result *r)
{
    CLT_FREED char *path = NULL;
    CLT_SCOPED(clt_str) line = {0};
    CLT_TRY(write_config(o, r, &path));
    cmd_append_command(&line, context);
    clt_str_append(&line, " train ");
    shell_append_word(&line, path);
    CLT_TRY(clt_str_check(&line));
    terminal_say_whole("train a small GPT on it:\n  %s\n", line.text);
    return CLT_OK;
}

static clt_status print_pairs(const clt_prepare_options *o, const clt_prepare_result *r)
{
    char bytes[32];
    int64_t pairs = r->train_pairs + r->val_pairs;
    terminal_say(
        "%s of text from %d file%s: %lld sentence%s in %lld document%s; %lld pair%s for training, %lld for "
        "evaluation, of up to %lld token%s; in %.1f %% the second text does not follow\n",
        console_bytes(r->bytes, bytes, sizeof bytes), r->files, CLT_PLURAL(r->files), (long long)r->sentences,
        CLT_PLURAL(r->sentences), (long long)r->documents, CLT_PLURAL(r->documents),
        (long long)r->train_pairs, CLT_PLURAL(r->train_pairs), (long long)r->val_pairs,
        (long long)o->pair_context, CLT_PLURAL(o->pair_context),
        pairs ? 100.0 * (double)r->random_pairs / (double)pairs : 0.0);
    terminal_say("tokenizer: %s; %.2f bytes per token\n", r->tokenizer,
                 (double)r->bytes / (double)(r->train_tokens + r->val_tokens));
    terminal_say_whole("a config reads them by:\n  \"model\": {\"type\": \"bert\", \"context\": %lld, ...}, "
                       "\"data\": {\"type\": \"mlm\", \"path\": \"%s\"}\n",
                       (long long)o->pair_context, o->out);
    return CLT_OK;
}

static clt_status run_prepare(const cmd_context *context, clt_prepare_options *o)
{
    console c;
    prepare_view view = {.context = context, .console = &c};
    clt_prepare_result result;
    console_init(&c, context);
    o->progress = on_progress;
    o->context = &view;
    clt_status status = clt_prepare(o, &result);
    console_close(&c);
    CLT_TRY(status);
    if (o->pair_context)
        return print_pairs(o, &result);
    print_result(&result);
    return tell_next(context, o, &result);
}

static clt_status data_prepare(cmd_context *context, int argc, char **argv)
{
    clt_prepare_options o = {
        .tokenizer = "", .split = 0.1, .shard_tokens = 100000000, .pair_shorter = 0.1, .pair_copies = 1};
    bool pairs = false;
    int64_t most = 128, seed = 0;
    clt_pack_options pack = {.folder = NULL};
    int64_t threads = clt_cpu_count(), resize = 0;
    const args_option options[] = {
        ARGS_TEXT("--out", "PATH", o.out, "the folder to create; for images the file"),
        ARGS_TEXT("--tokenizer", "PATH", o.tokenizer,
                  "bytes (the default), or a folder or file of a BPE vocabulary"),
        ARGS_INT("--train-bpe", "N", o.train_bpe, 257, 1048576,
                 "train a BPE vocabulary of N tokens on the training part"),
        ARGS_TEXT("--json-key", "NAME", o.json_key,
                  "the texts are JSON Lines (one record a line) or a list of JSON, and NAME holds the text"),
        ARGS_FLAG("--special-tokens", o.special_tokens,
                  "names of special tokens in the text become these tokens, not plain text"),
        ARGS_FLOAT("--split", "X", o.split, 0, 0.999, "part of the text, at its end, for evaluation (0.1)"),
        ARGS_INT("--shard-tokens", "N", o.shard_tokens, 1, 2147483647, "tokens in a file (100000000)"),
        ARGS_FLAG(
            "--mlm", pairs,
            "write pairs of texts for data.type mlm: the text has one sentence a line, and an empty line "
            "between documents"),
        ARGS_INT("--context", "N", most, 5, 16384, "--mlm: tokens of a pair, at most (128)"),
        ARGS_FLOAT("--shorter", "X", o.pair_shorter, 0, 1,
                   "--mlm: share of documents whose pairs get a random, shorter length (0.1)"),
        ARGS_INT("--copies", "N", o.pair_copies, 1, 1000,
                 "--mlm: how often the text is paired, each time in another way (1)"),
        ARGS_INT("--seed", "N", seed, 0, 2147483647, "--mlm: the seed of the pairs (0)"),
        ARGS_INT("--threads", "N", threads, 1, 64, "threads that tokenise (one per core)"),
        ARGS_INT("--resize", "N", resize, 0, 16384,
                 "images: store pixels whose shorter side is at most N, instead of JPEG and PNG files"),
        ARGS_FLAG("--skip-bad", pack.skips_bad, "images: leave out files that cannot be decoded"),
        ARGS_END};
    const args_usage usage =
        ARGS_USAGE("data prepare", "TEXT...|FOLDER", 1, ARGS_MAX, options,
                   "Converts texts (files, plain or .gz; folders; patterns; - for the standard "
                   "input; @LIST for the files that LIST names; records of JSON with --json-key) "
                   "into token shards for data.type tokens, or a folder of images (CLASS/name.jpg) into one "
                   "file for data.type images. A folder is taken for one of images if at least half of its "
                   "files are images and no option of texts is given.");
    args_result r;
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    if (!o.out)
        CLT_FAIL(CLT_EUSAGE, "cltrain data prepare: name what to create with --out PATH");
    if (r.n_operands == 1 && clt_is_directory(r.operands[0]) &&
        (resize > 0 || pack.skips_bad ||
         (!o.json_key && !o.special_tokens && !o.train_bpe && !*o.tokenizer &&
          clt_folder_has_images(r.operands[0])))) {
        pack.folder = r.operands[0];
        pack.out = o.out;
        pack.resize = (int)resize;
        return data_pack(context, &pack);
    }
    if (resize > 0 || pack.skips_bad)
        CLT_FAIL(CLT_EUSAGE, "cltrain data prepare: --resize and --skip-bad are for a folder of images");
    o.pair_context = pairs ? most : 0;
    o.pair_seed = (uint64_t)seed;
    o.inputs = r.operands;
    o.n_inputs = r.n_operands;
    o.threads = (int)threads;
    return run_prepare(context, &o);
}

static const args_part parts[] = {
    {"fetch", "download a published data set: mnist, cifar10, tinyshakespeare ...", data_fetch},
    {"prepare", "convert text files into token shards, or a folder of images into one file", data_prepare},
    {"show", "write a page of samples as training sees them", data_show},
    {"verify", "read every image, shard, idx and npy file or tokenizer to its end, or all data of a config",
     data_verify},
    {NULL, NULL, NULL},
};

clt_status cmd_data(cmd_context *context, int argc, char **argv)
{
    const args_option options[] = {ARGS_END};
    const args_usage usage =
        ARGS_USAGE("data", "PART ...", 0, 0, options, "Downloads, prepares and checks data.", .parts = parts);
    return args_dispatch(&usage, context, argc, argv);
}

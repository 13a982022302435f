/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain export: writes the weights of a checkpoint for other programs, in f32 or 16 bits: as a folder that
 * Hugging Face's transformers loads, or as one safetensors file. Needs no device; with one, merged weights
 * are compared with base and adapters. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "cli/screen/console.h"
#include "cli/screen/terminal.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/data/facts/data_facts.h"
#include "engine/files/fileio.h"
#include "engine/files/remote_files.h"
#include "engine/pretrained/gguf/gguf.h"
#include "engine/pretrained/hf_export.h"
#include "engine/pretrained/merge.h"
#include "engine/pretrained/new_folder.h"
#include "engine/pretrained/peft.h"
#include "engine/train/generate/probe.h"

static clt_status read_type(const char *text, clt_dtype *dtype)
{
    clt_gguf_type type;
    if (clt_gguf_type_from_name(text, &type) && type == CLT_GGUF_Q8_0)
        CLT_FAIL(CLT_EUSAGE, "cltrain export: --dtype q8_0 is for --format gguf");
    bool known = clt_dtype_from_name(text, dtype);
    if (!known || (*dtype != CLT_F32 && *dtype != CLT_F16 && *dtype != CLT_BF16))
        CLT_FAIL(CLT_EUSAGE, "cltrain export: --dtype '%s'; it can be f32, f16 or bf16", text);
    return CLT_OK;
}

typedef enum export_format { FORMAT_FILE, FORMAT_FOLDER, FORMAT_PEFT, FORMAT_GGUF } export_format;

/* Returns an error if the name has the ending of another format, which would mislead the program that reads
 * the file. */
static clt_status refuse_ending(const char *out)
{
    static const char *const endings[] = {".pt", ".pth", ".ckpt", ".bin", ".onnx", ".h5", ".pb", ".npz"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (clt_ends_with(out, endings[i]))
            CLT_FAIL(
                CLT_EUSAGE,
                "cltrain export: '%s': %s names a format that is not written; end the name with .safetensors "
                "(which PyTorch reads with safetensors.torch.load_file) or .gguf (llama.cpp), or give none "
                "for a folder of transformers; --format safetensors writes that format under any name",
                out, endings[i]);
    return CLT_OK;
}

/* Without --format the path decides: an existing folder, a slash at the end, or a name without an ending
 * means a folder, unless a file of this name exists. An ending begins with a letter, so Llama-3.2-mine has
 * none. */
static clt_status read_format(const char *text, const char *out, export_format *format)
{
    static const char *const words[] = {"safetensors", "hf", "peft", "gguf"}; /* indexed by export_format */
    const char *slash = strrchr(out, '/'), *last = slash ? slash + 1 : out;
    const char *dot = strrchr(last, '.');
    bool ending = dot && isalpha((unsigned char)dot[1]);
    bool folder = clt_is_directory(out) || !*last || (!ending && !clt_file_exists(out));
    *format = clt_ends_with(out, ".gguf") ? FORMAT_GGUF : folder ? FORMAT_FOLDER : FORMAT_FILE;
    for (int i = 0; text && i < 4; i++)
        if (strcmp(text, words[i]) == 0) {
            *format = (export_format)i;
            return CLT_OK;
        }
    if (text)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain export: --format '%s'; it can be hf (a folder for transformers), peft (a folder "
                 "with only the adapters), gguf (one file for llama.cpp) or safetensors (one file)",
                 text);
    return *format == FORMAT_FILE ? refuse_ending(out) : CLT_OK;
}

/* Without --weights the moving averages are exported if there are any, as `eval` and `generate` use them. */
static clt_status read_values(const char *text, clt_values *values)
{
    *values = text && strcmp(text, "raw") == 0 ? CLT_VALUES_RAW : CLT_VALUES_AVERAGED;
    if (text && *values != CLT_VALUES_RAW && strcmp(text, "averaged") != 0)
        CLT_FAIL(CLT_EUSAGE, "cltrain export: --weights '%s'; it can be averaged or raw", text);
    return CLT_OK;
}

static void tell(const clt_export_result *x, clt_dtype dtype, const char *out)
{
    terminal_say("%s: %d tensor%s, %" PRId64 " value%s in %s, %" PRIu64 " bytes, from %s\n", out, x->tensors,
                 CLT_PLURAL(x->tensors), x->values, CLT_PLURAL(x->values), clt_dtype_name(dtype), x->bytes,
                 x->from);
    if (x->averaged)
        terminal_say("the weights are the moving averages (optimizer.ema), which evaluation uses; --weights "
                     "raw writes the weights of the last step\n");
    if (x->vanished > 0)
        terminal_say("%" PRId64 " value%s %s too small for %s and became 0\n", x->vanished,
                     CLT_PLURAL(x->vanished), x->vanished == 1 ? "is" : "are", clt_dtype_name(dtype));
}

/* The source, the format and the options of an export. */
typedef struct export_args {
    const char *out, *tokenizer, *base;
    export_format format;
    bool merge, no_probe;
    clt_values values;
    clt_dtype dtype;
    clt_gguf_type type; /* storage type of a GGUF file */
    const char *device;
    uint32_t caps;
    const cmd_context *context;
} export_args;

/* Prints into how many weights adapters were merged, and which share of the adapters' change is lost by
 * rounding to fewer bits. */
static void tell_merged(const clt_merge *merge, const export_args *a)
{
    double lost = clt_merge_lost(merge, a->dtype);
    if (a->merge)
        terminal_say("merged: adapters were added to %" PRId64 " weight%s\n", clt_merge_count(merge),
                     CLT_PLURAL(clt_merge_count(merge)));
    if (a->merge && clt_merge_idle(merge))
        terminal_say("every B or A is zero: these adapters change nothing; the run trained none of them\n");
    if (lost > 0)
        terminal_say("rounding to %s changed the merged weights by %.1f %% of what the adapters add; --dtype "
                     "f32 keeps all of it\n",
                     clt_dtype_name(a->dtype), 100 * lost);
}

static void tell_probe(const clt_probe_result *r, const export_args *a)
{
    if (r->why_not[0]) {
        terminal_say("the merged model was not compared with base and adapters: %s\n", r->why_not);
        return;
    }
    terminal_say(
        "compared with base and adapters on %d token%s: logits differ by at most %.2g, of up to %.3g; "
        "the most likely next token is the same after %d of them\n",
        r->tokens, CLT_PLURAL(r->tokens), r->change, r->largest, r->same);
    if (r->change > r->expected)
        CLT_WARN("the merged model's logits differ by %.2g, more than the %.2g that rounding to %s explains; "
                 "'cltrain eval' on both models shows what that costs%s",
                 r->change, r->expected, clt_dtype_name(a->dtype),
                 a->dtype == CLT_F32 ? "" : ", and --dtype f32 rounds nothing");
}

/* Compares the merged weights with base and adapters, on a device. */
static clt_status probe(clt_saved_run *saved, const clt_merge *merge, const export_args *a)
{
    clt_probe_options o = {.saved = saved,
                           .merge = merge,
                           .values = a->values,
                           .dtype = a->dtype,
                           .gguf = a->format == FORMAT_GGUF,
                           .device_spec = a->device,
                           .caps_mask = a->caps};
    clt_probe_result result = {0};
    console screen;
    if (!a->merge || a->no_probe || clt_merge_idle(merge))
        return CLT_OK;
    if (o.gguf && a->type == CLT_GGUF_Q8_0) {
        terminal_say(
            "the merged model was not compared with base and adapters: that is done for f32, f16 and "
            "bf16\n");
        return CLT_OK;
    }
    o.observer = console_begin_result(&screen, a->context);
    clt_status status = clt_probe_merge(&o, &result);
    console_close(&screen);
    CLT_TRY(status);
    tell_probe(&result, a);
    return CLT_OK;
}

static clt_status export_folder(clt_saved_run *saved, const export_args *a)
{
    clt_hf_exported result;
    CLT_SCOPED(clt_merge) *merge = NULL;
    CLT_TRY(clt_merge_open(saved, a->values, a->merge, true, &merge));
    CLT_TRY(clt_hf_export(saved, merge, a->values, a->dtype, a->out, &result));
    tell(&result.weights, a->dtype, a->out);
    tell_merged(merge, a);
    if (result.zero_biases)
        terminal_say("the model has no biases; GPT-2's class needs them, so zeros were written, which change "
                     "nothing\n");
    if (result.tokenizer[0])
        terminal_say("tokenizer: %s\n", result.tokenizer);
    else
        terminal_say("no tokenizer: the run's data had none; --tokenizer PATH adds one\n");
    terminal_say("in Python: %s.from_pretrained('%s')%s\n", result.loader, a->out,
                 result.tokenizer[0] ? ", AutoTokenizer likewise" : "");
    return probe(saved, merge, a);
}

static clt_status export_peft(const clt_saved_run *saved, const export_args *a)
{
    clt_peft_exported result;
    CLT_TRY(clt_peft_export(saved, a->values, a->base, a->out, &result));
    tell(&result.weights, CLT_F32, a->out);
    terminal_say("adapters of %" PRId64 " layer%s, rank %" PRId64, result.layers, CLT_PLURAL(result.layers),
                 result.rank);
    if (result.parts > 0)
        terminal_say(", and %" PRId64 " layer%s trained whole", result.parts, CLT_PLURAL(result.parts));
    terminal_say("\n");
    if (result.idle)
        terminal_say("every B is zero: these adapters change nothing\n");
    terminal_say("in Python: peft.PeftModel.from_pretrained(base_model, '%s')\n", a->out);
    return CLT_OK;
}

static clt_status export_gguf(clt_saved_run *saved, const export_args *a, const char *type)
{
    clt_hf_exported x;
    CLT_SCOPED(clt_merge) *merge = NULL;
    CLT_TRY(cmd_can_write(a->out));
    CLT_TRY(clt_merge_open(saved, a->values, a->merge, true, &merge));
    CLT_TRY(clt_gguf_export(saved, merge, a->values, a->type, a->out, &x));
    terminal_say("%s: %d tensor%s, %" PRId64 " value%s in %s, %" PRIu64 " bytes, from %s\n", a->out,
                 x.weights.tensors, CLT_PLURAL(x.weights.tensors), x.weights.values,
                 CLT_PLURAL(x.weights.values), type, x.weights.bytes, x.weights.from);
    terminal_say("tokenizer: %s\n", x.tokenizer[0] ? x.tokenizer : "none; --tokenizer PATH adds one");
    if (a->merge)
        tell_merged(merge, a);
    if (x.differs)
        terminal_say("%s\n", x.differs);
    if (x.ends[0])
        terminal_say("llama.cpp will not end texts at %s: a GGUF file can name three tokens for that\n",
                     x.ends);
    return probe(saved, merge, a);
}

static clt_status export_merged_file(clt_saved_run *saved, const export_args *a)
{
    clt_export_result result;
    CLT_SCOPED(clt_merge) *merge = NULL;
    CLT_TRY(cmd_can_write(a->out));
    CLT_TRY(clt_merge_open(saved, a->values, true, true, &merge));
    CLT_TRY(clt_merge_export(merge, a->dtype, a->out, &result));
    tell(&result, a->dtype, a->out);
    tell_merged(merge, a);
    return probe(saved, merge, a);
}

/* --- tables --- */

#define MOST_COLUMNS 40 /* data.json lists the others */
#define MOST_WORDS 8

static void tell_column(const clt_table_column *c, int64_t first)
{
    char place[48], name[80], mean[CLT_NUMBER_TEXT], std[CLT_NUMBER_TEXT], fill[CLT_NUMBER_TEXT];
    int64_t last = first + clt_table_elements(c) - 1;
    (void)snprintf(place, sizeof place, last > first ? "x[%" PRId64 "..%" PRId64 "]" : "x[%" PRId64 "]",
                   first, last);
    if (c->name)
        (void)snprintf(name, sizeof name, "'%.60s'", c->name);
    else
        (void)snprintf(name, sizeof name, "column %d", c->number);
    if (c->n_words == 0) {
        terminal_say("  %s  %s: (number - %s) / %s", place, name, clt_double_text(c->mean, mean),
                     clt_double_text(c->std, std));
        if (c->fills)
            terminal_say("; a blank cell counts as the number %s", clt_double_text(c->fill, fill));
        terminal_say("\n");
        return;
    }
    terminal_say("  %s  %s: 1 where it holds the word, else 0:", place, name);
    for (int64_t i = 0; i < c->n_words && i < MOST_WORDS; i++)
        terminal_say("%s '%.60s'", i ? "," : "", c->words[i]);
    terminal_say("%s\n", c->n_words > MOST_WORDS ? ", ..." : "");
}

static void tell_target(const clt_table *t)
{
    char mean[CLT_NUMBER_TEXT], std[CLT_NUMBER_TEXT];
    if (t->target_scaled)
        terminal_say("  output * %s + %s is the target in the unit of the table\n",
                     clt_double_text(t->target_std, std), clt_double_text(t->target_mean, mean));
}

static void tell_table(const clt_table *t, const char *checkpoint)
{
    int64_t first = 0;
    terminal_say("the inputs are cells of a table, which another program must turn into numbers as the "
                 "training did:\n");
    for (int i = 0; i < t->n_columns && i < MOST_COLUMNS; first += clt_table_elements(&t->columns[i++]))
        tell_column(&t->columns[i], first);
    if (t->n_columns > MOST_COLUMNS)
        terminal_say("  ... and %d further columns\n", t->n_columns - MOST_COLUMNS);
    tell_target(t);
    terminal_say("  all of this is in %s/" CLT_DATA_FACTS_FILE ", member \"table\" (docs/checkpoints.md)\n",
                 checkpoint);
}

/* If the checkpoint belongs to a run on a table, prints how another program turns cells into inputs, and
 * what the output means: the weights alone do not say this. */
static clt_status tell_inputs(const char *checkpoint)
{
    CLT_SCOPED(clt_checkpoint) *saved = NULL;
    CLT_SCOPED(clt_data_facts) facts = {.n_fields = 0};
    CLT_FREED char *text = NULL;
    size_t length;
    CLT_TRY(clt_checkpoint_open(checkpoint, &saved));
    CLT_TRY(clt_checkpoint_text(saved, CLT_DATA_FACTS_FILE, &text, &length));
    if (!text)
        return CLT_OK;
    CLT_TRY(clt_data_facts_parse(text, length, CLT_DATA_FACTS_FILE, &facts));
    if (facts.table)
        tell_table(facts.table, checkpoint);
    return CLT_OK;
}

/* --- what is exported --- */

static clt_status export_file(const char *run, const export_args *a)
{
    clt_export_result result;
    CLT_TRY(cmd_can_write(a->out));
    CLT_TRY(clt_checkpoint_export(run, a->values, a->dtype, a->out, &result));
    tell(&result, a->dtype, a->out);
    return tell_inputs(result.from);
}

static clt_status export(const char *run, const export_args *a, const char *type)
{
    const clt_saved_run_options options = {.tokenizer = a->tokenizer, .tensors = true};
    CLT_SCOPED(clt_saved_run) *saved = NULL;
    if (a->format == FORMAT_FILE && !a->merge) /* the only form of export that needs no config */
        return export_file(run, a);
    if (a->format == FORMAT_FOLDER || a->format == FORMAT_PEFT)
        CLT_TRY(clt_new_folder_place(a->out));
    CLT_TRY(clt_saved_run_open(run, &options, &saved));
    return a->format == FORMAT_FOLDER ? export_folder(saved, a)
           : a->format == FORMAT_PEFT ? export_peft(saved, a)
           : a->format == FORMAT_GGUF ? export_gguf(saved, a, type)
                                      : export_merged_file(saved, a);
}

static clt_status check_args(const export_args *a)
{
    if (a->tokenizer && a->format != FORMAT_FOLDER && a->format != FORMAT_GGUF)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain export: --tokenizer is for --format hf and gguf; files of other formats hold none");
    if (a->base && a->format != FORMAT_PEFT)
        CLT_FAIL(CLT_EUSAGE, "cltrain export: --base is for --format peft, which names the base model");
    if (a->merge && a->format == FORMAT_PEFT)
        CLT_FAIL(CLT_EUSAGE, "cltrain export: --merge adds adapters to the weights, --format peft writes "
                             "only the adapters; give one of them");
    if (a->format == FORMAT_PEFT && a->dtype != CLT_F32)
        CLT_FAIL(CLT_EUSAGE, "cltrain export: --format peft writes f32, as PEFT does; remove --dtype");
    if (!a->merge && (a->no_probe || a->device))
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain export: %s is for --merge, which compares the merged model with base and "
                 "adapters",
                 a->no_probe ? "--no-probe" : "--device");
    return CLT_OK;
}

clt_status cmd_export(cmd_context *context, int argc, char **argv)
{
    const char *checkpoint = NULL, *type = "f32", *format = NULL, *weights = NULL, *caps = NULL, *run;
    export_args a = {.context = context};
    char best_path[1024];
    bool best = false;
    const args_option options[] = {
        ARGS_TEXT("--out", "PATH", a.out, "the folder or the safetensors file to write"),
        ARGS_TEXT("--format", "hf|gguf|peft|safetensors", format,
                  "hf: a folder with config.json, weights and tokenizer that transformers loads; peft: a "
                  "folder with only the run's low-rank adapters; gguf: one file with weights, settings and "
                  "tokenizer for llama.cpp; safetensors: only the weights, as one file (hf when PATH is a "
                  "folder or has no ending, gguf when it ends with .gguf)"),
        ARGS_FLAG("--merge", a.merge, "add the run's low-rank adapters to the weights that they belong to"),
        ARGS_FLAG("--no-probe", a.no_probe,
                  "merge: do not compare the merged model with base and adapters, which needs a device"),
        ARGS_TEXT("--base", "NAME", a.base,
                  "peft: the name or path of the base model to write into adapter_config.json"),
        ARGS_TEXT(
            "--dtype", "f32|f16|bf16|q8_0", type,
            "type of the weights, rounded to nearest (f32); q8_0: gguf only, blocks of 32 values in 8 bits"),
        ARGS_TEXT("--weights", "averaged|raw", weights,
                  "with optimizer.ema: the moving averages, which evaluation uses (averaged), or the weights "
                  "that the last step left"),
        ARGS_TEXT("--tokenizer", "PATH", a.tokenizer,
                  "hf, gguf: vocabulary to write instead of the run's own"),
        ARGS_BEST(best),
        ARGS_TEXT("--checkpoint", "RUN", checkpoint, "the same as the operand RUN"),
        ARGS_DEVICE(a.device),
        ARGS_CAPS(caps),
        ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "export", "RUN", 0, 1, options,
        "Writes a trained model for other programs: a folder for Hugging Face's transformers, one GGUF\n"
        "file for llama.cpp, or one safetensors file that PyTorch and --init read.\n"
        "RUN is a run folder, its checkpoints folder or one step_N of it.");
    args_result r;
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(cmd_run_operand(&r, "export", checkpoint, "a training", &run));
    CLT_TRY(cmd_best_of(best, &run, best_path));
    if (!a.out)
        CLT_FAIL(CLT_EUSAGE, "cltrain export: give --out PATH, the folder or the safetensors file to write");
    CLT_TRY(clt_refuse_remote(a.out));
    CLT_TRY(read_format(format, a.out, &a.format));
    if (a.format != FORMAT_GGUF)
        CLT_TRY(read_type(type, &a.dtype));
    else if (!clt_gguf_type_from_name(type, &a.type))
        CLT_FAIL(CLT_EUSAGE, "cltrain export: --dtype '%s'; it can be f32, f16, bf16 or q8_0", type);
    else if (a.type == CLT_GGUF_Q8_0 || !clt_dtype_from_name(type, &a.dtype))
        a.dtype = CLT_F32; /* what adapters lose by rounding to blocks is not reported */
    CLT_TRY(read_values(weights, &a.values));
    CLT_TRY(cmd_caps(caps, &a.caps));
    CLT_TRY(check_args(&a));
    return export(run, &a, type);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain export: writes the weights of a checkpoint for other programs, in f32 or 16 bits: as a folder that
 * Hugging Face's transformers loads, or as one safetensors file. Needs no device. */
#include <inttypes.h>
#include <string.h>

#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "cli/screen/terminal.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/files/fileio.h"
#include "engine/pretrained/hf_export.h"

static clt_status read_type(const char *text, clt_dtype *dtype)
{
    bool known = clt_dtype_from_name(text, dtype);
    if (!known || (*dtype != CLT_F32 && *dtype != CLT_F16 && *dtype != CLT_BF16))
        CLT_FAIL(CLT_EUSAGE, "cltrain export: --dtype '%s'; it can be f32, f16 or bf16", text);
    return CLT_OK;
}

/* Without --format the path decides: an existing folder, a slash at the end, or a name without a dot that is
 * no existing file means a folder. */
static clt_status read_format(const char *text, const char *out, bool *folder)
{
    const char *slash = strrchr(out, '/'), *last = slash ? slash + 1 : out;
    *folder = clt_is_directory(out) || !*last || (!strchr(last, '.') && !clt_file_exists(out));
    if (!text)
        return CLT_OK;
    *folder = strcmp(text, "hf") == 0;
    if (!*folder && strcmp(text, "safetensors") != 0)
        CLT_FAIL(
            CLT_EUSAGE,
            "cltrain export: --format '%s'; it can be hf (a folder for transformers) or safetensors (one "
            "file)",
            text);
    return CLT_OK;
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
    terminal_say("%s: %d tensors, %" PRId64 " values in %s, %" PRIu64 " bytes, from %s\n", out, x->tensors,
                 x->values, clt_dtype_name(dtype), x->bytes, x->from);
    if (x->averaged)
        terminal_say(
            "the weights are the moving averages (optimizer.ema), which evaluation uses; --weights raw "
            "writes those of the last step\n");
    if (x->vanished > 0)
        terminal_say("%" PRId64 " values are too small for %s and became 0\n", x->vanished,
                     clt_dtype_name(dtype));
}

static clt_status export_folder(const char *run, const char *tokenizer, clt_values values, clt_dtype dtype,
                                const char *out)
{
    const clt_saved_run_options options = {.tokenizer = tokenizer, .tensors = true};
    CLT_SCOPED(clt_saved_run) *saved = NULL;
    clt_hf_exported result;
    CLT_TRY(clt_hf_export_place(out));
    CLT_TRY(clt_saved_run_open(run, &options, &saved));
    CLT_TRY(clt_hf_export(saved, values, dtype, out, &result));
    tell(&result.weights, dtype, out);
    if (result.zero_biases)
        terminal_say("the model has no biases; GPT-2's class needs them, so zeros were written, which change "
                     "nothing\n");
    if (result.tokenizer[0])
        terminal_say("tokenizer: %s\n", result.tokenizer);
    else
        terminal_say("no tokenizer: the run's data had none; --tokenizer PATH adds one\n");
    terminal_say("in Python: AutoModelForCausalLM.from_pretrained('%s')%s\n", out,
                 result.tokenizer[0] ? ", AutoTokenizer likewise" : "");
    return CLT_OK;
}

static clt_status export_file(const char *run, clt_values values, clt_dtype dtype, const char *out)
{
    clt_export_result result;
    CLT_TRY(cmd_can_write(out));
    CLT_TRY(clt_checkpoint_export(run, values, dtype, out, &result));
    tell(&result, dtype, out);
    return CLT_OK;
}

clt_status cmd_export(cmd_context *context, int argc, char **argv)
{
    const char *checkpoint = NULL, *out = NULL, *type = "f32", *format = NULL, *tokenizer = NULL, *run;
    const char *weights = NULL;
    char best_path[1024];
    bool best = false;
    const args_option options[] = {
        ARGS_TEXT("--out", "PATH", out, "the folder or the safetensors file to write"),
        ARGS_TEXT(
            "--format", "hf|safetensors", format,
            "hf: a folder with config.json, weights and tokenizer that transformers loads; safetensors: the "
            "weights alone, as one file (hf when PATH is a folder or has no ending)"),
        ARGS_TEXT("--dtype", "f32|f16|bf16", type, "type of the weights, rounded to nearest (f32)"),
        ARGS_TEXT("--weights", "averaged|raw", weights,
                  "with optimizer.ema: the moving averages, which evaluation uses (averaged), or the weights "
                  "that the last step left"),
        ARGS_TEXT("--tokenizer", "PATH", tokenizer, "hf: vocabulary to write instead of the run's own"),
        ARGS_BEST(best),
        ARGS_TEXT("--checkpoint", "RUN", checkpoint, "the same as the operand RUN"),
        ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "export", "RUN", 0, 1, options,
        "Writes a trained model for other programs: a folder for Hugging Face's transformers, or one\n"
        "safetensors file that PyTorch and --init read.\n"
        "RUN is a run folder, its checkpoints folder or one step_N of it.");
    args_result r;
    clt_values values;
    clt_dtype dtype;
    bool folder;
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(cmd_run_operand(&r, "export", checkpoint, "a training", &run));
    CLT_TRY(cmd_best_of(best, &run, best_path));
    if (!out)
        CLT_FAIL(CLT_EUSAGE, "cltrain export: give --out PATH, the folder or the safetensors file to write");
    CLT_TRY(read_type(type, &dtype));
    CLT_TRY(read_values(weights, &values));
    CLT_TRY(read_format(format, out, &folder));
    if (tokenizer && !folder)
        CLT_FAIL(CLT_EUSAGE, "cltrain export: --tokenizer is for --format hf; a safetensors file holds none");
    return folder ? export_folder(run, tokenizer, values, dtype, out) : export_file(run, values, dtype, out);
}

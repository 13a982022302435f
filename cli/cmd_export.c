/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain export: the weights of a checkpoint as one safetensors file, in f32 or 16 bits, for other programs.
 * Needs no device. */
#include <inttypes.h>

#include "cli/args.h"
#include "cli/cmd.h"
#include "engine/checkpoint/checkpoint.h"

static clt_status read_type(const char *text, clt_dtype *dtype)
{
    bool known = clt_dtype_from_name(text, dtype);
    if (!known || (*dtype != CLT_F32 && *dtype != CLT_F16 && *dtype != CLT_BF16))
        CLT_FAIL(CLT_EUSAGE, "cltrain export: --dtype '%s'; it can be f32, f16 or bf16", text);
    return CLT_OK;
}

static void tell(const clt_export_result *x, clt_dtype dtype, const char *out)
{
    printf("%s: %d tensors, %" PRId64 " values in %s, %" PRIu64 " bytes, from %s\n", out, x->tensors,
           x->values, clt_dtype_name(dtype), x->bytes, x->from);
    if (x->vanished > 0)
        printf("%" PRId64 " values are too small for %s and became 0\n", x->vanished, clt_dtype_name(dtype));
}

clt_status cmd_export(cmd_context *context, int argc, char **argv)
{
    const char *checkpoint = NULL, *out = NULL, *type = "f32", *run;
    const args_option options[] = {
        ARGS_TEXT("--out", "FILE", out, "the safetensors file to write"),
        ARGS_TEXT("--dtype", "f32|f16|bf16", type, "type of the weights, rounded to nearest (f32)"),
        ARGS_TEXT("--checkpoint", "RUN", checkpoint, "the same as the operand RUN"), ARGS_END};
    const args_usage usage = {
        .command = "export",
        .operands = "RUN",
        .summary =
            "Writes the weights of a trained model as one safetensors file that PyTorch and --init read.\n"
            "RUN is a run folder, its checkpoints folder or one step_N of it.",
        .options = options,
        .max_operands = 1};
    args_result r;
    clt_dtype dtype;
    clt_export_result result;
    (void)context;
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    CLT_TRY(cmd_run_operand(&r, "export", checkpoint, "a training", &run));
    if (!out)
        CLT_FAIL(CLT_EUSAGE, "cltrain export: give --out FILE, the safetensors file to write");
    CLT_TRY(read_type(type, &dtype));
    CLT_TRY(cmd_can_write(out));
    CLT_TRY(clt_checkpoint_export(run, dtype, out, &result));
    tell(&result, dtype, out);
    return CLT_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain eval CONFIG: loss and accuracy of a checkpoint or a weights file on the evaluation data. */
#include <math.h>

#include "cli/args.h"
#include "cli/console.h"
#include "engine/base/json.h"

static clt_status write_json(const char *path, const clt_eval_metrics *m)
{
    clt_str text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 2);
    clt_jw_object(&w);
    clt_jw_kdouble(&w, "loss", m->loss);
    clt_jw_kdouble(&w, "accuracy", m->accuracy);
    clt_jw_kint(&w, "samples", m->samples);
    clt_jw_kint(&w, "targets", m->targets);
    clt_jw_kdouble(&w, "seconds", m->seconds);
    clt_jw_key(&w, "losses");
    clt_jw_object(&w);
    for (int i = 0; i < m->n_losses; i++)
        clt_jw_kdouble(&w, m->loss_name[i], m->loss_value[i]);
    clt_jw_end_object(&w);
    clt_jw_end_object(&w);
    clt_str_append(&text, "\n");
    clt_status status = clt_str_check(&text);
    if (status == CLT_OK)
        status = cmd_write_text(path, text.text);
    clt_str_free(&text);
    return status;
}

/* A result without a number is no result. */
static clt_status check_loss(const clt_eval_metrics *m, const char *parameters)
{
    if (isfinite(m->loss))
        return CLT_OK;
    if (m->targets == 0)
        CLT_FAIL(CLT_EDATA,
                 "evaluating '%s': not one target counts, so there is no loss; check the evaluation data",
                 parameters);
    CLT_FAIL(CLT_ENUMERIC,
             "evaluating '%s': the loss is not finite; the weights or the evaluation data hold values that "
             "are not, "
             "or overflow",
             parameters);
}

clt_status cmd_eval(cmd_context *context, int argc, char **argv)
{
    const char *checkpoint = NULL, *init = NULL, *device = NULL, *json = NULL, *caps_text = NULL;
    const args_option options[] = {
        ARGS_TEXT("--checkpoint", "DIR", checkpoint, "checkpoint or run folder"),
        ARGS_TEXT("--init", "FILE", init, "parameters from a safetensors file"),
        ARGS_DEVICE(device),
        ARGS_CAPS(caps_text),
        ARGS_TEXT("--json", "FILE", json, "write the result as JSON; - for the standard output"),
        ARGS_END};
    const args_usage usage = {.command = "eval",
                              .operands = "CONFIG [section.key=value ...]",
                              .summary =
                                  "Evaluates a checkpoint or weights on the evaluation data of a config.",
                              .options = options,
                              .min_operands = 1,
                              .max_operands = 1,
                              .overrides = true};
    args_result r;
    clt_config *config = NULL;
    clt_eval_metrics metrics = {0};
    uint32_t caps;
    console c;
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    if (!checkpoint == !init)
        CLT_FAIL(CLT_EUSAGE, "cltrain eval: give either --checkpoint DIR or --init FILE");
    CLT_TRY(cmd_caps(caps_text, &caps));
    if (cmd_prints(context)) /* the rank that writes it */
        CLT_TRY(cmd_can_write(json));
    CLT_TRY(cmd_load_config(&r, &config));
    console_init(&c, context, 1);
    clt_run_options run = {.config = config,
                           .init = init,
                           .checkpoint = checkpoint,
                           .device_spec = device,
                           .caps_mask = caps,
                           .comm = context->comm,
                           .stop = context->stop,
                           .observer = console_observer(&c)};
    bool told = json && json[0] == '-' && !json[1];
    run.observer.eval = NULL; /* told below */
    if (told)
        run.observer = (clt_observer){0};
    clt_status status = clt_evaluate(&run, &metrics);
    console_close(&c);
    if (status == CLT_OK && cmd_prints(context)) {
        metrics.step = -1;
        if (!told)
            console_observer(&c).eval(&c, &metrics);
        if (json)
            status = write_json(json, &metrics);
    }
    if (status == CLT_OK)
        status = check_loss(&metrics, checkpoint ? checkpoint : init);
    clt_config_destroy(config);
    return status;
}

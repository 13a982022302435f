/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain plan CONFIG and cltrain estimate CONFIG: show what a training would run, and how much memory it
 * would need on its device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands/estimate_cards.h"
#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/train/inspect/cards.h"
#include "engine/train/inspect/describe.h"
#include "engine/train/inspect/startup.h"

enum { LABEL = 14 };

static void row(clt_str *out, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void row(clt_str *out, const char *label, const char *format, ...)
{
    char value[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    clt_str_printf(out, "%-*s", LABEL, label);
    text_wrap(value, LABEL, LABEL, terminal_columns(), out);
}

static void print_device(const clt_description *d, clt_str *out)
{
    const clt_described_device *device = &d->device;
    char bytes[32];
    console_bytes(device->desc.usable_bytes, bytes, sizeof bytes);
    if (!device->generic)
        row(out, "device", "%s (%s), %s usable", device->desc.name, device->desc.spec, bytes);
    else if (*device->why)
        row(out, "device",
            "none was found (%s): planned for a generic GPU with %s; name one with --device SPEC",
            device->why, bytes);
    else
        row(out, "device", "a generic GPU with %s, as requested", bytes);
}

static void print_memory(const clt_description *d, clt_str *out)
{
    const clt_memory_report *r = &d->memory;
    char text[3][32], parts[CLT_MEMORY_TEXT];
    row(out, "memory", "%s on the device: %s", console_bytes(r->total, text[0], sizeof text[0]),
        clt_startup_memory(r, parts));
    if (r->host > 0)
        row(out, "", "and %s of host memory, for gradients on their way between ranks",
            console_bytes(r->host, text[0], sizeof text[0]));
    if (r->saved > 0)
        row(out, "", "and %s of host memory for %s", console_bytes(r->saved, text[0], sizeof text[0]),
            d->job->ranks > 1 ? "the part of a checkpoint that each rank writes"
                              : "a checkpoint while it is written");
    if (r->shared > 0)
        row(out, "", "and %s for each rank of memory that the ranks of a host share, if a host has several",
            console_bytes(r->shared, text[0], sizeof text[0]));
    bool fits = r->total <= d->job->desc.usable_bytes;
    char usable[32], largest[96] = "no data.micro_batch fits";
    if (d->largest > 0)
        snprintf(largest, sizeof largest, "the largest data.micro_batch that fits is %lld",
                 (long long)d->largest);
    row(out, "", "%s the %s that the device can give; %s", fits ? "fits into" : "DOES NOT FIT into",
        console_bytes(d->job->desc.usable_bytes, usable, sizeof usable), largest);
    for (int i = 0; i < 3; i++)
        console_bytes(d->activations[i], text[i], sizeof text[i]);
    row(out, "", "activations by train.recompute: none %s, gelu %s, block %s", text[0], text[1], text[2]);
}

static void print_decay(const clt_job *job, clt_str *out)
{
    clt_decay_counts n = clt_job_decay(job);
    if (job->update.weight_decay <= 0)
        row(out, "decay", "none (optimizer.weight_decay is 0)");
    else
        row(out, "decay",
            "%lld of %lld trained parameters in %d of %d tensor%s decay by %g; optimizer.decay is %s",
            (long long)n.elements, (long long)n.all_elements, n.tensors, n.all_tensors,
            CLT_PLURAL(n.all_tensors), job->update.weight_decay,
            job->update.decay_all ? "all" : "matrices, so norms and biases do not");
}

static void print_summary(const clt_description *d, clt_str *out)
{
    const clt_job *job = d->job;
    const clt_graph *graph = job->train->graph;
    print_device(d, out);
    if (job->data_missing[0])
        row(out, "data", "was not read, its shapes follow from the config: %s", job->data_missing);
    char frozen[64] = "", buffers[64] = "", steps[192], rate[400];
    size_t tensors = graph->n_params - (size_t)clt_graph_buffers(graph);
    if (clt_graph_frozen_elements(graph) > 0)
        snprintf(frozen, sizeof frozen, ", %lld of them frozen", (long long)clt_graph_frozen_elements(graph));
    if (clt_graph_buffers(graph) > 0)
        snprintf(buffers, sizeof buffers, "; %lld value%s in %d buffer%s",
                 (long long)clt_graph_buffer_elements(graph),
                 CLT_PLURAL((long long)clt_graph_buffer_elements(graph)), (int)clt_graph_buffers(graph),
                 CLT_PLURAL((int)clt_graph_buffers(graph)));
    row(out, "model", "%s, %lld parameter%s in %zu tensor%s%s%s",
        clt_config_string(job->config, "model.type"), (long long)clt_graph_param_elements(graph),
        CLT_PLURAL((long long)clt_graph_param_elements(graph)), tensors, CLT_PLURAL(tensors), frozen,
        buffers);
    if (job->ranks > 1)
        row(out, "batch", "%lld sample%s in a step on %d ranks, micro-batches of %lld, at most %d on a rank",
            (long long)job->global_batch, CLT_PLURAL(job->global_batch), job->ranks,
            (long long)job->micro_batch, job->accumulation);
    else
        row(out, "batch", "micro %lld x accumulation %d = %lld sample%s in a step on one rank",
            (long long)job->micro_batch, job->accumulation, (long long)job->global_batch,
            CLT_PLURAL(job->global_batch));
    if (job->auto_micro && d->largest <= 0)
        row(out, "", "data.micro_batch is auto: no size fits; this plan has the smallest, %lld",
            (long long)job->micro_batch);
    else if (job->auto_micro)
        row(out, "", "data.micro_batch is auto: %lld was found to fit%s", (long long)job->micro_batch,
            job->given_global > 0 ? "" : "; data.global_batch is not given, so it follows from it");
    row(out, "steps", "%s", clt_startup_steps(job, steps, sizeof steps));
    row(out, "optimizer", "%s", clt_startup_optimizer(job, rate, sizeof rate));
    print_decay(job, out);
    print_memory(d, out);
}

enum { LAYER, OP, OUTPUT, PARAMETERS, ACTIVATIONS, CELLS };

typedef struct layer_text {
    char shape[CLT_SHAPE_TEXT], parameters[32], activations[32];
} layer_text;

static void layer_cells(const clt_layer_row *row, layer_text *text, const char *cells[CELLS])
{
    *text = (layer_text){0};
    if (row->shape.ndim > 0)
        clt_shape_text(&row->shape, text->shape, sizeof text->shape);
    if (row->parameters > 0)
        snprintf(text->parameters, sizeof text->parameters, "%lld", (long long)row->parameters);
    if (row->activations > 0)
        console_bytes(row->activations, text->activations, sizeof text->activations);
    cells[LAYER] = row->name;
    cells[OP] = row->op;
    cells[OUTPUT] = text->shape;
    cells[PARAMETERS] = text->parameters;
    cells[ACTIVATIONS] = text->activations;
}

/* Columns are as wide as their cells, within the terminal or, without one, 80 columns; long names of layers
 * are then wrapped. */
static clt_status print_layers(const clt_description *d, clt_str *out)
{
    table_column columns[CELLS] = {{"layer", 0, 12, 0, false},
                                   {"op", 0, 9, 2, false},
                                   {"output", 0, 10, 1, false},
                                   {"parameters", 0, 0, 0, true},
                                   {"activations", 0, 0, 0, true}};
    CLT_FREED clt_layer_row *rows = NULL;
    const char *cells[CELLS];
    layer_text text;
    int count, screen = terminal_columns();
    table t;
    CLT_TRY(clt_description_layers(d, &rows, &count));
    for (int i = 0; i < count; i++) {
        layer_cells(&rows[i], &text, cells);
        for (int c = 0; c < CELLS; c++) {
            int width = text_columns(cells[c] ? cells[c] : "");
            columns[c].width = columns[c].width > width ? columns[c].width : width;
        }
    }
    table_make(&t, columns, CELLS, screen > 0 ? screen : 80);
    clt_str_append(out, "\n");
    table_head(&t, out);
    for (int i = 0; i < count; i++) {
        layer_cells(&rows[i], &text, cells);
        table_row(&t, cells, out);
    }
    clt_str_append(out, "(activations that do not live at the same time share memory)\n");
    return clt_str_check(out);
}

#define REACH 40 /* percent; an estimate, until cltrain has been measured on such cards */

typedef struct plan_args {
    const char *command, *device, *init;
    bool json, full, plan;
    int64_t ranks;
    const char *cards, *prices; /* estimate: --for, --price */
    double reach;               /* percent; 0: not given */
} plan_args;

/* Prints the commands and the memory map, with wrapped lines on a terminal. */
static clt_status print_full(const clt_description *d, clt_str *out)
{
    CLT_SCOPED(clt_str) text = {0};
    int begun = 0, screen = terminal_columns();
    clt_str_append(out, "\n");
    if (screen == 0)
        return clt_description_full(d, out);
    CLT_TRY(clt_description_full(d, &text));
    text_wrap_lines(text.text, &begun, 0, screen, out);
    return clt_str_check(out);
}

static clt_status describe(const plan_args *a, const clt_description *d, clt_str *out)
{
    if (a->json)
        return a->plan ? clt_description_plan_json(d, out) : clt_description_estimate_json(d, out);
    print_summary(d, out);
    if (a->plan || a->full)
        CLT_TRY(print_layers(d, out));
    if (!a->full) {
        clt_str_printf(out, "%s", a->plan ? "the list of commands and the memory map: --full\n" : "");
        return clt_str_check(out);
    }
    return print_full(d, out);
}

static clt_status run(const plan_args *a, const args_result *r, uint32_t caps)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_description) *d = NULL;
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(cmd_load_config(r, &(clt_start){.init = a->init, .training = true}, &config));
    if (a->cards) {
        const estimate_cards_options options = {a->cards, a->prices,     a->reach > 0 ? a->reach : REACH,
                                                caps,     (int)a->ranks, a->json};
        return estimate_cards(config, &options);
    }
    clt_status status = clt_describe(config, a->device, caps, (int)a->ranks, &d);
    if (status == CLT_EDEVICE && a->device && clt_card_is_known(a->device))
        CLT_FAIL(CLT_EDEVICE,
                 "choosing a device: this machine has no '%s'; to plan for a card that you do not have: "
                 "cltrain estimate CONFIG --for %s",
                 a->device, a->device);
    CLT_TRY(status);
    CLT_TRY(describe(a, d, &text));
    return cmd_write_str("-", &text);
}

static clt_status command(int argc, char **argv, plan_args *a, const char *summary)
{
    const char *caps_text = NULL;
    args_option options[] = {
        ARGS_JSON(a->json),
        ARGS_FLAG("--full", a->full, "also list every command and the place of every tensor in memory"),
        ARGS_TEXT("--device", "SPEC", a->device,
                  "0:0, cpu, gpu or a part of the device's name; generic: a typical GPU of 8 GiB, or with "
                  "--caps memory=24G of 24, none is opened (default: the device that would train)"),
        ARGS_INT("--ranks", "N", a->ranks, 1, 65536, "plan for one of N ranks (1)"),
        ARGS_CAPS(caps_text),
        ARGS_TEXT("--init", "PATH", a->init,
                  "weights that the training starts from, as in 'train'; the CONFIG may leave out the "
                  "keys of the model and the tokenizer that these weights tell"),
        ARGS_TEXT("--for", "CARDS", a->cards,
                  "instead: a table for cards that you do not have, as in H100,A100,T4: what fits, how long "
                  "the whole run would take and what it would cost, planned from data sheets"),
        ARGS_TEXT("--price", "CARD=PRICE,...", a->prices, "with --for: price of one card for an hour"),
        ARGS_FLOAT("--reach", "PERCENT", a->reach, 1, 100,
                   "with --for: share of a card's limits that a step reaches (40)"),
        ARGS_END};
    enum { OF_ESTIMATE = 6 }; /* the options from here on are only for `estimate` */
    if (a->plan)
        options[OF_ESTIMATE] = (args_option)ARGS_END;
    const args_usage usage = ARGS_USAGE(a->command, "CONFIG [section.key=value ...]", 1, 1, options, summary);
    args_result r;
    uint32_t caps;
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(cmd_caps(caps_text, &caps));
    if ((a->prices || a->reach > 0) && !a->cards)
        CLT_FAIL(CLT_EUSAGE, "cltrain estimate: %s needs --for CARDS", a->prices ? "--price" : "--reach");
    if (a->cards && (a->device || a->full))
        CLT_FAIL(CLT_EUSAGE, "cltrain estimate: --for cannot be combined with --device or --full");
    return run(a, &r, caps);
}

clt_status cmd_plan(cmd_context *context, int argc, char **argv)
{
    plan_args a = {.command = "plan", .plan = true, .ranks = 1};
    (void)context;
    return command(argc, argv, &a,
                   "Shows what a config would train: memory, batch, steps and a table of its layers; with "
                   "--full also the commands of a step and the memory map. Builds no kernel.");
}

clt_status cmd_estimate(cmd_context *context, int argc, char **argv)
{
    plan_args a = {.command = "estimate", .ranks = 1};
    (void)context;
    return command(argc, argv, &a,
                   "Shows the memory that a training needs by class, and the largest micro-batch that fits; "
                   "for cards to rent also time and price of the run. Builds no kernel.");
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds TensorBoard's messages from the events of a run. The field numbers come from TensorBoard's .proto
 * files: Event, SessionLog, Summary, TensorProto, HParamsPluginData. */
#include "engine/report/write/board.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/report/write/board_config.h"
#include "engine/report/write/metric_rows.h"
#include "engine/report/write/protobuf.h"
#include "engine/report/write/tfevents.h"

enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { METADATA_PLUGIN = 1, METADATA_CLASS = 4, PLUGIN_NAME = 1, PLUGIN_CONTENT = 2, CLASS_TENSOR = 2 };
enum {
    TENSOR_TYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_CONTENT = 4,
    TENSOR_STRING = 8,
    SHAPE_DIM = 2,
    DIM_SIZE = 1
};
enum { TYPE_DOUBLE = 2, TYPE_STRING = 7 };
#define MAX_EARLY (64u << 10) /* most bytes of events from before the first step */

struct clt_board {
    char *folder;
    clt_str config_text, experiment, session; /* needed until the start */
    clt_tfevents *file;                       /* NULL: not started, or it could not be created */
    bool started, ended;
    clt_str early;                       /* serialised events from before the start */
    clt_str event, summary, value, part; /* messages under construction; members so that memory is reused */
    char trouble[CLT_ERROR_TEXT_SIZE + 128];
};

clt_status clt_board_create(const char *folder, const clt_config *config, clt_board **out)
{
    CLT_SCOPED(clt_board) *b = NULL;
    *out = NULL;
    if (!clt_config_bool(config, "log.tensorboard"))
        return CLT_OK;
    CLT_TRY(clt_alloc(&b, 1, sizeof *b, "TensorBoard events"));
    b->folder = strdup(folder);
    if (!b->folder)
        return CLT_ENOMEM;
    CLT_TRY(clt_config_print(config, false, &b->config_text));
    clt_board_hyper_parameters(config, &b->experiment, &b->session);
    CLT_TRY(clt_str_check(&b->experiment));
    CLT_TRY(clt_str_check(&b->session));
    *out = CLT_TAKE(b);
    return CLT_OK;
}

void clt_board_close(clt_board *b)
{
    if (!b)
        return;
    clt_tfevents_close(b->file);
    clt_str *const texts[] = {&b->config_text, &b->experiment, &b->session, &b->early,
                              &b->event,       &b->summary,    &b->value,   &b->part};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        clt_str_free(texts[i]);
    free(b->folder);
    free(b);
}

/* --- building blocks --- */

static void begin(clt_board *b, int64_t step, double time)
{
    b->event.length = b->summary.length = b->value.length = 0;
    b->event.failed = b->summary.failed = b->value.failed = false;
    clt_pb_double(&b->event, EVENT_TIME, time > 0 ? time : clt_wall_time());
    clt_pb_int(&b->event, EVENT_STEP, step);
}

static void send(clt_board *b)
{
    clt_pb_message(&b->event, EVENT_SUMMARY, &b->summary);
    clt_tfevents_add(b->file, &b->event);
}

static void put_scalar(clt_board *b, const char *tag, double value)
{
    clt_pb_string(&b->value, VALUE_TAG, tag);
    clt_pb_float(&b->value, VALUE_SIMPLE, (float)value);
    clt_pb_message(&b->summary, SUMMARY_VALUE, &b->value);
}

static void put_scalars(clt_board *b, const clt_metric_row *rows, const void *record)
{
    double value;
    for (const clt_metric_row *row = rows; row->key; row++)
        if (clt_metric_scalar(row, record, &value))
            put_scalar(b, row->tag, value);
}

/* data_class 0: none. */
static void put_metadata(clt_board *b, const char *plugin, const clt_str *content, int data_class)
{
    CLT_SCOPED(clt_str) metadata = {0};
    b->part.length = 0;
    clt_pb_string(&b->part, PLUGIN_NAME, plugin);
    if (content)
        clt_pb_bytes(&b->part, PLUGIN_CONTENT, content->text, content->length);
    clt_pb_message(&metadata, METADATA_PLUGIN, &b->part);
    if (data_class)
        clt_pb_int(&metadata, METADATA_CLASS, data_class);
    clt_pb_message(&b->value, VALUE_METADATA, &metadata);
}

static void put_shape(clt_str *tensor, const int64_t *sizes, int dims)
{
    CLT_SCOPED(clt_str) shape = {0}, dim = {0};
    for (int d = 0; d < dims; d++) {
        clt_pb_int(&dim, DIM_SIZE, sizes[d]);
        clt_pb_message(&shape, SHAPE_DIM, &dim);
    }
    clt_pb_message(tensor, TENSOR_SHAPE, &shape);
}

static void put_text(clt_board *b, const char *tag, const clt_str *markdown)
{
    static const int64_t one[] = {1};
    CLT_SCOPED(clt_str) tensor = {0};
    clt_pb_int(&tensor, TENSOR_TYPE, TYPE_STRING);
    put_shape(&tensor, one, 1);
    clt_pb_string(&tensor, TENSOR_STRING, markdown->text ? markdown->text : "");
    clt_pb_string(&b->value, VALUE_TAG, tag);
    clt_pb_message(&b->value, VALUE_TENSOR, &tensor);
    put_metadata(b, "text", NULL, CLASS_TENSOR);
    clt_pb_message(&b->summary, SUMMARY_VALUE, &b->value);
}

static void put_hparams(clt_board *b, const char *tag, const clt_str *content)
{
    clt_pb_string(&b->value, VALUE_TAG, tag);
    put_metadata(b, "hparams", content, 0);
    clt_pb_message(&b->summary, SUMMARY_VALUE, &b->value);
}

/* A Markdown code block: every line is indented, so that nothing in it is interpreted as Markdown or HTML. */
static void put_code(clt_str *out, const char *lines)
{
    clt_str_append(out, "\n");
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        clt_str_append(out, "\n    ");
        for (size_t i = 0; i < n; i++) /* control characters are replaced */
            clt_str_append_n(out, (unsigned char)lines[i] < 0x20 && lines[i] != '\t' ? " " : &lines[i], 1);
        lines += n + (lines[n] != '\0');
    }
    clt_str_append(out, "\n");
}

/* --- the session --- */

/* Tells readers to ignore what earlier files say about this step and about later ones. */
static void session_start(clt_board *b, int64_t step)
{
    enum { SESSION_STATUS = 1, START = 1 };
    begin(b, step, 0);
    clt_pb_int(&b->part, SESSION_STATUS, START);
    clt_pb_message(&b->event, EVENT_SESSION, &b->part);
    clt_tfevents_add(b->file, &b->event);
}

/* Writes config and hyper-parameters. Each session writes them again, since TensorBoard may read the files of
 * that session only. */
static void describe(clt_board *b, int64_t step)
{
    CLT_SCOPED(clt_str) text = {0};
    put_code(&text, b->config_text.text ? b->config_text.text : "");
    begin(b, step, 0);
    put_text(b, "config", &text);
    put_hparams(b, "_hparams_/experiment", &b->experiment);
    put_hparams(b, "_hparams_/session_start_info", &b->session);
    send(b);
    clt_str_free(&b->config_text);
    clt_str_free(&b->experiment);
    clt_str_free(&b->session);
}

static void send_early(clt_board *b)
{
    size_t at = 0;
    while (!b->early.failed && at + sizeof(uint32_t) <= b->early.length) {
        uint32_t length;
        memcpy(&length, b->early.text + at, sizeof length);
        at += sizeof length;
        b->event.length = 0;
        clt_str_append_n(&b->event, b->early.text + at, length);
        clt_tfevents_add(b->file, &b->event);
        at += length;
    }
    clt_str_free(&b->early);
}

void clt_board_start(clt_board *b, int64_t step)
{
    CLT_KEEP_ERROR();
    if (!b || b->started)
        return;
    b->started = true;
    if (clt_tfevents_create(b->folder, &b->file) != CLT_OK) {
        (void)snprintf(b->trouble, sizeof b->trouble, "training continues without TensorBoard events: %s",
                       clt_error_text());
        return;
    }
    session_start(b, step > 0 ? step + 1 : 0);
    describe(b, step > 0 ? step + 1 : 0);
    send_early(b);
}

/* --- numbers --- */

/* One loss of several. */
static void put_loss(clt_board *b, const char *part, const char *name, double value)
{
    char tag[96];
    (void)snprintf(tag, sizeof tag, "%s/loss/%s", part, name);
    put_scalar(b, tag, value);
}

void clt_board_step(clt_board *b, const clt_step_metrics *m)
{
    if (!b || !b->file)
        return;
    begin(b, m->step, m->time);
    put_scalars(b, clt_step_rows, m);
    for (int i = 0; m->n_losses > 1 && i < m->n_losses; i++)
        put_loss(b, "train", m->loss_name[i], m->loss_value[i]);
    send(b);
}

void clt_board_eval(clt_board *b, const clt_eval_metrics *m, double time)
{
    if (!b || !b->file)
        return;
    begin(b, m->step, time);
    put_scalars(b, clt_eval_rows, m);
    for (int i = 0; m->n_losses > 1 && i < m->n_losses; i++)
        put_loss(b, "eval", m->loss_name[i], m->loss_value[i]);
    send(b);
}

void clt_board_histogram(clt_board *b, const char *tag, int64_t step, const clt_histogram *h)
{
    static const int64_t shape[] = {CLT_HISTOGRAM_BINS, 3};
    CLT_SCOPED(clt_str) tensor = {0}, rows = {0}, row = {0};
    if (!b || !b->file)
        return;
    for (int i = 0; i < CLT_HISTOGRAM_BINS; i++) {
        const double cells[] = {clt_histogram_edge(h, i), clt_histogram_edge(h, i + 1), (double)h->count[i]};
        for (int c = 0; c < 3; c++) {
            row.length = 0;
            clt_pb_double(&row, 1, cells[c]);
            if (!row.failed)
                clt_str_append_n(&rows, row.text + 1, row.length - 1); /* drops the key of the field */
        }
    }
    clt_pb_int(&tensor, TENSOR_TYPE, TYPE_DOUBLE);
    put_shape(&tensor, shape, 2);
    clt_pb_message(&tensor, TENSOR_CONTENT, &rows);
    begin(b, step, 0);
    clt_pb_string(&b->value, VALUE_TAG, tag);
    clt_pb_message(&b->value, VALUE_TENSOR, &tensor);
    put_metadata(b, "histograms", NULL, CLASS_TENSOR);
    clt_pb_message(&b->summary, SUMMARY_VALUE, &b->value);
    send(b);
}

/* --- texts --- */

static void keep_early(clt_board *b)
{
    uint32_t length = (uint32_t)b->event.length;
    if (b->event.failed || b->early.length + length > MAX_EARLY)
        return;
    clt_str_append_n(&b->early, (const char *)&length, sizeof length);
    clt_str_append_n(&b->early, b->event.text, length);
}

static void session_end(clt_board *b, double time)
{
    CLT_SCOPED(clt_str) content = {0};
    clt_board_session_end(time, &content);
    put_hparams(b, "_hparams_/session_end_info", &content);
    b->ended = true;
}

void clt_board_event(clt_board *b, const char *event, int64_t step, double time, const char *lines)
{
    CLT_SCOPED(clt_str) text = {0};
    bool sample = strcmp(event, "sample") == 0;
    if (!b || (b->started && !b->file))
        return;
    if (!sample)
        clt_str_printf(&text, "**%s**\n", event);
    put_code(&text, lines);
    begin(b, step, time);
    put_text(b, sample ? "sample" : "events", &text);
    if (b->started && !b->ended && strcmp(event, "end") == 0)
        session_end(b, time > 0 ? time : clt_wall_time());
    clt_pb_message(&b->event, EVENT_SUMMARY, &b->summary);
    if (!b->started)
        keep_early(b);
    else
        clt_tfevents_add(b->file, &b->event);
}

void clt_board_discard(clt_board *b)
{
    if (b && b->file)
        (void)remove(clt_tfevents_path(b->file));
}

void clt_board_flush(clt_board *b)
{
    if (b && b->file)
        clt_tfevents_flush(b->file);
}

bool clt_board_trouble(clt_board *b, char *text, size_t size)
{
    if (!b)
        return false;
    if (!b->trouble[0])
        return b->file && clt_tfevents_trouble(b->file, text, size);
    (void)snprintf(text, size, "%s", b->trouble);
    b->trouble[0] = '\0';
    return true;
}

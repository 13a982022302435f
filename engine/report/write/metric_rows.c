/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists of numbers, and how a row finds, rounds and writes its number. */
#include "engine/report/write/metric_rows.h"

#include <math.h>
#include <string.h>

#define STEP(member) offsetof(clt_step_metrics, member)
#define EVAL(member) offsetof(clt_eval_metrics, member)

/* A figure of the device or the host. */
#define SAMPLE(name, key, tag, exported, fold, parts, help)                                                  \
    {key, tag, STEP(monitor[CLT_MONITOR_##name]), CLT_REAL, CLT_KNOWN, CLT_SAMPLED, parts},

const clt_metric_row clt_step_rows[] = {
    {"step", NULL, STEP(step), CLT_INT, CLT_ALWAYS, 0, 0},
    {"update", NULL, STEP(update), CLT_INT, CLT_ALWAYS, 0, 0},
    {"loss", "train/loss", STEP(loss), CLT_REAL, CLT_ALWAYS, 0, 0},
    {"accuracy", "train/accuracy", STEP(accuracy), CLT_REAL, CLT_KNOWN, 0, 0},
    {"grad_norm", "train/grad_norm", STEP(grad_norm), CLT_REAL, CLT_ALWAYS, 0, 0},
    {"lr", "train/lr", STEP(lr), CLT_REAL, CLT_ALWAYS, 0, 0},
    {"loss_scale", "train/loss_scale", STEP(loss_scale), CLT_REAL, CLT_ALWAYS, 0, 0},
    {"skipped", "train/skipped", STEP(skipped), CLT_INT, CLT_ALWAYS, 0, 0},
    {"nonfinite", NULL, STEP(nonfinite), CLT_FLAG, CLT_KNOWN, 0, 0},
    {"loss_z", NULL, STEP(loss_z), CLT_REAL, CLT_KNOWN, 0, 0},
    {"grad_norm_z", NULL, STEP(grad_norm_z), CLT_REAL, CLT_KNOWN, 0, 0},
    {"spike", NULL, STEP(spike), CLT_FLAG, CLT_KNOWN, 0, 0},
    {"step_ms", "speed/step_ms", STEP(step_ms), CLT_REAL, CLT_TAGGED, 0, 1e6},
    {"samples_per_s", "speed/samples_per_s", STEP(samples_per_s), CLT_REAL, CLT_TAGGED, 0, 1e4},
    {"tokens_per_s", "speed/tokens_per_s", STEP(tokens_per_s), CLT_REAL, CLT_TAGGED, 0, 1e4},
    {"data_ms", "speed/data_ms", STEP(data_ms), CLT_REAL, CLT_TAGGED, 0, 1e6},
    {"comm_ms", "speed/comm_ms", STEP(comm_ms), CLT_REAL, CLT_TAGGED, 0, 1e6},
    {"comm_exposed_ms", "speed/comm_exposed_ms", STEP(comm_exposed_ms), CLT_REAL, CLT_TAGGED, 0, 1e6},
    {"comm_bytes", NULL, STEP(comm_bytes), CLT_INT, CLT_ALWAYS, 0, 0},
    {"device_busy", "device/busy", STEP(device_busy), CLT_REAL, CLT_TAGGED, 0, 1e6},
    {"h2d_gbs", "device/h2d_gbs", STEP(h2d_gbs), CLT_REAL, CLT_TAGGED, 0, 1e4},
    {"d2h_gbs", "device/d2h_gbs", STEP(d2h_gbs), CLT_REAL, CLT_TAGGED, 0, 1e4},
    {"device_bytes", "device/memory_bytes", STEP(device_bytes), CLT_INT, CLT_ALWAYS, 0, 0},
    {"cost", "cost/total", STEP(cost), CLT_REAL, CLT_POSITIVE, 0, 0},
    {"goodput", "cost/goodput", STEP(goodput), CLT_REAL, CLT_POSITIVE, 0, 1e6},
    {"energy_j", "cost/energy_j", STEP(energy_j), CLT_REAL, CLT_POSITIVE, CLT_SAMPLED, 1e3},
    CLT_MONITOR_LINE_MAP(SAMPLE){0}};

/* A real number of an evaluation: its key is "eval_NAME", its tag "eval/NAME". */
#define FIGURE(name, member, when, needs)                                                                    \
    {                                                                                                        \
        "eval_" name, "eval/" name, EVAL(member), CLT_REAL, when, needs, 0                                   \
    }

const clt_metric_row clt_eval_rows[] = {
    {"step", NULL, EVAL(step), CLT_INT, CLT_ALWAYS, 0, 0},
    FIGURE("loss", loss, CLT_MARKED, CLT_ANY),
    FIGURE("accuracy", accuracy, CLT_KNOWN, CLT_ANY),
    FIGURE("perplexity", perplexity, CLT_POSITIVE, CLT_ANY),
    FIGURE("bits_per_byte", bits_per_byte, CLT_POSITIVE, CLT_ANY),
    FIGURE("top_k_accuracy", top_k_accuracy, CLT_TAGGED, CLT_TOP_K),
    {"eval_top_k", NULL, EVAL(top_k), CLT_INT32, CLT_ALWAYS, CLT_TOP_K, 0},
    FIGURE("f1", f1, CLT_KNOWN, CLT_CLASSED),
    FIGURE("dice", dice, CLT_KNOWN, CLT_CLASSED),
    FIGURE("mae", mae, CLT_TAGGED, CLT_VALUES),
    FIGURE("rmse", rmse, CLT_TAGGED, CLT_VALUES),
    FIGURE("r2", r2, CLT_KNOWN, CLT_VALUES),
    FIGURE("pearson", pearson, CLT_KNOWN, CLT_VALUES),
    FIGURE("spearman", spearman, CLT_KNOWN, CLT_VALUES),
    FIGURE("exact", exact, CLT_TAGGED, CLT_ANSWERS),
    FIGURE("answer_f1", answer_f1, CLT_TAGGED, CLT_ANSWERS),
    FIGURE("entity_precision", entity_precision, CLT_TAGGED, CLT_ENTITIES),
    FIGURE("entity_recall", entity_recall, CLT_TAGGED, CLT_ENTITIES),
    FIGURE("entity_f1", entity_f1, CLT_TAGGED, CLT_ENTITIES),
    FIGURE("volume_dice", volume_dice, CLT_TAGGED, CLT_VOLUMES),
    {"eval_volumes", NULL, EVAL(volumes), CLT_INT, CLT_ALWAYS, CLT_VOLUMES, 0},
    {"eval_volume_dice_of", NULL, EVAL(volume_dice_of), CLT_CLASSES, CLT_ALWAYS, CLT_VOLUMES, 0},
    {"eval_samples", NULL, EVAL(samples), CLT_INT, CLT_ALWAYS, 0, 0},
    FIGURE("seconds", seconds, CLT_TAGGED, CLT_ANY),
    {0}};

static bool counted(const clt_metric_row *row, const void *record)
{
    if (row->needs == CLT_SAMPLED)
        return ((const clt_step_metrics *)record)->sampled;
    const clt_eval_metrics *m = record;
    return row->needs == CLT_CLASSED    ? m->classes > 0
           : row->needs == CLT_TOP_K    ? m->classes > 0 && m->top_k > 0
           : row->needs == CLT_VALUES   ? m->values > 0
           : row->needs == CLT_ANSWERS  ? m->answers > 0
           : row->needs == CLT_ENTITIES ? m->entities > 0
           : row->needs == CLT_VOLUMES  ? m->volumes > 0
                                        : true;
}

static int64_t integer(const clt_metric_row *row, const void *member)
{
    return row->kind == CLT_INT     ? *(const int64_t *)member
           : row->kind == CLT_INT32 ? *(const int32_t *)member
                                    : *(const bool *)member;
}

static double number(const clt_metric_row *row, const void *member)
{
    double value = row->kind == CLT_REAL ? *(const double *)member : (double)integer(row, member);
    /* more digits would have no meaning, and printing them costs more time than the rest of a step's line */
    return row->parts > 0 && fabs(value) < 1e8 ? round(value * row->parts) / row->parts : value;
}

static bool is_written(const clt_metric_row *row, double value)
{
    bool known = row->kind == CLT_FLAG ? value > 0 : !isnan(value);
    return row->when == CLT_KNOWN ? known : row->when == CLT_POSITIVE ? isfinite(value) && value > 0 : true;
}

void clt_volume_dice_write(const clt_eval_metrics *m, clt_json_writer *w, const char *key)
{
    clt_jw_karray(w, key);
    for (int i = 0; i < m->volume_classes; i++)
        clt_jw_double(w, m->volume_dice_of[i]);
    clt_jw_end_array(w);
}

void clt_metric_rows_write(const clt_metric_row *rows, const void *record, clt_json_writer *w)
{
    for (const clt_metric_row *row = rows; row->key; row++) {
        const void *member = (const char *)record + row->at;
        if (!counted(row, record))
            continue;
        if (row->kind == CLT_CLASSES) {
            clt_volume_dice_write(record, w, row->key);
            continue;
        }
        double value = number(row, member);
        if (!is_written(row, value))
            continue;
        if (row->kind == CLT_REAL)
            clt_jw_kdouble(w, row->key, value);
        else if (row->kind == CLT_FLAG)
            clt_jw_kbool(w, row->key, true);
        else
            clt_jw_kint(w, row->key, integer(row, member));
        if (row->when == CLT_MARKED && !isfinite(value))
            clt_jw_kbool(w, "nonfinite", true);
    }
}

bool clt_metric_scalar(const clt_metric_row *row, const void *record, double *value)
{
    if (!row->tag || !counted(row, record))
        return false;
    *value = number(row, (const char *)record + row->at);
    return is_written(row, *value) && !(row->when == CLT_TAGGED && isnan(*value));
}

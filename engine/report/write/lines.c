/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats the lines about steps, evaluations and progress. The less important fields of a step are dropped
 * if the line has no room. */
#include "engine/report/write/lines.h"
#include "engine/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *clt_count_text(double value, char *buffer, size_t size)
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    int unit = 0;
    while (value >= 9999.5 && unit < 4) {
        value /= 1000;
        unit++;
    }
    snprintf(buffer, size, value >= 100 || (unit == 0 && value == floor(value)) ? "%.0f%s" : "%.1f%s", value,
             units[unit]);
    return buffer;
}

const char *clt_bytes_text(uint64_t bytes, char *buffer, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1023.95 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(buffer, size, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return buffer;
}

const char *clt_duration_text(double seconds, char *buffer, size_t size)
{
    if (!(seconds >= 0) || seconds > 1e9)
        snprintf(buffer, size, "?");
    else if (seconds < 59.5)
        snprintf(buffer, size, "%.0fs", seconds);
    else if (seconds < 3599.5)
        snprintf(buffer, size, "%dm%02ds", (int)(seconds + 0.5) / 60, (int)(seconds + 0.5) % 60);
    else
        snprintf(buffer, size, "%dh%02dm", (int)(seconds / 3600), (int)(seconds / 60) % 60);
    return buffer;
}

const char *clt_value_text(double value, int decimals, char *buffer, size_t size)
{
    if (fabs(value) < 1e5)
        snprintf(buffer, size, "%.*f", decimals, value);
    else
        snprintf(buffer, size, "%.4g", value);
    return buffer;
}

void clt_csv_quoted(clt_str *out, const char *text)
{
    clt_str_append(out, "\"");
    for (; *text; text++)
        clt_str_append_n(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    clt_str_append(out, "\"");
}

/* --- a step: its fields in the order in which they are shown --- */

typedef enum field {
    STEP, /* 12/2000 */
    BAR,
    LOSS,
    LOSSES, /* (masked 6.4321, follows 0.6931): each of several */
    SPEED,
    ETA,
    LR,
    MS,
    ACCURACY,
    NORM,
    COMM,
    SCALE,
    SKIPPED,
    FIELDS
} field;

/* The fields, most important first; the first ones that fit are shown. */
static const field by_weight[] = {STEP,   LOSS,     SPEED, ETA,  SKIPPED, LR, MS,
                                  LOSSES, ACCURACY, NORM,  COMM, SCALE,   BAR};

#define FIELD_SIZE 160
#define BAR_WIDTH 20

typedef struct step_fields {
    char text[FIELDS][FIELD_SIZE]; /* "": no value to show */
} step_fields;

static void put(step_fields *f, field which, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void put(step_fields *f, field which, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(f->text[which], FIELD_SIZE, format, args);
    va_end(args);
}

static void put_speed(step_fields *f, const clt_step_metrics *m)
{
    char rate[32];
    if (isfinite(m->tokens_per_s) && m->tokens_per_s > 1.5 * m->samples_per_s)
        put(f, SPEED, "%s tok/s", clt_count_text(m->tokens_per_s, rate, sizeof rate));
    else if (isfinite(m->samples_per_s) && m->samples_per_s > 0)
        put(f, SPEED, "%s samples/s", clt_count_text(m->samples_per_s, rate, sizeof rate));
}

static void put_bar(step_fields *f, const clt_step_metrics *m)
{
    char bar[BAR_WIDTH + 1];
    int64_t total = m->steps_total;
    int filled = total > 0 ? (int)(BAR_WIDTH * (double)m->step / (double)total) : 0;
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    bar[BAR_WIDTH] = '\0';
    put(f, BAR, "[%s]", bar);
}

/* Each loss of several by its name, which is shorter here: "masked" of masked_loss. None of them if they do
 * not fit. */
static void put_losses(step_fields *f, const clt_step_metrics *m)
{
    char all[FIELD_SIZE] = "", value[32];
    int at = 0;
    for (int i = 0; m->n_losses > 1 && i < m->n_losses && at < FIELD_SIZE; i++) {
        const char *name = m->loss_name[i];
        size_t length = strlen(name), end = strlen("_loss");
        if (length > end && strcmp(name + length - end, "_loss") == 0)
            length -= end;
        at += snprintf(all + at, FIELD_SIZE - (size_t)at, "%s%.*s %s", i ? ", " : "", (int)length, name,
                       clt_value_text(m->loss_value[i], 4, value, sizeof value));
    }
    if (at > 0 && at + 2 < FIELD_SIZE)
        put(f, LOSSES, "(%s)", all);
}

static void fill(step_fields *f, const clt_step_metrics *m, bool bar)
{
    char eta[32], loss[32];
    memset(f, 0, sizeof *f);
    put(f, STEP, "step %lld/%lld", (long long)m->step, (long long)m->steps_total);
    if (bar)
        put_bar(f, m);
    put(f, LOSS, "loss %s", clt_value_text(m->loss, 4, loss, sizeof loss));
    put_losses(f, m);
    put_speed(f, m);
    if (isfinite(m->eta_s))
        put(f, ETA, "eta %s", clt_duration_text(m->eta_s, eta, sizeof eta));
    if (isfinite(m->lr))
        put(f, LR, "lr %.2e", m->lr);
    if (isfinite(m->step_ms))
        put(f, MS, "%.1f ms", m->step_ms);
    if (isfinite(m->accuracy))
        put(f, ACCURACY, "acc %.1f%%", 100 * m->accuracy);
    if (isfinite(m->grad_norm))
        put(f, NORM, "gnorm %.3g", m->grad_norm);
    if (isfinite(m->comm_ms) && m->comm_ms > 0)
        put(f, COMM, "comm %.1f ms", m->comm_ms);
    if (isfinite(m->loss_scale) && m->loss_scale != 1) /* without loss scaling the scale is 1 */
        put(f, SCALE, "scale %g", m->loss_scale);
    if (m->skipped > 0)
        put(f, SKIPPED, "skipped %lld", (long long)m->skipped);
}

/* The separator before a field. */
static const char *gap(field which)
{
    return which == STEP ? "" : which == BAR || which == LOSSES ? " " : " | ";
}

static int taken_by(const step_fields *f, field which)
{
    return (int)(strlen(gap(which)) + strlen(f->text[which]));
}

bool clt_line_stays(clt_line_pace *pace, int64_t step, bool last, double now)
{
    bool due = step % pace->every == 0 && now - pace->told >= pace->apart;
    if (pace->any && !last && !due)
        return false;
    pace->any = true;
    pace->told = now;
    return true;
}

const char *clt_step_line(const clt_step_metrics *m, int columns, bool bar, char buffer[CLT_LINE_SIZE])
{
    step_fields f;
    bool shown[FIELDS] = {false};
    int room = columns > 0 ? columns : CLT_LINE_SIZE - 1, used = 0;
    size_t at = 0;
    fill(&f, m, bar);
    if (taken_by(&f, STEP) + taken_by(&f, LOSS) + taken_by(&f, SPEED) > room)
        put(&f, STEP, "step %lld", (long long)m->step);
    for (size_t i = 0; i < sizeof by_weight / sizeof by_weight[0]; i++) {
        field next = by_weight[i];
        if (!f.text[next][0])
            continue;
        if (used + taken_by(&f, next) > room)
            break; /* drops all less important fields, too, so that all lines have the same fields */
        used += taken_by(&f, next);
        shown[next] = true;
    }
    buffer[0] = '\0';
    for (field i = STEP; i < FIELDS; i++)
        if (shown[i])
            at += (size_t)snprintf(buffer + at, CLT_LINE_SIZE - at, "%s%s", at ? gap(i) : "", f.text[i]);
    return buffer;
}

/* --- an evaluation --- */

static void add(char *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(char *buffer, const char *format, ...)
{
    size_t at = strlen(buffer);
    va_list args;
    va_start(args, format);
    vsnprintf(buffer + at, CLT_LINE_SIZE - at, format, args);
    va_end(args);
}

const char *clt_language_text(const clt_eval_metrics *m, const char *separator, char *buffer, size_t size)
{
    int n = 0;
    char text[32];
    buffer[0] = '\0';
    if (isfinite(m->perplexity) && m->perplexity > 0)
        n = snprintf(buffer, size, "%sperplexity %s", separator,
                     clt_value_text(m->perplexity, m->perplexity < 1000 ? 2 : 0, text, sizeof text));
    if (isfinite(m->bits_per_byte) && m->bits_per_byte > 0 && n >= 0 && (size_t)n < size)
        snprintf(buffer + n, size - (size_t)n, "%s%.3f bits/byte", separator, m->bits_per_byte);
    return buffer;
}

/* The name of one loss of several: the name of its op ("cross entropy"), or its own name if another loss has
 * the same op. */
static const char *loss_label(const clt_eval_metrics *m, int at, char *buffer, size_t size)
{
    bool alone = m->loss_op[at][0] != '\0';
    for (int i = 0; i < m->n_losses; i++)
        alone = alone && (i == at || strcmp(m->loss_op[i], m->loss_op[at]) != 0);
    (void)snprintf(buffer, size, "%s", alone ? m->loss_op[at] : m->loss_name[at]);
    for (char *c = buffer; alone && *c; c++)
        *c = *c == '_' ? ' ' : *c;
    return buffer;
}

const char *clt_eval_line(const clt_eval_metrics *m, char buffer[CLT_LINE_SIZE])
{
    char language[96], loss[32], label[64];
    snprintf(buffer, CLT_LINE_SIZE, "eval%s", m->on_train ? " on the TRAINING data" : "");
    if (m->step >= 0)
        add(buffer, " at step %lld", (long long)m->step);
    add(buffer, " | loss %s%s", clt_value_text(m->loss, 4, loss, sizeof loss),
        clt_language_text(m, " | ", language, sizeof language));
    if (isfinite(m->accuracy))
        add(buffer, " | accuracy %.2f%%", 100 * m->accuracy);
    if (m->classes > 0 && isfinite(m->top_k_accuracy))
        add(buffer, " | top-%d %.2f%%", m->top_k, 100 * m->top_k_accuracy);
    if (m->classes > 0 && isfinite(m->dice))
        add(buffer, " | mean Dice %.4f", m->dice);
    else if (m->classes > 0 && m->step >= 0 &&
             isfinite(m->f1)) /* unknown unless classes are counted, which training does only on request */
        add(buffer, " | macro F1 %.4f", m->f1);
    if (m->values > 0) {
        add(buffer, " | MAE %s", clt_value_text(m->mae, 4, loss, sizeof loss));
        add(buffer, " | RMSE %s", clt_value_text(m->rmse, 4, loss, sizeof loss));
    }
    if (m->values > 0 && isfinite(m->r2))
        add(buffer, " | R2 %.4f", m->r2);
    if (m->values > 0 && m->no_correlation)
        add(buffer, " | no correlation: %s", m->no_correlation);
    else if (m->values > 0)
        add(buffer, " | Pearson %.4f | Spearman %.4f", m->pearson, m->spearman);
    if (m->answers > 0)
        add(buffer, " | exact match %.2f%% | F1 %.2f%%", 100 * m->exact, 100 * m->answer_f1);
    if (m->entities > 0)
        add(buffer, " | entities: precision %.2f%%, recall %.2f%%, F1 %.2f%%", 100 * m->entity_precision,
            100 * m->entity_recall, 100 * m->entity_f1);
    if (m->volumes > 0)
        add(buffer, " | Dice %s of %lld volume%s", clt_value_text(m->volume_dice, 4, loss, sizeof loss),
            (long long)m->volumes, CLT_PLURAL(m->volumes));
    for (int i = 0; m->n_losses > 1 && i < m->n_losses; i++)
        add(buffer, " | %s %s", loss_label(m, i, label, sizeof label),
            clt_value_text(m->loss_value[i], 4, loss, sizeof loss));
    add(buffer, " | %lld", (long long)m->samples);
    if (m->available > m->samples)
        add(buffer, " of %lld", (long long)m->available);
    add(buffer, " sample%s", CLT_PLURAL(m->available > m->samples ? m->available : m->samples));
    if (m->left_out > 0)
        add(buffer, " (%lld unreadable, skipped)", (long long)m->left_out);
    add(buffer, " | %.1f s", m->seconds);
    return buffer;
}

/* --- progress --- */

#define COUNTED 9999 /* larger totals are shown as a percentage */

const char *clt_progress_line(const char *what, int64_t done, int64_t total, double seconds,
                              double since_change, int columns, char buffer[CLT_LINE_SIZE])
{
    char time[32];
    size_t name = strcspn(what, ":");
    const char *detail = what[name] ? what + name + 1 + strspn(what + name + 1, " ") : "";
    snprintf(buffer, CLT_LINE_SIZE, "%.*s", name < 200 ? (int)name : 200, what);
    if (total > COUNTED)
        add(buffer, " %.0f%%", 100 * (double)done / (double)total);
    else if (total > 0)
        add(buffer, " %lld/%lld", (long long)done, (long long)total);
    add(buffer, " | %s", clt_duration_text(seconds, time, sizeof time));
    if (done > 0 && done < total && seconds > 1) {
        double left = (double)(total - done) * (seconds - since_change) / (double)done - since_change;
        if (left >= 1)
            add(buffer, " | about %s left", clt_duration_text(left, time, sizeof time));
    }
    if (detail[0] && (columns == 0 || (int)(strlen(buffer) + strlen(detail)) + 3 <= columns))
        add(buffer, " | %s", detail);
    return buffer;
}

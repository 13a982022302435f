/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the peak of memory. Live memory grows only where the lifetime of a tensor begins, so the peak is at
 * one of these times. */
#include "engine/report/times/memory_peak.h"

#include <string.h>

#define MIB 1048576.0

const char *clt_peak_class_name(clt_peak_class c)
{
    static const char *const names[CLT_PEAK_CLASS_COUNT] = {
        "parameters",   "gradients",         "optimizer state",   "schedule and state",       "inputs",
        "staging ring", "saved activations", "other activations", "gradients of activations", "workspace"};
    return (unsigned)c < CLT_PEAK_CLASS_COUNT ? names[c] : "?";
}

/* True for tensors in the plan's own slabs that do not live during the whole step. */
static bool passes_through(const clt_plan *plan, size_t i)
{
    const clt_tensor *t = clt_graph_tensor(plan->graph, (int32_t)i);
    return i < plan->n_place && plan->place[i].kind == CLT_PLACE_PLAN && t->view_of < 0 &&
           t->cls != CLT_TC_FIELD && t->cls != CLT_TC_STEP && t->cls != CLT_TC_CONSTANT;
}

static bool alive(const clt_place *p, uint32_t time)
{
    return p->first <= time && time <= p->last;
}

static uint64_t alive_at(const clt_plan *plan, uint32_t time)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < plan->graph->n_tensors; i++)
        if (passes_through(plan, i) && alive(&plan->place[i], time))
            sum += plan->place[i].bytes;
    return sum;
}

static uint32_t peak_time(const clt_plan *plan)
{
    uint64_t most = 0;
    uint32_t time = 0;
    for (size_t i = 0; i < plan->graph->n_tensors; i++) {
        if (!passes_through(plan, i))
            continue;
        uint64_t sum = alive_at(plan, plan->place[i].first);
        if (sum > most) {
            most = sum;
            time = plan->place[i].first;
        }
    }
    return time;
}

static uint32_t backward_begins(const clt_plan *plan)
{
    return plan->phase[CLT_PHASE_BACKWARD].count ? plan->time[CLT_PHASE_BACKWARD][0] : UINT32_MAX;
}

static clt_peak_class class_of(const clt_plan *plan, size_t i)
{
    const clt_place *p = &plan->place[i];
    uint32_t backward = backward_begins(plan);
    switch (clt_graph_tensor(plan->graph, (int32_t)i)->cls) {
    case CLT_TC_SAVED:
        return CLT_PEAK_SAVED;
    case CLT_TC_GRADIENT:
    case CLT_TC_PARAM_GRAD:
        return CLT_PEAK_ACTIVATION_GRADIENTS;
    case CLT_TC_WORKSPACE:
        return CLT_PEAK_WORKSPACE;
    default:
        return p->first < backward && p->last != UINT32_MAX && p->last >= backward ? CLT_PEAK_SAVED
                                                                                   : CLT_PEAK_ACTIVATIONS;
    }
}

/* Inserts a tensor into the sorted list of the largest ones. */
static void note_tensor(clt_memory_peak *out, clt_peak_tensor t)
{
    int at = out->n_tensors;
    while (at > 0 && out->tensor[at - 1].bytes < t.bytes)
        at--;
    if (at == CLT_PEAK_TENSORS)
        return;
    int moved = out->n_tensors < CLT_PEAK_TENSORS ? out->n_tensors++ : CLT_PEAK_TENSORS - 1;
    memmove(&out->tensor[at + 1], &out->tensor[at], (size_t)(moved - at) * sizeof t);
    out->tensor[at] = t;
}

static void find_command(const clt_plan *plan, uint32_t time, clt_memory_peak *out)
{
    out->command = "";
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        for (size_t c = 0; c < plan->phase[p].count; c++)
            if (plan->time[p][c] >= time) {
                out->phase = (clt_phase)p;
                out->command = plan->phase[p].commands[c].label;
                return;
            }
}

static void add_store(const clt_plan *plan, clt_memory_peak *out)
{
    clt_memory_report r = clt_plan_memory(plan->options.mode == CLT_PLAN_TRAIN ? plan : NULL,
                                          plan->options.mode == CLT_PLAN_TRAIN ? NULL : plan);
    out->bytes[CLT_PEAK_PARAMETERS] = r.params;
    out->bytes[CLT_PEAK_GRADIENTS] = r.gradients;
    out->bytes[CLT_PEAK_OPTIMIZER] = r.optimizer;
    out->bytes[CLT_PEAK_INPUTS] = r.inputs;
    out->bytes[CLT_PEAK_STAGING] = r.staging;
    /* memory that the memory report counts in addition, whether it has a class or not */
    out->bytes[CLT_PEAK_STATE] =
        r.total - r.params - r.gradients - r.optimizer - r.inputs - r.staging - r.activations;
    out->allocated = r.total;
}

clt_status clt_memory_peak_find(const clt_plan *plan, clt_memory_peak *out)
{
    memset(out, 0, sizeof *out);
    uint32_t time = peak_time(plan);
    add_store(plan, out);
    find_command(plan, time, out);
    for (size_t i = 0; i < plan->graph->n_tensors; i++) {
        if (!passes_through(plan, i) || !alive(&plan->place[i], time))
            continue;
        clt_peak_class cls = class_of(plan, i);
        out->bytes[cls] += plan->place[i].bytes;
        note_tensor(out, (clt_peak_tensor){(int32_t)i, cls, plan->place[i].bytes});
    }
    for (int c = 0; c < CLT_PEAK_CLASS_COUNT; c++)
        out->live += out->bytes[c];
    return CLT_OK;
}

clt_status clt_memory_peak_text(const clt_plan *plan, const clt_memory_peak *peak, clt_str *out)
{
    clt_str_printf(out,
                   "memory at the peak of the plan (%s, '%s'): %.1f MiB alive, %.1f MiB with gaps and "
                   "alignment\n",
                   clt_phase_name(peak->phase), peak->command, (double)peak->live / MIB,
                   (double)peak->allocated / MIB);
    for (int c = 0; c < CLT_PEAK_CLASS_COUNT; c++)
        if (peak->bytes[c])
            clt_str_printf(out, "  %-26s %12.3f MiB  %5.1f%%\n", clt_peak_class_name((clt_peak_class)c),
                           (double)peak->bytes[c] / MIB, 100.0 * (double)peak->bytes[c] / (double)peak->live);
    for (int i = 0; i < peak->n_tensors; i++) {
        const clt_peak_tensor *p = &peak->tensor[i];
        const clt_tensor *t = clt_graph_tensor(plan->graph, p->tensor);
        char shape[CLT_SHAPE_TEXT];
        clt_str_printf(out, "  %s%-26s %12.3f MiB  %s %s %s\n", i ? "" : "largest of the last four:\n  ",
                       clt_peak_class_name(p->cls), (double)p->bytes / MIB, t->name,
                       clt_shape_text(&t->shape, shape, sizeof shape), clt_dtype_name(t->dtype));
    }
    return clt_str_check(out);
}

/* Writes a class with its name as a key: "saved activations" -> saved_activations. */
static void json_class(clt_json_writer *w, clt_peak_class c, uint64_t bytes)
{
    char key[32] = {0};
    const char *name = clt_peak_class_name(c);
    for (size_t i = 0; name[i] && i + 1 < sizeof key; i++)
        key[i] = name[i] == ' ' ? '_' : name[i];
    clt_jw_kint(w, key, (int64_t)bytes);
}

void clt_memory_peak_json(const clt_plan *plan, const clt_memory_peak *peak, clt_json_writer *w)
{
    clt_jw_object(w);
    clt_jw_kstring(w, "phase", clt_phase_name(peak->phase));
    clt_jw_kstring(w, "command", peak->command);
    clt_jw_kint(w, "live", (int64_t)peak->live);
    clt_jw_kint(w, "allocated", (int64_t)peak->allocated);
    clt_jw_kobject(w, "classes");
    for (int c = 0; c < CLT_PEAK_CLASS_COUNT; c++)
        json_class(w, (clt_peak_class)c, peak->bytes[c]);
    clt_jw_end_object(w);
    clt_jw_karray(w, "largest");
    for (int i = 0; i < peak->n_tensors; i++) {
        clt_jw_object(w);
        clt_jw_kstring(w, "name", clt_graph_tensor(plan->graph, peak->tensor[i].tensor)->name);
        clt_jw_kstring(w, "class", clt_peak_class_name(peak->tensor[i].cls));
        clt_jw_kint(w, "bytes", (int64_t)peak->tensor[i].bytes);
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
    clt_jw_end_object(w);
}
